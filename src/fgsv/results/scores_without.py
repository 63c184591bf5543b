"""The score without each provider, shown beside its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import by_groups
from fgsv.partition import Partition

MOST_GROUPS = 200
"""With more groups the scores are not computed: each is an evaluation of nearly all the data."""


@dataclass(frozen=True)
class ScoresWithout:
    """U(N without a group) for each group: an evaluation each, outside the budget of the run."""

    scores: tuple[tuple[float, ...], ...]
    """For each group, in the order of the valuation, the score of everybody else's data for each output."""

    @property
    def n_evaluations(self) -> int:
        """Evaluations that these scores took."""
        return len(self.scores)

    @property
    def column(self) -> list[float]:
        """The scores in the order of `Valuation.to_frame`: all groups of the first output, then of the next."""
        return [score for output in zip(*self.scores, strict=True) for score in output]

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {"n_evaluations": self.n_evaluations, "scores": [list(row) for row in self.scores]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ScoresWithout:
        """Read what `to_dict` returned."""
        return cls(tuple(tuple(map(float, row)) for row in document["scores"]))


def scores_without_each(access: GameAccess, partition: Partition) -> ScoresWithout:
    """Return the score of all data but one group's, for each group of a disjoint partition: K evaluations.

    >>> import fgsv
    >>> from fgsv.evaluation.evaluator import Evaluator
    >>> with Evaluator(fgsv.Game(lambda masks: masks @ [1.0, 2.0, 4.0], 3)) as evaluator:
    ...     scores_without_each(evaluator, fgsv.Partition.of(["a", "b", "b"])).scores
    ((6.0,), (1.0,))
    """
    everybody_else = Coalitions.from_masks(~np.eye(partition.n_groups, dtype=bool))
    return ScoresWithout(tuple(map(tuple, by_groups(access, partition)(everybody_else).tolist())))
