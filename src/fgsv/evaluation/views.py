"""Views of an evaluator: games whose values follow from another game's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fgsv.coalitions import Coalitions
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess, Pending
from fgsv.game import Game, Precedence, grouped, with_precedence
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats, Ints

CHUNK_BYTES = 2**26
"""Booleans held at once when coalitions of groups are expanded into coalitions of players."""


@dataclass(frozen=True, eq=False)
class View:
    """Access to a game through another one, with the same evaluations and ledger."""

    inner: GameAccess
    game: Game
    lift: Callable[[Coalitions], Coalitions] | None = None
    """Coalitions of this game -> coalitions of the inner one; None if they are the same."""
    player_of: Ints | None = None
    """The player of this game to whom each player of the inner one belongs; None if they are the same."""
    lower: Callable[[Floats], Floats] = lambda values: values
    """(m, q) values of the inner game -> values of this one."""
    beside: tuple[GameAccess, ...] = ()
    """Further games of the players of this one: their values are further outputs of the inner game's."""
    seen: Callable[[Coalitions, Floats], object] | None = None
    """Is called with the coalitions of each request and their values."""

    @property
    def known(self) -> Known | None:
        """What is known about the inner game, if the players are the same."""
        known = self.inner.known
        return None if known is None or self.lift is not None or self.beside else known.with_values(self.lower)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator behind all views."""
        return self.inner.evaluator

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order; memory is bounded."""
        batch = self.evaluator.batch_size
        step = batch * max(1, CHUNK_BYTES // (self.inner.game.n_players * batch))  # whole batches
        lift = self.lift or (lambda each: each)
        chunks = [coalitions[i : i + step] for i in range(0, len(coalitions), step)]
        return np.concatenate([self._values(chunk, self.inner(lift(chunk))) for chunk in chunks])

    def submit(self, coalitions: Coalitions) -> Pending:
        """Have coalitions evaluated, and return at once; games beside this one wait until values are taken."""
        inner = self.inner.submit(coalitions if self.lift is None else self.lift(coalitions))
        n_beside = sum(len(coalitions) for each in self.beside if each.evaluator is self.evaluator)
        return replace(
            inner, n_asked=inner.n_asked + n_beside, result=lambda: self._values(coalitions, inner.result())
        )

    def _values(self, coalitions: Coalitions, inner: Floats) -> Floats:
        """Return the values of coalitions, from those of the inner game."""
        values = self.lower(np.column_stack([inner, *(each(coalitions) for each in self.beside)]))
        if self.seen is not None:
            self.seen(coalitions, values)
        return values

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N)."""
        return self.lower(np.column_stack([self.inner.ends(), *(each.ends() for each in self.beside)]))

    def recorded_groups(self, partition: Partition) -> Partition:
        """Return the groups of this game's players as groups of the evaluator's."""
        inner = partition if self.player_of is None else partition.of_parts(self.player_of)
        return self.inner.recorded_groups(inner)


def by_groups(access: GameAccess, partition: Partition) -> View:
    """Return the game whose players are groups; its Shapley value is the Group Shapley Value."""
    codes = partition.codes

    def lift(coalitions: Coalitions) -> Coalitions:
        return Coalitions.from_masks(coalitions.masks()[:, codes])

    game = replace(grouped(access.game, partition), retrain=None)  # an audit trains nothing twice
    return View(access, game, lift, codes)


def by_precedence(access: GameAccess, order: Precedence) -> View:
    """Return the game in which rows count only beside those they descend from; `access` is for the game of rows."""

    def lift(coalitions: Coalitions) -> Coalitions:
        return Coalitions.from_masks(order.rows(coalitions.masks()))

    game = replace(with_precedence(access.game, order), retrain=None)  # an audit trains nothing twice
    return View(access, game, lift, order.players)


def weighted(access: GameAccess, weights: ArrayLike | None) -> GameAccess:
    """Return the game whose value is a weighted sum of the stated outputs, or all of them without weights.

    The folds of the test rows stay as they are if the game has them for this sum, by its `weights`.
    """
    game = access.game
    if weights is None:
        return access
    numbers = np.asarray(weights, dtype=float)
    of_game = np.ones(1) if game.weights is None else np.asarray(game.weights, dtype=float)
    n_folds = game.n_folds if np.array_equal(numbers, of_game) else 0

    def lower(values: Floats) -> Floats:
        stated, folds = np.split(values, [len(numbers)], axis=1)
        return np.column_stack([stated @ numbers, folds[:, :n_folds]])

    fingerprint = game.fingerprint and f"{game.fingerprint}/outputs {numbers.tolist()}"
    summed = replace(game, fingerprint=fingerprint, outputs=None, weights=None, n_folds=n_folds, unfitted=None)
    return View(access, summed, lower=lower)


def of_some(access: GameAccess, players: Ints, n_players: int) -> View:
    """Return the game of `n_players` players of whom only `players` count: those of `access`, in its order.

    Args:
        access: The game of k players.
        players: (k,): their numbers among the n players.
        n_players: n.

    Returns:
        The game of n players; the others add nothing.

    """

    def lift(coalitions: Coalitions) -> Coalitions:
        return Coalitions.from_masks(coalitions.masks()[:, players])

    return View(access, replace(access.game, n_players=n_players), lift)


def share_differences(first: GameAccess, second: GameAccess) -> View:
    """Return the game of what a coalition adds in one game less what it adds in another, as parts of U(N) - U(0).

    Both have the same players and one output. The value of a player is what its share is more in the first game.
    """
    totals = np.column_stack([np.diff(each.ends(), axis=0) for each in (first, second)])
    prints = [each.game.fingerprint for each in (first, second)]
    game = replace(
        first.game,
        fingerprint=" less ".join(map(str, prints)) if all(prints) else None,
        outputs=None,
        unfitted=None,
        retrain=None,  # an audit trains nothing twice
    )
    return View(first, game, lower=lambda values: (values / totals) @ [[1.0], [-1.0]], beside=(second,))


def without_folds(access: GameAccess) -> GameAccess:
    """Return the game without the outputs that measure the error of the test rows."""
    game = access.game
    if not game.n_folds:
        return access
    fingerprint = game.fingerprint and f"{game.fingerprint}/stated outputs"
    stated = replace(game, fingerprint=fingerprint, n_folds=0, unfitted=None)
    return View(access, stated, lower=lambda values: values[:, : values.shape[1] - game.n_folds])
