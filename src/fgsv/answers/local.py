"""A scorer on this machine: a causal language model of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fgsv.answers.scorers import Ids
from fgsv.packages import versions
from fgsv.types import Floats
from fgsv.utilities.language.model import load, tokenizer_digest, weights_digest
from fgsv.utilities.language.tokens import Reader

BATCH_TOKENS = {"cuda": 2**16, "cpu": 2**12}
"""Tokens of a padded batch of prompts."""
NOISE = {"float32": 1e-4, "bfloat16": 2e-2}
"""Standard error of a token's log-likelihood, due to rounding: batches of other shapes add in another order."""


class HF:
    """A causal language model of transformers: an object, a folder, or a name on the hub.

    Args:
        model: The model.
        tokenizer: Its tokenizer; needed for a model that is an object.
        dtype: "float32" or "bfloat16".
        device: Default: a GPU if there is one.

    """

    def __init__(
        self, model: Any, tokenizer: Any = None, *, dtype: str = "float32", device: str | torch.device | None = None
    ) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype = dtype
        self.model, self.tokenizer = load(model, tokenizer, dtype, self.device)
        self._reader = Reader(self.tokenizer, self.model.get_input_embeddings().weight.shape[0])

    @cached_property
    def frame(self) -> Mapping[str, str]:
        """The engine, the hashes of weights and tokenizer, the precision."""
        return {
            "engine": f"torch {versions().get('torch')} {self.device.type}",
            "model": weights_digest(self.model),
            "tokenizer": tokenizer_digest(self.tokenizer),
            "precision": self.dtype,
        }

    @property
    def noise(self) -> float:
        """Standard error of the log-likelihood of one token."""
        return NOISE[self.dtype]

    @property
    def most_tokens(self) -> int:
        """Tokens that the model takes."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @property
    def start(self) -> list[int]:
        """The token for the beginning of a text, if the tokenizer has one."""
        return self._reader.start

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text; an error names one that cannot be read."""
        names = [f"the text {text[:40]!r}" for text in texts]
        return [ids.tolist() for ids in self._reader.tokens(texts, names)]

    def text(self, ids: Ids) -> str:
        """Return the text of tokens."""
        return str(self.tokenizer.decode(list(ids)))

    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        found = np.empty(len(prompts))
        order = sorted(range(len(prompts)), key=lambda k: len(prompts[k]), reverse=True)
        while order:
            length = len(prompts[order[0]]) + len(answer)
            size = max(1, BATCH_TOKENS[self.device.type] // length)
            rows, order = order[:size], order[size:]
            found[rows] = self._batch([[*prompts[row], *answer] for row in rows], answer)
        return found

    @torch.inference_mode()
    def _batch(self, rows: Sequence[list[int]], answer: Ids) -> Floats:
        """Return the log-likelihoods of the answer that each row ends with; rows are padded on their left."""
        length = max(map(len, rows))
        ids = torch.tensor([[0] * (length - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
        places = (mask.cumsum(1) - 1).clamp(min=0)
        logits = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=places.to(self.device),
            use_cache=False,
            logits_to_keep=len(answer) + 1,
        ).logits[:, :-1]
        wanted = torch.tensor(list(answer), device=self.device).expand(len(rows), -1)
        logs = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
        return np.asarray(logs.gather(-1, wanted[..., None])[..., 0].double().sum(1).cpu())
