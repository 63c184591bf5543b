"""Questions: the shares of one run by several scores and slices of the test rows, with their joint error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fgsv.types import Floats
from fgsv.valuation import Valuation


@dataclass(frozen=True, eq=False)
class SharesByQuestion:
    """Shares by Q questions, of which the first is the score that payments are based on.

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

    def __post_init__(self) -> None:
        n_questions = len(self.questions)
        n_groups = self.shares.shape[-1]
        shapes = (self.totals.shape, self.shares.shape, self.covariances.shape)
        if shapes != ((n_questions,), (n_questions, n_groups), (n_groups, n_questions, n_questions)):
            raise ValueError("the shares by question disagree about the number of questions or groups")

    @classmethod
    def of(cls, raw: Valuation, first: Valuation, metric: str, also: Sequence[str]) -> SharesByQuestion:
        """Return the shares by the score and by further questions.

        Args:
            raw: The valuation of all outputs, of which the last are the further questions.
            first: The valuation of the score that payments are based on.
            metric: The name of this score.
            also: The names of the further questions.

        Returns:
            Their shares, that of `metric` first.

        """
        others = [raw.combined(row) for row in np.eye(len(raw.outputs or ()))[-len(also) :]]
        return cls.joined([first, *others], (metric, *also))

    @classmethod
    def joined(cls, each: Sequence[Valuation], questions: tuple[str, ...]) -> SharesByQuestion:
        """Return the shares of valuations of the same trainings, each by one question."""
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


def _deviations(valuation: Valuation) -> Floats | None:
    """Return (R, K) deviations of the shares; zero if there are no shares, None if they are unknown."""
    n_groups = valuation.partition.n_groups
    sampled = valuation.group_deviations
    if sampled is None and not valuation.exact:
        return None
    parts = [np.zeros((1, n_groups, 1)) if sampled is None else sampled]
    positive = bool(valuation.total > 0)
    if valuation.seed_noise is not None:
        shares = valuation.shares() if positive else np.zeros(n_groups)
        parts.append(valuation.seed_noise.deviations(valuation.partition, shares[:, None]))
    return np.concatenate(parts)[:, :, 0] / (float(valuation.total) if positive else np.inf)
