"""A scorer on this machine: a causal language model of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from fgsv.answers.scorers import Ids
from fgsv.packages import versions
from fgsv.types import Floats
from fgsv.utilities.language.continuations import Continuations
from fgsv.utilities.language.network import load, tokenizer_digest, weights_digest
from fgsv.utilities.language.tokens import Reader

NOISE = {"float32": 1e-4, "bfloat16": 2e-2}
"""Standard error of a token's log-likelihood, due to rounding: batches of other shapes add in another order."""


class HF:
    """A causal language model of transformers: an object, a folder, or a name on the hub.

    >>> import fgsv
    >>> scorer = fgsv.answers.HF("models/llama", dtype="bfloat16")  # doctest: +SKIP

    Args:
        model: The model.
        tokenizer: Its tokenizer; needed for a model that is an object.
        dtype: "float32" or "bfloat16".
        device: Default: a GPU if there is one.
        tree: Whether prompts are scored along trees of their common beginnings, each of which is computed once, or in
            padded batches. Default: on a CPU, what is less work for the prompts of a call, counted in tokens and
            their attention; batches on a GPU. Log-likelihoods are the same but for rounding.

    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        dtype: str = "float32",
        device: str | torch.device | None = None,
        tree: bool | None = None,
    ) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype = dtype
        self.model, read = load(model, tokenizer, dtype, self.device)
        self.reader = Reader(read, self.model.get_input_embeddings().weight.shape[0])
        self.noise = NOISE[dtype]
        self._continuations = Continuations(self.model, tree)
        self.most_tokens = int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @cached_property
    def frame(self) -> Mapping[str, str]:
        """The engine, the hashes of weights and tokenizer, the precision, and the way of scoring, which rounds."""
        return {
            "engine": f"torch {versions().get('torch')} {self.device.type}",
            "model": weights_digest(self.model),
            "tokenizer": tokenizer_digest(self.reader.tokenizer),
            "precision": self.dtype,
            "tree": str(self._continuations.tree),
        }

    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        return self._continuations.log_likelihood(prompts, answer)
