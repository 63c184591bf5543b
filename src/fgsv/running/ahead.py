"""Rounds ahead: drawn and submitted while those before them are still being evaluated."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fgsv.evaluation.game_access import GameAccess, Pending
from fgsv.evaluation.recording import Recorded
from fgsv.methods import Draws
from fgsv.methods.steady import Steady
from fgsv.types import Floats
from fgsv.valuation import INTERRUPTED, End, RunSettings

if TYPE_CHECKING:
    from fgsv.running.progress import Progress


class Ahead:
    """The rounds of a run that are drawn, and not taken yet. They are taken in the order in which they are drawn.

    What a round draws depends on counts alone: on the values that its method says it needs, never on those that
    happen to be there. How far ahead rounds are drawn depends on the workers, and decides nothing.
    """

    def __init__(self, access: GameAccess, estimator: Steady, record: Recorded, settings: RunSettings) -> None:
        self._access = access
        self._estimator = estimator
        self._record = record
        self._settings = settings
        self._ends = access.evaluator.submit_ends()
        self._left = settings.budget - self._ends.n_asked
        """Evaluations left in the budget once all rounds that are drawn are taken."""
        self._rounds: deque[tuple[Draws | None, Pending | None]] = deque()
        self._n_rounds = 0
        self._n_waiting = 0
        """Draws that are not taken."""
        self._n_taken = 0
        """Draws that are taken, the ends among them."""
        self._is_over = False
        """Whether no round is drawn any more."""

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N); meanwhile rounds that need no values are drawn and evaluated."""
        self._fill()
        while not self._ends.is_done:
            self._access.evaluator.step()
            self._fill()
        self._n_taken = 2
        return self._access.ends()

    def next_draws(self, state: Progress) -> Draws | None:
        """Return the draws of the next round; None if there are none, or the budget is spent."""
        if not self._rounds:
            self._draw(is_spent=state.is_spent)
        self._fill()
        return self._rounds[0][0]

    def values(self) -> Floats:
        """Return the (m, q) values of these draws, once they are there; meanwhile further rounds are drawn."""
        draws, pending = self._rounds[0]
        assert draws is not None
        assert pending is not None
        while not pending.is_done:
            self._access.evaluator.step()
            self._fill()
        values = pending.result()
        self._rounds.popleft()
        self._n_waiting -= len(draws.coalitions)
        self._n_taken += len(draws.coalitions)
        return values

    def _fill(self) -> None:
        """Draw rounds as far as the method, the budget and the workers allow; send what workers can take."""
        evaluator = self._access.evaluator
        while (
            not self._is_over
            and self._left > 0
            and self._estimator.needs <= self._n_taken
            and evaluator.has_room(self._n_waiting)
        ):
            self._draw()
        first = self._rounds[0][1] if self._n_taken and self._rounds else self._ends
        is_known = first is None or first.is_done  # a run that only repeats another has nothing evaluated
        if evaluator.n_busy or not is_known:
            evaluator.send()

    def _draw(self, *, is_spent: bool = False) -> None:
        rng = np.random.default_rng([self._settings.seed, self._n_rounds])
        draws = None if is_spent else self._estimator.draw(rng)
        draws = None if draws is None else draws.within(self._left)
        pending = None
        if draws is None or len(draws.coalitions) > self._left:
            self._is_over = True
        else:
            draws = self._record.followed(draws, self._settings, self._n_rounds).within(self._left)
            pending = self._access.submit(draws.coalitions)
            self._left -= pending.n_asked
            self._n_waiting += len(draws.coalitions)
        self._rounds.append((draws, pending))
        self._n_rounds += 1

    def end(self, end: End) -> End:
        """End what is in flight: what workers have begun is recorded, unless the user is in a hurry."""
        evaluator = self._access.evaluator
        try:
            n_unused = evaluator.abandon() if end == INTERRUPTED else evaluator.finish()
        except KeyboardInterrupt:
            n_unused = evaluator.abandon()
        return replace(end, n_unused=n_unused)
