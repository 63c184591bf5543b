"""Answers: the shares of one run by several scores and slices of the test rows, with their joint error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.types import Floats
from fgsv.valuation import Valuation


@dataclass(frozen=True, eq=False)
class Answers:
    """Shares by Q questions; the first is the score on which payments are based.

    The questions are outputs of the same trainings, so the errors of their shares are correlated.
    """

    questions: tuple[str, ...]
    totals: Floats
    """(Q,): U(N) - U(0) by each; if it is not positive, there are no shares."""
    shares: Floats
    """(Q, K): NaN if there are none."""
    covariances: Floats
    """(K, Q, Q): covariances of the errors of each group's shares, due to the run and to training seeds."""
    freedom: float

    @classmethod
    def of(cls, raw: Valuation, first: Valuation, metric: str, also: Sequence[str]) -> Answers:
        """Return the answers of a valuation whose last outputs are the further questions; `first` is the score's."""
        others = [raw.combined(row) for row in np.eye(len(raw.outputs or ()))[-len(also) :]]
        return cls._joined([first, *others], (metric, *also))

    @classmethod
    def of_one(cls, valuation: Valuation, question: str) -> Answers:
        """Return the only answer of a valuation."""
        return cls._joined([valuation], (question,))

    @classmethod
    def _joined(cls, each: Sequence[Valuation], questions: tuple[str, ...]) -> Answers:
        n_groups = each[0].partition.n_groups
        totals = np.array([float(one.total) for one in each])
        shares = np.stack([one.shares() if one.total > 0 else np.full(n_groups, np.nan) for one in each])
        rows = [_deviations(one) for one in each]
        if any(part is None for part in rows):  # the method tells no errors, or only those of each group
            errors = [one.stderr / one.total if one.total > 0 else np.zeros(n_groups) for one in each]
            covariances = np.stack([np.diag(np.square(column)) for column in np.transpose(errors)])
        else:
            deviations = np.stack([part for part in rows if part is not None])  # (Q, R, K)
            covariances = np.einsum("arg,brg->gab", deviations, deviations)
        noise = each[0].seed_noise
        freedom = min(each[0].degrees_of_freedom, *(() if noise is None else noise.freedom), np.inf)
        return cls(questions, totals, shares, covariances, freedom)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "questions": list(self.questions),
            "totals": self.totals.tolist(),
            "shares": [None if np.isnan(row).any() else row.tolist() for row in self.shares],
            "covariances": self.covariances.tolist() if np.isfinite(self.covariances).all() else None,
            "freedom": None if np.isinf(self.freedom) else self.freedom,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Answers:
        """Read what `to_dict` returned."""
        questions, totals = tuple(map(str, document["questions"])), np.array(document["totals"], dtype=float)
        given, freedom = document["covariances"], document["freedom"]
        rows = document["shares"] if given is None else [given]  # by no question need there be shares
        width = max((len(row) for row in rows if row is not None), default=0)
        shares = np.array([[np.nan] * width if row is None else row for row in document["shares"]], dtype=float)
        shape = width, len(questions), len(questions)
        covariances = np.full(shape, np.nan) if given is None else np.array(given, dtype=float)
        if covariances.shape != shape or shares.shape != (len(questions), width) or totals.shape != (len(questions),):
            raise ValueError("the answers disagree about the number of questions or groups")
        return cls(questions, totals, shares, covariances, np.inf if freedom is None else float(freedom))


def _deviations(valuation: Valuation) -> Floats | None:
    """Return (R, K) deviations of the shares; zero if there are no shares, None if they are unknown."""
    n_groups, sampled = valuation.partition.n_groups, valuation.group_deviations
    if sampled is None and not valuation.exact:
        return None
    parts = [np.zeros((1, n_groups, 1)) if sampled is None else sampled]
    positive = bool(valuation.total > 0)
    if valuation.seed_noise is not None:
        shares = valuation.shares() if positive else np.zeros(n_groups)
        parts.append(valuation.seed_noise.deviations(valuation.partition, shares[:, None]))
    return np.concatenate(parts)[:, :, 0] / (float(valuation.total) if positive else np.inf)
