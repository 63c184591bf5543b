"""Methods: settings that start an estimator, and an estimator that is driven round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fgsv.coalitions import Coalitions
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue
from fgsv.types import Floats, Ints
from fgsv.valuation import Estimate

MOST_ENUMERATED = 40
"""From this many players on, 2^n evaluations are out of the question."""

Evaluate = Callable[[Coalitions], Floats]
"""m coalitions -> (m, q) values, finite and checked."""


def _no_other_game(game: Any) -> Evaluate:
    raise ValueError("this problem has no way to evaluate another game")


@dataclass(frozen=True, eq=False)
class Task:
    """What a run is to value, and what it may spend: all that is known before the first evaluation."""

    n_players: int
    partition: Partition
    """For methods that value one group at a time; the others ignore it."""
    semivalue: Semivalue = SHAPLEY
    budget: int | None = None
    """Evaluations that the run may make, U(0) and U(N) among them; None before that is settled."""
    may_stop_early: bool = False
    """Whether a rule may end the run before its budget."""
    n_known: int = 0
    """Evaluations that the run starts from (`Problem.known`), which do not count."""
    seconds: float | None = None
    """What an evaluation takes, if the game states it."""
    outputs: tuple[str, ...] | None = None
    """Names of the outputs, if the game has any."""

    @property
    def has_room_for_all(self) -> bool:
        """Whether the budget has room for every coalition."""
        return self.budget is not None and self.n_players < MOST_ENUMERATED and 2**self.n_players <= self.budget


@dataclass(frozen=True, eq=False)
class Problem:
    """What to estimate."""

    task: Task
    find_ends: Callable[[], Floats]
    """Returns the ends, waiting for them if they are still being evaluated."""
    cost: Callable[[Ints], ArrayLike] | None = None
    """(k,) sizes -> (k,) relative costs of one evaluation."""
    seed: int = 0
    known: Known | None = None
    """Evaluations known before the run. A method may ignore them; those that it draws are still looked up here."""
    other_game: Callable[[Any], Evaluate] = _no_other_game
    """How to evaluate another game of the same players, such as a proxy."""
    n_folds: int = 0
    """The last so many outputs are how much a score without a tenth of the test rows differs from the score: they
    measure the error of the test rows, and must not decide what is drawn, or what is learned of other outputs."""

    @cached_property
    def ends(self) -> Floats:
        """(2, q): U(0) and U(N). A method that does not look at them when it starts may draw beside them."""
        return self.find_ends()

    @property
    def n_players(self) -> int:
        """The number of players."""
        return self.task.n_players

    @property
    def semivalue(self) -> Semivalue:
        """How much each size of coalition counts."""
        return self.task.semivalue

    @property
    def n_stated(self) -> int:
        """Outputs that are not folds: the first ones."""
        return self.ends.shape[1] - self.n_folds


class OtherLaw(ValueError):
    """A recorded law does not follow from the recorded utilities."""


@dataclass(frozen=True, eq=False)
class Draws:
    """The coalitions of a round, and what the estimator needs to use their values."""

    coalitions: Coalitions
    plan: Any = None
    law: Mapping[str, Any] | None = None
    """The law of this and the next rounds, if it is new, in a form that JSON can hold; a ledger records it."""
    follow: Callable[[Mapping[str, Any], np.random.Generator], Draws] | None = None
    """Draw the round again by a recorded law; raise `OtherLaw` if the two differ by more than rounding."""
    order: Ints | None = None
    """The order in which draws are taken if the budget ends within the round; None to take all or none."""
    instead: Draws | None = None
    """What to draw if the budget is too small for the whole round."""

    def within(self, left: int) -> Draws:
        """Return the draws, or their replacement if only this many evaluations are left."""
        if left <= 0 or left >= len(self.coalitions):
            return self
        if self.order is not None:
            rows = np.sort(self.order[:left])
            plan = None if self.plan is None else self.plan[rows]
            return replace(self, coalitions=self.coalitions.take(rows), plan=plan)
        return self if self.instead is None else self.instead.within(left)


class Estimator(Protocol):
    """A running estimate. One loop (`fgsv.running.run`) draws, evaluates and updates, round after round.

    An estimator may also have

    - `needs`, of how many first evaluations, the ends among them, the next draws must know the values: 0 if draws do
      not depend on values. It must follow from counts of draws alone. Without it, draws wait for all values before.
    - `n_known`, how many of the known evaluations it uses.
    - `influence(partition)`, which returns (m, K): how much each draw so far, in draw order and without the ends,
      moves each group's value; None if the method cannot say.
    """

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next round's coalitions, or None when there is nothing left to draw.

        `rng` is this round's own. It is the only source of randomness, so a run can be repeated and resumed. Several
        rounds may be drawn before the values of the first one arrive.
        """

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the (m, q) values of a round, in draw order."""

    def estimate(self) -> Estimate:
        """Return the estimate after the rounds so far; its arrays must not change with the next update."""


class Method(Protocol):
    """A method's settings: a frozen dataclass whose fields are the options of `fgsv.value`.

    A method may also have `for_task(task) -> Method`, which returns the method that serves a task better than itself:
    one with other settings, or an enumeration. Its name and its fields are recorded, and repeat the run; so
    `for_task` returns a method unchanged that was chosen for such a task before. And it may have `uses_known`,
    whether it learns from evaluations that are known before a run.
    """

    name: ClassVar[str]

    def least(self, task: Task) -> int:
        """Return the evaluations needed for the first estimate, including the two ends; what is known may lower it.

        Raise an error, before any evaluation, if the method cannot value such a game.
        """

    def start(self, problem: Problem) -> Estimator:
        """Return an estimator that knows only the ends, and what was known before."""
