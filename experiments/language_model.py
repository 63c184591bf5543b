"""The small language model that the experiment starts from: Llama's layers, trained on the standard library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
import torch
import transformers

from experiments.training import minimise, mixed_precision, shuffled
from fgsv.utilities.language.network import use_plain_attention


@dataclass(frozen=True)
class BaseModel:
    """Sizes of the model and its training."""

    vocabulary: int = 8192
    hidden: int = 384
    layers: int = 6
    heads: int = 6
    context: int = 256
    files: int | None = None
    """Files of the standard library that it is trained on, drawn at random (None: all)."""
    sequences: int = 9000
    """Most sequences of these files."""
    epochs: int = 6
    batch: int = 64
    rate: float = 1e-3
    seed: int = 0


def train_tokenizer(texts: Sequence[str], size: int) -> Any:
    """Return a byte-level BPE tokenizer trained on texts."""
    found = tokenizers.Tokenizer(tokenizers.models.BPE())
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=found, bos_token="<s>")


def train_model(texts: Sequence[str], tokenizer: Any, sizes: BaseModel, device: torch.device) -> Any:
    """Return a model of Llama's layers, trained on texts from random weights."""
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=8 * sizes.hidden // 3,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.heads,
        max_position_embeddings=sizes.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(sizes.seed)
        model = transformers.LlamaForCausalLM(config)
    model.to(device)
    use_plain_attention(model, sizes.context)
    start = [tokenizer.bos_token_id]
    streams = [start + ids for ids in tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]]
    pieces = [s[k : k + sizes.context] for s in streams for k in range(0, len(s) - sizes.context + 1, sizes.context)]
    if len(pieces) < sizes.batch:
        raise ValueError(f"the standard library has {len(pieces)} sequences of {sizes.context} tokens: too few")
    generator = torch.Generator().manual_seed(sizes.seed)
    rows = torch.randperm(len(pieces), generator=generator)[: sizes.sequences]
    data = torch.tensor([pieces[row] for row in rows.tolist()]).to(device)

    def loss_of(tokens: torch.Tensor) -> torch.Tensor:
        with mixed_precision(device):
            logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        for chosen in shuffled(len(data), sizes.batch, generator):
            yield (data[chosen.to(device)],)

    minimise("base model", model, loss_of, batches(), sizes.epochs * len(data) // sizes.batch, sizes.rate)
    model.set_attn_implementation("sdpa")
    return model
