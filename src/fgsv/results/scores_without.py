"""The score without each provider and that of each alone, shown beside its value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import by_groups
from fgsv.partition import Partition

MOST_GROUPS = 200
"""With more groups the scores are not computed: each without a group is an evaluation of nearly all the data."""


@dataclass(frozen=True)
class ScoresWithout:
    """U(N without a group) and U(the group) for each group: two evaluations each, outside the budget of the run."""

    scores: tuple[tuple[float, ...], ...]
    """For each group, in the order of the valuation, the score of everybody else's data for each output."""
    alone: tuple[tuple[float, ...], ...]
    """The same of its own data."""

    @property
    def n_evaluations(self) -> int:
        """Evaluations that these scores took."""
        return 2 * len(self.scores)

    @property
    def columns(self) -> list[list[float]]:
        """Both scores in the order of `Valuation.to_frame`: all groups of the first output, then of the next."""
        each = [zip(*scores, strict=True) for scores in (self.scores, self.alone)]
        return [[score for output in outputs for score in output] for outputs in each]


def scores_without_each(access: GameAccess, partition: Partition) -> ScoresWithout:
    """Return the scores of all data but one group's, and of its own, for each group of a disjoint partition.

    >>> import fgsv
    >>> from fgsv.evaluation.evaluator import Evaluator
    >>> with Evaluator(fgsv.Game(lambda masks: masks @ [1.0, 2.0, 4.0], 3)) as evaluator:
    ...     scores_without_each(evaluator, fgsv.Partition.of(["a", "b", "b"]))
    ScoresWithout(scores=((6.0,), (1.0,)), alone=((1.0,), (6.0,)))
    """
    own = np.eye(partition.n_groups, dtype=bool)
    found = by_groups(access, partition)(Coalitions.from_masks(np.concatenate([~own, own]))).tolist()
    rows = tuple(map(tuple, found))
    return ScoresWithout(rows[: len(own)], rows[len(own) :])
