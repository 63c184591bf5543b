"""Answers a second on one GPU: eight passages of 128 tokens, an answer of 64, a model of random weights.

Values need no trained model to be timed. `--small` is a tiny model and short passages, for a CPU.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.answers import HF, Answer, Passage, game_of
from fgsv.methods.enumeration import everything
from fgsv.types import Floats, Masks

PASSAGES = 8
BUDGETS = (32, 64)
WORDS = 32_000


class Timed(HF):
    """A scorer that counts the seconds that it takes, and its calls."""

    seconds = 0.0
    calls = 0

    def logprob(self, prompts: Any, answer: Any) -> Floats:
        """Return what the scorer does."""
        started = time.perf_counter()
        found = super().logprob(prompts, answer)  # its results are on the CPU: the GPU is done
        self.seconds += time.perf_counter() - started
        self.calls += 1
        return found


def model(small: bool) -> Any:
    """Return a model of Llama's layers, of 1.1 billion random weights, or of few."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = (64, 128, 2, 4, 2) if small else (2048, 5632, 22, 32, 4)
    hidden, inner, layers, heads, of_keys = sizes
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=of_keys,
        max_position_embeddings=2048,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config)


def tokenizer() -> Any:
    """Return a tokenizer to which each word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{k}": k for k in range(WORDS)}
    found = Tokenizer(models.WordLevel(words, unk_token="w0"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=found, bos_token="w1")


def answers(count: int, passage: int, length: int) -> list[Answer]:
    """Return answers of random words."""
    rng = np.random.default_rng(0)

    def words(n: int) -> str:
        return " ".join(f"w{k}" for k in rng.integers(2, WORDS, n))

    return [
        Answer(words(16), words(length), [Passage(words(passage), f"publisher {k}") for k in range(PASSAGES)])
        for _ in range(count)
    ]


def measured(small: bool, count: int) -> pd.DataFrame:
    """Return a row for each precision, way and budget."""
    import torch

    rows = []
    given = answers(count + 1, *((24, 12) if small else (128, 64)))
    device = "cpu" if small or not torch.cuda.is_available() else "cuda"
    all_masks: Masks = np.concatenate([part.masks() for part in everything(PASSAGES)])
    around = fgsv.answers.Prompt("w2 ", " w3 {query} w4")
    made = model(small)
    for dtype in ("float32",) if small else ("bfloat16", "float32"):
        whole: dict[bool | None, Floats] = {}
        for tree in (False, True, None):
            scorer = Timed(made, tokenizer(), dtype=dtype, device=device, tree=tree)
            games = [game_of(each, scorer, cut="passages", prompt=around) for each in given]
            for budget in BUDGETS:  # the first calls of all take longer
                fgsv.value(games[0], budget=budget, progress=False)
            games[0](all_masks)
            scorer.seconds = 0.0
            whole[tree] = games[0](all_masks)
            every = scorer.seconds
            for budget in BUDGETS:
                scorer.seconds, scorer.calls = 0.0, 0
                started = time.perf_counter()
                for game in games[1:]:
                    fgsv.value(game, budget=budget, progress=False)
                seconds = (time.perf_counter() - started) / count
                rows.append(
                    {
                        "precision": dtype,
                        "tree": "chosen" if tree is None else tree,
                        "evaluations": budget,
                        "answers a second": 1 / seconds,
                        "seconds of the model": scorer.seconds / count,
                        "calls": scorer.calls / count,
                        "seconds for all 256 at once": every,
                    }
                )
        gap = np.abs(whole[True] - whole[False]).max()
        print(f"{dtype}: tree and batches differ by at most {gap:.2g}", flush=True)
    return pd.DataFrame(rows)
