"""A tiny language model with random weights, its tokenizer, and texts: what the tests of language models share."""

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "def add(left, right): return left + right",
    "it was the best of times, it was the worst of times",
    "import numpy as np; x = np.zeros(3)",
    ["a short one", "and a second text of the same player, which is a little longer than the first"],
    "to be or not to be, that is the question",
]
TESTS = {
    "prose": ["it was the age of wisdom", ("to be or", " not to be")],
    "code": ["def sub(left, right): return left - right"],
}


def tokenizer(size=300):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = [text for texts in TEXTS for text in ([texts] if isinstance(texts, str) else texts)]
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    found.train_from_iterator(words, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=found, bos_token="<s>")


def llama(**change):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": 300,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
    }
    return _made(LlamaForCausalLM, LlamaConfig(**(sizes | change)))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=300, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    return _made(GPT2LMHeadModel, config)


def _made(kind, config):
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config).eval()
