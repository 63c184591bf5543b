"""Scorers: what gives the log-likelihood of an answer, given prompts; or a judge of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fgsv.types import Floats

if TYPE_CHECKING:
    from fgsv.utilities.language.tokens import Reader

Ids = Sequence[int]
Judge = Callable[[str, str, list[str]], float]
"""From the query, the answer and the texts of a coalition, in their order, to what they are worth."""


class Scorer(Protocol):
    """A language model that says how likely an answer is. All of it is in tokens: to join texts would move them."""

    @property
    def frame(self) -> Mapping[str, str]:
        """What its numbers depend on: engine, the model's hash, precision, flags; a ledger records it."""

    @property
    def noise(self) -> float:
        """Standard error of the log-likelihood of one token, due to the engine's rounding."""

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest prompt with its answer."""

    @property
    def reader(self) -> Reader:
        """What turns texts into tokens."""

    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the natural log-likelihood of the answer's tokens after each prompt."""


def as_scorer(given: Any) -> Scorer | None:
    """Return what was given if it is a scorer, None if it is a judge. Its properties are not asked: one is a hash."""
    return given if callable(getattr(given, "logprob", None)) else None


def logit(found: Floats) -> Floats:
    """Return log p - log(1 - p) of log-likelihoods log p, the target of ContextCite; at most 30.

    >>> logit(np.log([0.5, 0.9])).round(4).tolist()
    [0.0, 2.1972]
    """
    below = np.minimum(found, -np.exp(-30.0))
    return np.asarray(below - np.log(-np.expm1(below)))


def of_logit(found: Floats) -> Floats:
    """Return the log-likelihoods of logits.

    >>> of_logit(logit(np.log([0.5, 0.9]))).round(4).tolist()
    [-0.6931, -0.1054]
    """
    return -np.logaddexp(0.0, -found)


TARGETS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "log-likelihood": (np.asarray, np.asarray),
    "probability": (np.exp, lambda found: np.log(np.maximum(found, 1e-300))),
    "logit": (logit, of_logit),
}
"""What a coalition may be worth, from the log-likelihood of the answer; and that, from its worth."""
