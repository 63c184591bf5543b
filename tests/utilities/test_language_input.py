"""Texts as tokens, and what a language model's game refuses before it trains."""

from functools import cache, partial

import numpy as np
import pytest
import tiny_language as tiny
from heavy import Lazy, needs

pytestmark = [pytest.mark.torch, needs("torch", "transformers")]
torch, transformers, language = Lazy("torch"), Lazy("transformers"), Lazy("fgsv.utilities.language")
tokenized = Lazy("fgsv.utilities.language.tokens")


@cache
def tokenizer():
    return tiny.tokenizer()


@cache
def reader():
    return tokenized.Reader(tokenizer(), 300)


@pytest.mark.parametrize("context", [2, 3, 5, 9, 50])
@pytest.mark.parametrize("first", [1, 2, 7, 19])
def test_every_token_that_counts_is_predicted_once(context, first):
    tokens = np.arange(20)
    windows = list(tokenized.windows(tokens, first, context))
    predicted = [token for piece, start in windows for token in piece[start:].tolist()]
    assert predicted == list(range(first, 20))
    assert all(len(piece) <= context for piece, _ in windows)


def test_an_answer_has_as_much_of_its_prompt_before_it_as_fits():
    ((piece, first),) = tokenized.windows(np.arange(20), 17, 8)
    assert piece.tolist() == list(range(12, 20))
    assert first == 5


def test_texts_of_a_player_are_packed_and_padded():
    texts = ["the dog", "it was", "the times"]
    ids = [tokenizer()(text, add_special_tokens=False)["input_ids"] for text in texts]
    found = tokenized.sequences_of_documents(reader(), [[texts[0]], texts[1:]], context=50)
    assert found.owner.tolist() == [0, 1]
    assert found.tokens[1].tolist() == [0, *ids[1], 0, *ids[2]]
    assert found.tokens[0].tolist() == [0, *ids[0], *[0] * (found.length - 1 - len(ids[0]))]
    assert found.n_counted.tolist() == [len(ids[0]), len(ids[1]) + len(ids[2]) + 1]
    assert found.n_cut == 0


def test_only_answers_count():
    found = tokenized.sequences_of_tests(reader(), {"a": [("the quick", " brown fox"), ("", "the dog")]}, context=50)
    counts = [len(tokenizer()(text, add_special_tokens=False)["input_ids"]) for text in (" brown fox", "the dog")]
    assert found.counted.sum(dim=1).tolist() == counts


def refused(match, *, kind=ValueError, documents=("a text", "another"), tests=None, **options):
    given = {"model": tiny.llama(), "tokenizer": tokenizer()} | options
    with pytest.raises(kind, match=match):
        language.fine_tuned(documents, tests or {"a": ["a test"]}, **given)


def test_texts_without_tokens_are_named():  # test_ngram has what is wrong before there are tokens
    refused(r"document 1 is not valid Unicode text \(at position 2\)", documents=["a", "b \udcff"])
    bare = tiny.tokenizer()
    bare.bos_token = None
    refused("document 0 has no tokens to predict", documents=["a", "a text"], tokenizer=bare)


def test_models_that_do_not_fit_are_refused(tmp_path):
    refused("the tokenizer does not match the model: document 0 has token", model=tiny.llama(vocab_size=70))
    unknowing = tiny.tokenizer()
    unknowing.unk_token = unknowing.convert_ids_to_tokens(tokenizer()("a", add_special_tokens=False)["input_ids"][0])
    refused("it knows less than half of document 0", documents=["aaaa"], tokenizer=unknowing)
    refused("cannot load the language model", model=str(tmp_path / "nowhere"), tokenizer=None)
    refused("needs its tokenizer", tokenizer=None)
    refused("model must be a model of transformers", kind=TypeError, model=3)
    refused("is not a causal language model", model=tiny.llama().model)
    refused("no projections to adapt: expected linear layers named to_q; it has .*q_proj", targets=("to_q",))
    refused("expected linear layers named to_q, to_k", targets="to_q+to_k")
    refused("the output head 'lm_head' cannot be adapted", targets=("lm_head",))


def test_models_that_are_not_causal_are_refused(tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=300, **sizes)
    refused("looks at later tokens", model=transformers.BertLMHeadModel(config).eval())
    transformers.BertModel(config).save_pretrained(tmp_path)
    refused("lacks weights of a causal language model, such as cls", model=tmp_path)


def test_settings_are_checked_before_the_model_is_loaded():
    refused("context must be from 2 to 64 tokens, got 65", context=65)  # 64 is the model's own
    no_model = partial(refused, model=3)
    no_model("context must be at least 2 tokens, got 1", context=1)
    no_model("epochs and steps exclude each other", epochs=2, steps=3)
    no_model("steps must be at least 1", steps=0)
    no_model("rank must be at least 1", rank=0)
    no_model("training_seeds must be at least 1, got 'fresh'", training_seeds="fresh")
    no_model("per must be 'token' or 'byte'", per="word")
    no_model("dtype must be float32 or bfloat16", dtype="float16")
    no_model("learning_rate must be positive", learning_rate=0)
    no_model("schedule must be constant or linear", schedule="cosine")
    no_model("adapters_at_once must be at least 1", adapters_at_once=0)
    if not torch.cuda.is_available():
        no_model("finds no CUDA GPU here; use device='cpu'", device="cuda")
