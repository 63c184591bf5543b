"""Games: what a coalition of players is worth, evaluated in batches."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fgsv.checks import as_list, as_number, check_type
from fgsv.coalitions import Coalitions
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks


class GameError(RuntimeError):
    """A game failed, or did not return a number for each coalition."""


class CoalitionError(GameError):
    """A game failed on one coalition, which the message names and `members` lists."""

    members: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Game:
    """A cooperative game: a function from an (m, n) boolean array to (m,) or (m, q) floats.

    >>> game = Game(lambda masks: masks.sum(axis=1) ** 0.5, n_players=4)
    >>> game([[True, False, False, True]]).tolist()
    [1.4142135623730951]

    Wrap a plain callable to state its number of players or any field below. Your own callable object with
    `n_players` is already a game; `as_game` reads the fields below from its attributes, if it has them.
    """

    function: Callable[[Masks], ArrayLike]
    """(m, n) bool -> (m,) or (m, q). It must be deterministic: same coalition, same value."""
    n_players: int
    outputs: tuple[str, ...] | None = None
    """Names of the q outputs, in any sequence (a classifier's `classes_`); None for one output without a name."""
    fingerprint: str | None = None
    """Identifies the game by content, the same on every machine: the key of its evaluations in a ledger."""
    independent_rows: bool = False
    """Whether each coalition is evaluated independently: the same bits in any batch, and its own failures."""
    cost: Callable[[Ints], ArrayLike] | None = None
    """(k,) sizes -> (k,) relative costs of one evaluation."""
    batch_size: int | None = None
    """Preferred number of coalitions in a batch."""
    seconds: float | None = None
    """Approximate seconds of an evaluation, if known: a constant that decides what the default method learns."""
    evaluate_lists: Callable[[Coalitions], ArrayLike] | None = None
    """A function that takes `Coalitions` directly, for games that can avoid n booleans per coalition."""
    grouped_by: Partition | None = None
    """If the players are themselves groups (`grouped`), the partition into these groups."""
    frame: str | Mapping[str, str] | None = None
    """What a coalition's value depends on besides its players (model, score, test rows), by name or part by part."""
    players: Sequence[Any] | bytes | Callable[[], bytes] | None = None
    """An id for each player, by which another game of the same frame recognises it; or 16 bytes for each, which a
    function may return. Together with `frame` it makes the fingerprint."""
    retrain: Callable[[int], Callable[[Masks], ArrayLike]] | None = None
    """If every coalition is trained with its own seed: k = 1, 2, ... -> the same game with other seeds. A run then
    trains some coalitions again, and its intervals hold for the expected utility."""
    weights: Sequence[float] | None = None
    """Weights of the outputs: a precision or standard error refers to their weighted sum, not to every output."""
    n_folds: int = 0
    """The last so many outputs are the same scores on all test rows but a tenth: they measure the error of the test
    rows, and decide nothing. Fold by fold, each has the stated outputs, or their weighted sum if there are `weights`;
    `outputs` does not name them."""
    unfitted: Callable[[Coalitions, Floats], Masks] | None = None
    """Coalitions and their (m, q) values -> (m,) whether a coalition has the value of the empty one only because a
    model cannot be fitted to it; a run counts these."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a game needs a callable, got {type(self.function).__name__}")
        if not isinstance(self.n_players, int | np.integer) or isinstance(self.n_players, bool):
            raise TypeError(f"n_players must be a whole number, got {self.n_players!r}")
        for name in ("cost", "evaluate_lists", "retrain", "unfitted"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} of a game must be a function, got {given!r:.200}")
        if self.n_players < 1:
            raise ValueError(f"a game needs at least one player, got n_players={self.n_players}")
        object.__setattr__(self, "n_players", int(self.n_players))  # a ledger stores no integers of numpy
        if self.seconds is not None and not as_number(self.seconds) >= 0:
            raise ValueError(f"seconds of a game must be a number, 0 or more; got {self.seconds!r:.200}")
        check_type(self.fingerprint, str | None, "a text as fingerprint of a game")
        if self.frame is not None:
            check_type(self.frame, (str, Mapping), "a text, or a mapping from parts to texts, as frame of a game")
        if self.outputs is not None:
            object.__setattr__(self, "outputs", _names_of(self.outputs))
            if self.weights is not None and np.shape(self.weights) != (q := len(self.outputs),):
                raise ValueError(f"weights must list a weight for each of the {q} outputs, got {self.weights!r:.200}")
        if self.n_folds:
            self._check_folds()
        if self.fingerprint is None and self.frame is not None and self.players is not None:
            content = json.dumps(self.frame, sort_keys=True).encode() + (self.player_digests() or b"")
            object.__setattr__(self, "fingerprint", hashlib.sha256(content).hexdigest())

    def _check_folds(self) -> None:
        """Raise an error unless the outputs that are folds make up at least two folds."""
        each = 1 if self.weights is not None else len(self.outputs or (None,))
        if not isinstance(self.n_folds, int | np.integer) or self.n_folds < 2 * each or self.n_folds % each:
            raise ValueError(
                f"n_folds must be 0, or count {each} {'outputs' if each > 1 else 'output'} for each of at least two "
                f"folds; got {self.n_folds!r:.200}"
            )

    @property
    def width(self) -> int | None:
        """How many outputs it has, folds included; None if it does not say."""
        if self.outputs is None:
            return 1 + self.n_folds if self.n_folds else None
        return len(self.outputs) + self.n_folds

    def player_digests(self) -> bytes | None:
        """Return 16 bytes for each player that identify it in any game of its frame; None if nothing does."""
        given = self.players() if callable(self.players) else self.players
        if given is None:
            return None
        if not isinstance(given, bytes):
            expected = "players must be a list with an id for each player"
            ids = [str(each) for each in (given if isinstance(given, str) else as_list(given, expected))]
            if len(set(ids)) < len(ids):
                twice, _ = Counter(ids).most_common(1)[0]
                raise ValueError(f"players must have different ids, but {twice!r} is given twice")
            given = b"".join(map(player_digest, ids))
        if len(given) != 16 * self.n_players:
            raise ValueError(
                f"players must list an id for each of the {self.n_players} players, got {len(given) // 16}"
            )
        return given

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions given by the rows of an (m, n) boolean array."""
        return np.asarray(_by_name(self.function(np.asarray(masks, dtype=bool)), self.outputs), dtype=float)

    def differences(self, values: Floats) -> Floats:
        """Return outputs with the folds as differences from the score on all test rows, which a run estimates.

        >>> Game(lambda masks: masks, 3, n_folds=2).differences(np.array([[5.0, 4.0, 7.0]])).tolist()
        [[5.0, -1.0, 2.0]]
        >>> Game(lambda masks: masks, 3, n_folds=2).differences(np.zeros((0, 3))).shape
        (0, 3)

        Args:
            values: (..., q + n_folds) outputs, those of the folds last: fold by fold.

        Returns:
            (..., q + n_folds): the outputs, and the differences.

        """
        n_folds = self.n_folds
        if not n_folds:
            return values
        whole = stated = values[..., :-n_folds]
        if self.weights is not None:
            whole = (stated @ np.asarray(self.weights, dtype=float))[..., None]
        n_outputs = whole.shape[-1]
        folds = values[..., -n_folds:].reshape(*whole.shape[:-1], n_folds // n_outputs, n_outputs)
        apart = folds - whole[..., None, :]
        return np.concatenate([stated, apart.reshape(*whole.shape[:-1], n_folds)], axis=-1)

    def n_unfitted(self, coalitions: Coalitions, values: Floats) -> int:
        """Return how many of these coalitions a model cannot be fitted to; 0 for games that do not say."""
        return 0 if self.unfitted is None else int(self.unfitted(coalitions, values).sum())


def _names_of(outputs: Any) -> tuple[str, ...]:
    """Return the names of a game's outputs as text, or raise an error if they do not name them one by one."""
    names = tuple(map(str, as_list(outputs, "outputs must be a sequence with a name for each output")))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"outputs must have a name for each output, all different; got {names}")
    return names


def player_digest(id: str) -> bytes:
    """Return the 16 bytes that identify a player with an id given by the user."""
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:16]


def each_digest(players: bytes) -> list[bytes]:
    """Return the 16 bytes of each player, from those of all of them in a row."""
    return [players[start : start + 16] for start in range(0, len(players), 16)]


def provider_digest(name: Any) -> str:
    """Return the digest by which a ledger recognises a provider; it does not store the name."""
    return hashlib.sha256(str(name).encode("utf-8", "surrogatepass")).hexdigest()[:16]


_NOT_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)
"""Types that numpy would silently turn into floats."""
_STATED = tuple(each.name for each in fields(Game) if each.name not in ("function", "n_players", "grouped_by"))
"""What a user's own game may state in attributes."""


def as_game(game: Any, n_players: int | None = None) -> Game:
    """Return `game` as a `Game`; `n_players` is needed for a plain callable."""
    if not callable(game):
        raise TypeError(
            "game must be callable, from an (m, n) boolean array to m numbers; got "
            f"{type(game).__name__}{_how_to_make_one(game)}"
        )
    own = getattr(game, "n_players", None)
    n = n_players if own is None else own
    if n is None:
        raise ValueError(
            "the number of players is unknown: give groups, or wrap the callable as fgsv.Game(fn, n_players)"
        )
    if n_players is not None and n != n_players:
        raise ValueError(f"the game has {n} players, but groups describes {n_players}")
    if isinstance(game, Game):
        return game
    stated: dict[str, Any] = {name: getattr(game, name) for name in _STATED if hasattr(game, name)}
    # attributes of these names may mean anything
    if stated.get("frame") is None:
        stated.pop("players", None)
    if stated.get("outputs") is None:
        stated.pop("weights", None)
    return Game(game, n, **stated)


def _how_to_make_one(given: Any) -> str:
    """Return how to make a game of something that is none, in words; empty if nobody knows."""
    if hasattr(given, "fit"):
        return "; make a game from a model with fgsv.utility(model, X, y, X_test, y_test)"
    if hasattr(given, "game") and hasattr(given, "partition"):
        return "; give its game and its groups: fgsv.value(data.game, data.partition)"
    if hasattr(given, "columns") or isinstance(given, (str, Path)):
        return '; make a game from a table with fgsv.open_table(path_or_frame, target="...", group="...")'
    return ""


def ask(game: Game, coalitions: Coalitions) -> ArrayLike:
    """Return a game's answer to a batch, unchecked."""
    if game.evaluate_lists is not None:
        return game.evaluate_lists(coalitions)
    return _by_name(game.function(coalitions.masks()), game.outputs)


def _by_name(answer: Any, outputs: tuple[str, ...] | None) -> Any:
    """Return a game's answer; columns of a data frame that are named like the outputs are put in their order."""
    names = list(getattr(answer, "columns", ()))
    if outputs is None or not all(isinstance(name, str) for name in names) or not {*names} & {*outputs}:
        return answer
    if sorted(names) != sorted(outputs):
        raise GameError(f"the game returned columns {names}, but its outputs are {list(outputs)}")
    return answer[list(outputs)]


def shaped(answer: ArrayLike, m: int) -> Floats:
    """Return a copy of a game's answer for m coalitions as (m, q) floats, or raise a `GameError`.

    A copy, because a game may fill the same array for every batch. A masked entry is not a score: it becomes NaN.
    """
    try:
        values = np.array(_numbers(answer), dtype=float)
    except Exception as error:
        raise GameError(f"the game did not return numbers: {message_of(error)}") from error
    if values.ndim not in (1, 2) or len(values) != m or values.size == 0:
        one = (
            ""
            if values.ndim
            else ". If f takes one coalition: fgsv.Game(lambda masks: [f(mask) for mask in masks], n)"
        )
        raise GameError(
            f"the game returned an array of shape {values.shape} for {m} coalitions; expected ({m},) or ({m}, q){one}"
        )
    return values.reshape(m, -1)


def _numbers(answer: Any) -> ArrayLike:
    """Return an answer as an array of numbers, or raise an error for what merely converts to some."""
    if answer is None:
        raise TypeError("it returned None; is a return missing?")
    array = np.asarray([_array(each) for each in answer] if isinstance(answer, list | tuple) else _array(answer))
    wrong = {str(array.dtype)} if array.dtype.kind not in "biufO" else set()
    if array.dtype == object:
        wrong = {type(each).__name__ for each in array.flat if isinstance(each, _NOT_NUMBERS)}
    if wrong:
        raise TypeError(f"expected real numbers, got {', '.join(sorted(wrong))}")
    return array


def _array(answer: Any) -> Any:
    """Return a tensor of torch without its gradient, a masked array with NaN where masked, all else unchanged."""
    if isinstance(answer, np.ma.MaskedArray):
        return np.ma.filled(answer.astype(object), np.nan)
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
        return (answer if answer.is_complex() else answer.double()).numpy()
    return answer


def message_of(error: BaseException) -> str:
    """Return the beginning of an error's message, even if it cannot be printed or encoded."""
    try:
        return str(error)[:500].encode("utf-8", "replace").decode()
    except BaseException:  # raised by the error's own code
        return "(an error without a printable message)"


def grouped(game: Any, groups: Any) -> Game:
    """Return the game whose players are the groups: its Shapley value is the Group Shapley Value (GSV).

    >>> pairs = grouped(lambda masks: masks.sum(axis=1) ** 2, ["a", "a", "b"])
    >>> pairs.n_players, pairs([[True, False]]).tolist()
    (2, [4.0])

    A coalition of groups is worth what all their members are worth together. The faithful value replaces GSV,
    which a provider can change by splitting into several groups. One evaluation costs one of `game`'s.
    """
    partition = Partition.of(groups, getattr(game, "n_players", None))
    if not partition.is_disjoint:
        raise ValueError("a grouped game needs each player in one group, but some players are co-owned")
    inner = as_game(game, partition.n_players)
    codes = partition.codes
    over = _over(inner, lambda masks: masks[:, codes], partition.n_groups, partition.fingerprint)
    return replace(over, grouped_by=partition)


def _over(inner: Game, rows: Callable[[Masks], Masks], n: int, name: str) -> Game:
    """Return a game of n players over another: `rows` has the players of that one who are in each coalition.

    Nothing of what the other says about its own players holds for these: neither who they are nor what they cost.
    """
    retrain = inner.retrain
    unfitted = inner.unfitted
    return replace(
        inner,
        function=lambda masks: inner.function(rows(masks)),
        n_players=n,
        fingerprint=inner.fingerprint and f"{inner.fingerprint}/{name}",
        grouped_by=None,
        retrain=None if retrain is None else lambda k: lambda masks: retrain(k)(rows(masks)),
        unfitted=None
        if unfitted is None
        else lambda asked, values: unfitted(Coalitions.from_masks(rows(asked.masks())), values),
        evaluate_lists=None,
        cost=None,
        frame=None,
        players=None,
    )


_BITS = 8


def trained_again(game: Game, coalitions: Masks, numbers: Ints) -> tuple[Game, Masks]:
    """Return a game and coalitions of it whose values are those of `game.retrain(k)`, k the number of each coalition.

    Its last eight players are the bits of k, so one game, with its workers and its place in a ledger, holds all
    trainings.

    Args:
        game: A game that says how to train it again (`retrain`).
        coalitions: (m, n) coalitions of its players.
        numbers: (m,) k, from 1 to 255, for each.

    """
    retrain = game.retrain
    n = game.n_players
    assert retrain is not None

    def function(masks: Masks) -> ArrayLike:
        asked = np.packbits(masks[:, n:], axis=1)[:, 0]
        rows = {int(k): np.flatnonzero(asked == k) for k in np.unique(asked)}
        parts = [
            shaped(_by_name(retrain(k)(masks[where, :n]), game.outputs), len(where)) for k, where in rows.items()
        ]
        return np.concatenate(parts)[np.argsort(np.concatenate(list(rows.values())))]

    bits = np.unpackbits(numbers.astype(np.uint8)[:, None], axis=1).astype(bool)
    nobody = bytes(16 * _BITS)  # the bits are no players that could withdraw
    repeated = Game(
        function,
        n + _BITS,
        outputs=game.outputs,
        fingerprint=game.fingerprint and f"{game.fingerprint}/trained again",
        independent_rows=game.independent_rows,
        batch_size=game.batch_size,
        weights=game.weights,
        n_folds=game.n_folds,
        players=None if game.players is None else lambda: (game.player_digests() or b"") + nobody,
    )
    return repeated, np.concatenate([coalitions, bits], axis=1)


@dataclass(frozen=True, eq=False)
class Precedence:
    """Which row each row descends from: in a coalition, a row counts only beside it."""

    origin: Ints
    """(n,) the first row of the line of each row: the row itself, if it descends from none."""
    players: Ints
    """(n,) the player that each row belongs to, from 0."""

    @classmethod
    def of(cls, origin: ArrayLike, players: ArrayLike | None = None) -> Precedence:
        """Check what users give; without `players`, each row is one."""
        first = np.asarray(origin)
        n = first.size
        if first.ndim != 1 or first.dtype.kind not in "iu" or n == 0 or first.min() < 0 or first.max() >= n:
            raise ValueError("origin must give, for each row, the number of the row it descends from, or its own")
        if (first[first] != first).any():
            row = int(np.argmax(first[first] != first))
            raise ValueError(
                f"origin must name the first of each line, but row {row} descends from row {first[row]}, which "
                f"descends from row {first[first[row]]}"
            )
        rows = np.arange(n) if players is None else np.asarray(players)
        if rows.shape != (n,) or not np.array_equal(np.unique(rows), np.arange(len(np.unique(rows)))):
            raise ValueError(f"players must give the player of each of the {n} rows, numbered from 0 without gaps")
        return cls(first.astype(np.int64), rows.astype(np.int64))

    def rows(self, masks: Masks) -> Masks:
        """Return the (m, n) rows that count in (m, players) coalitions."""
        held = masks[:, self.players]
        return held & held[:, self.origin]


def with_precedence(game: Any, origin: ArrayLike | Precedence, players: ArrayLike | None = None) -> Game:
    """Return the game in which a copy counts only beside its original: u'(S) = u(rows of S whose origin is in S).

    U(N) is the same as in `game`, so values have the same sum. The original of one copy earns what it would without
    the copy, and as much again as the copy does. Nobody gains by splitting, merging or renaming, since the game does
    not know who owns what. One evaluation costs one of `game`'s.

    Args:
        game: A game whose players are n rows.
        origin: (n,) the row that each row descends from, itself if from none (`fgsv.audit.Copies.origin`).
        players: (n,) the player of each row, numbered from 0. Default: each row is a player.

    Returns:
        A game of the players, with a fingerprint of its own if `game` has one.

    Raises:
        ValueError: `origin` is not the first of each line, or `players` has gaps.

    Examples:
        >>> either = with_precedence(lambda masks: masks.any(axis=1), [0, 0])  # the second row is a copy of the first
        >>> either([[False, True], [True, True]]).tolist()
        [0.0, 1.0]

    """
    order = origin if isinstance(origin, Precedence) else Precedence.of(origin, players)
    inner = as_game(game, len(order.origin))
    content = hashlib.sha256(order.origin.tobytes() + order.players.tobytes()).hexdigest()
    return _over(inner, order.rows, int(order.players.max()) + 1, f"precedence {content}")
