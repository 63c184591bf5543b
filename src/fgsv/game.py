"""Games: what a coalition of players is worth, evaluated in batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fgsv.coalitions import Coalitions
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks


class GameError(RuntimeError):
    """A game failed, or answered with something that is not a number for each coalition."""


@dataclass(frozen=True, eq=False)
class Game:
    """A cooperative game: a function from an (m, n) boolean array to (m,) or (m, q) floats.

    >>> game = Game(lambda masks: masks.sum(axis=1) ** 0.5, n_players=4)
    >>> game([[True, False, False, True]]).tolist()
    [1.4142135623730951]

    Wrap a plain callable in it where the number of players is not known otherwise, or to say more about it.
    An object of your own that has `n_players` and is callable is a game as it is; the fields below, where it has
    them as attributes, are read by `as_game`.
    """

    function: Callable[[Masks], ArrayLike]
    """(m, n) bool -> (m,) or (m, q). It must be deterministic: the same coalition, the same value."""
    n_players: int
    outputs: tuple[str, ...] | None = None
    """Names of the q outputs; None for one output without a name."""
    fingerprint: str | None = None
    """Identifies the game by content, equal on every machine: the key of its evaluations in a ledger."""
    independent_rows: bool = False
    """Whether each coalition is evaluated by itself: the same bits in any batch, and failures row by row."""
    cost: Callable[[Ints], ArrayLike] | None = None
    """(k,) sizes -> (k,) relative costs of one evaluation."""
    batch_size: int | None = None
    """How many coalitions the game likes to be asked for at once."""
    evaluate_lists: Callable[[Coalitions], ArrayLike] | None = None
    """An entry that takes `Coalitions` as they are, for games that do not want to see n booleans a coalition."""
    grouped_by: Partition | None = None
    """Where the players are themselves groups (`grouped`), the partition that made them so."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a game needs a callable, got {type(self.function).__name__}")
        if self.n_players < 1:
            raise ValueError(f"a game needs at least one player, got n_players={self.n_players}")

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions that the rows of an (m, n) boolean array describe."""
        return np.asarray(self.function(np.asarray(masks, dtype=bool)), dtype=float)


_OPTIONAL = ("outputs", "fingerprint", "independent_rows", "cost", "batch_size", "evaluate_lists")


def as_game(game: Any, n_players: int | None = None) -> Game:
    """Return `game` as a `Game`; n is its own, or `n_players` where a plain callable does not know."""
    if not callable(game):
        raise TypeError(
            f"game must be callable, from an (m, n) boolean array to m numbers; got {type(game).__name__}"
        )
    own = getattr(game, "n_players", None)
    if own is None and n_players is None:
        raise ValueError(
            "the number of players is unknown: give groups, or wrap the callable as fgsv.Game(fn, n_players)"
        )
    if own is not None and n_players is not None and own != n_players:
        raise ValueError(f"the game has {own} players, but groups describes {n_players}")
    if isinstance(game, Game):
        return game
    said = {name: getattr(game, name) for name in _OPTIONAL if hasattr(game, name)}
    n = own if own is not None else n_players
    assert n is not None
    return Game(game, int(n), **said)


def ask(game: Game, coalitions: Coalitions) -> ArrayLike:
    """Return a game's answer to a batch as it is."""
    if game.evaluate_lists is not None:
        return game.evaluate_lists(coalitions)
    return game.function(coalitions.masks())


def shaped(answer: ArrayLike, m: int) -> Floats:
    """Return a game's answer for m coalitions as (m, q) floats, or raise a `GameError` where it is not."""
    try:
        if np.iscomplexobj(answer):
            raise TypeError("complex numbers")
        values = np.asarray(answer, dtype=float)
    except (TypeError, ValueError) as error:
        raise GameError(f"the game returned something that is not numbers: {error}") from error
    if values.ndim not in (1, 2) or len(values) != m or values.size == 0:
        raise GameError(
            f"the game returned an array of shape {values.shape} for {m} coalitions; expected ({m},) or ({m}, q)"
        )
    return values.reshape(m, -1)


def describe(coalitions: Coalitions, row: int) -> str:
    """Return words that name a coalition: its size and its members, the first ten of them."""
    members = coalitions.members(row)
    shown = ", ".join(map(str, members[:10].tolist())) + (", ..." if len(members) > 10 else "")
    return f"the coalition of size {len(members)} with members [{shown}]"


def grouped(game: Any, groups: Any) -> Game:
    """Return the game whose players are the groups: its Shapley value is the Group Shapley Value (GSV).

    >>> pairs = grouped(lambda masks: masks.sum(axis=1) ** 2, ["a", "a", "b"])
    >>> pairs.n_players, pairs([[True, False]]).tolist()
    (2, [4.0])

    A coalition of groups is worth what all their members together are worth. GSV is what the faithful value
    replaces: a provider changes it by splitting into several groups. One evaluation costs one of `game`'s.
    """
    own = getattr(game, "n_players", None)
    partition = Partition.of(groups, own)
    if not partition.is_disjoint:
        raise ValueError("a grouped game needs each player in one group; ownership is shared here")
    inner = as_game(game, partition.n_players)
    codes = partition.codes

    def function(masks: Masks) -> ArrayLike:
        return inner.function(masks[:, codes])

    return Game(
        function,
        partition.n_groups,
        outputs=inner.outputs,
        fingerprint=None if inner.fingerprint is None else f"{inner.fingerprint}/{partition.fingerprint}",
        independent_rows=inner.independent_rows,
        batch_size=inner.batch_size,
        grouped_by=partition,
    )
