"""Known evaluations: those in earlier ledgers that apply to a game, even if players have joined or left since."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgsv.checks import check_type
from fgsv.coalitions import unpack_masks
from fgsv.game import Game, as_game, each_digest
from fgsv.ledger.file import Ledger, WrongLedger
from fgsv.ledger.records import Purpose, RecordedRun, RecordedStart
from fgsv.methods.known import Known, Related, as_keys
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation.settings import LIMITS
from fgsv.words import numbered

MOST_BYTES = 2**31
"""Limit on the bits of all known coalitions."""
NOT_DRAWN = -1
"""The run of a coalition of which only the value is known."""
_NOT_DRAWN_BY = ("budget", *LIMITS, "confidence", "groups", "version", "needs", "timeout", "on_error")
"""Settings that do not change what a run draws, only how much: runs that differ in nothing else are one."""


def known(game: Any, ledgers: Sequence[str | Path | Ledger], *, keys: Collection[bytes] | None = None) -> Known:
    """Return the evaluations in ledgers that apply to a game: those of its frame whose players are all in it.

    Players are recognised by their digests. Of several players with equal content, the first of one game is the first
    of the other, and so on.

    The result does not depend on the order of the ledgers. A coalition that a run drew, but that something else asked
    for too, counts only as a value.

    Args:
        game: The present game; it says what its players are, or has a fingerprint.
        ledgers: Ledgers, open or as paths, in any order.
        keys: Keys of the batches to look at. Default: all.

    Returns:
        The known evaluations, sorted, each coalition once.

    Raises:
        WrongLedger: Nothing in a ledger can apply, or it has forgotten players that another one has.

    """
    game = as_game(game)
    digests = game.player_digests()
    if digests is None and game.fingerprint is None:
        raise WrongLedger(
            "this game does not say what its players are, so earlier evaluations of them cannot be found: name "
            'them with fgsv.Game(fn, n_players, frame="ridge, test rows of 2024", players=[...])'
        )
    check_type(ledgers, (list, tuple), "a list of ledgers")
    found = _Found(game, digests)
    with ExitStack() as stack:
        opened = [
            each if isinstance(each, Ledger) else stack.enter_context(Ledger(each, read_only=True))
            for each in ledgers
        ]
        for each in opened:
            each.check_stays_forgotten(opened)
        for each in opened:
            found.read(each, keys)
    return found.known()


def applicable_games(ledger: Ledger, game: Game) -> list[tuple[int, Game]]:
    """Return the games of a ledger that share their frame with a game; raise `WrongLedger` if there are none."""
    games = ledger.games()
    found = [(number, old) for number, old in games if not changes_of_frame(old, game)]
    if found:
        return found
    if not games:
        raise WrongLedger(f"{ledger.path} has no evaluations to start from")
    closest = min((old for _, old in games), key=lambda old: len(changes_of_frame(old, game)))
    moved = changes_of_frame(closest, game)
    remedy = "Run without it, or undo the change"
    before, now = (each.frame if isinstance(each.frame, Mapping) else {} for each in (closest, game))
    if before.get("preprocessing") != now.get("preprocessing"):
        remedy += "; fgsv.open_table(..., start=LEDGER) opens a table with the preprocessing of an earlier run"
    raise WrongLedger(f"nothing in {ledger.path} can be reused: {'; '.join(moved)}. {remedy}")


def last_frame(path: str | Path) -> str | Mapping[str, str] | None:
    """Return the frame of the last run of a ledger; None if its game has none."""
    with Ledger(path, read_only=True) as ledger:
        runs = ledger.runs()
        if not runs:
            raise WrongLedger(f"{path} has no evaluations to start from")
        return dict(ledger.games())[latest(runs).game].frame


def latest(runs: Iterable[RecordedRun]) -> RecordedRun:
    """Return the run that started last, also where ledgers were merged in another order."""
    return max(runs, key=lambda run: (run.started, run.id))


def changes_of_frame(old: Game, game: Game) -> list[str]:
    """Return in words what differs between the frames of two games; empty if coalitions keep their values."""
    if old.fingerprint == game.fingerprint:
        return []
    if old.frame is None or old.player_digests() is None:
        return [f"its game {old.fingerprint!r} does not say what its players are"]
    if game.frame is None:
        return ["this game does not say what its values depend on besides the players (its frame)"]
    if isinstance(old.frame, Mapping) and isinstance(game.frame, Mapping):
        names = [name for name in {**old.frame, **game.frame} if old.frame.get(name) != game.frame.get(name)]
        moved = [f"the {name} changed" for name in names]
    else:
        moved = [] if old.frame == game.frame else [f"the frame was {_short(old.frame)}, now {_short(game.frame)}"]
    if old.outputs != game.outputs and not moved:
        moved = [f"the outputs were {old.outputs}, now {game.outputs}"]
    return moved


def _short(frame: Any) -> str:
    text = repr(frame)
    return text if len(text) <= 100 else text[:100] + "..."


def matched_players(old: bytes, new: bytes) -> Ints:
    """Return, for each player of an old game, its column in the new one, or -1 if it has left; 16 bytes a player."""
    columns = {each: column for column, each in enumerate(numbered(each_digest(new)))}
    return np.array([columns.get(each, -1) for each in numbered(each_digest(old))], dtype=np.int64)


@dataclass
class _Drawn:
    """A run, or several that count as one: killed and resumed, or repeated with a larger budget."""

    had: Masks
    """(n,): the players of the present game that it had too."""
    has_laws: bool = False
    has_draws: bool = False
    lengths: set[int] = field(default_factory=set)
    """The evaluations that each of them ended with."""


_Player = tuple[bytes, int]
"""A digest, and the number of equal ones before it."""


class _Evaluations(NamedTuple):
    """Evaluations of coalitions whose players are all in the game; fields as in `Known`."""

    packed: NDArray[np.uint8]
    values: Floats
    run: Ints
    """The number of the run that drew it, or `NOT_DRAWN`."""


class _Latest(NamedTuple):
    """The most recent of the earlier games; fields as in `Known`."""

    started: str
    had: Masks
    n_left: int
    providers: tuple[str, ...]
    owners: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _WithLeavers:
    """Draws of a game with players who have left."""

    here: NDArray[np.uint8]
    """(k, n / 8): those of their players who are still there, as bits."""
    gone: NDArray[np.uint8]
    """The others, as bits of `left`."""
    left: tuple[_Player, ...]
    values: Floats
    run: Ints


class _Found:
    """Collects the known evaluations of one game."""

    def __init__(self, game: Game, digests: bytes | None) -> None:
        self._game = game
        self._digests = digests
        self._runs: dict[str, _Drawn] = {}
        self._evaluations: list[_Evaluations] = []
        self._related: list[_WithLeavers] = []
        self._n_recorded = self._n_bytes = 0
        self._seen: set[bytes] = set()
        self._latest = _Latest("", np.zeros(game.n_players, dtype=bool), 0, ())
        self._notes: dict[str, None] = {}
        self._versions: dict[str, Mapping[str, str]] = {}

    def read(self, ledger: Ledger, keys: Collection[bytes] | None) -> None:
        """Take in a ledger."""
        runs = ledger.runs()
        for number, old in applicable_games(ledger, self._game):
            columns = self._columns(old)
            had = np.zeros(self._game.n_players, dtype=bool)
            had[columns[columns >= 0]] = True
            own = [run for run in runs if run.game == number]
            self._versions |= {json.dumps(run.versions, sort_keys=True): run.versions for run in own}
            started = latest(own).started if own else ""
            if started >= self._latest.started:
                starts = [ledger.start_of(run.id) or RecordedStart() for run in reversed(own)]
                start = next((each for each in starts if each.providers), RecordedStart())
                left = int((columns < 0).sum())
                self._latest = _Latest(started, had, left, *_providers(start, columns, self._game.n_players))
            drawn = {run.id: self._drawn(ledger, run, old, had) for run in own}
            self._read_game(ledger, number, old, columns, drawn, keys)

    def _players(self, old: Game) -> list[_Player]:
        theirs = old.player_digests()
        return list(numbered([b""] * old.n_players if theirs is None else each_digest(theirs)))

    def _columns(self, old: Game) -> Ints:
        theirs = old.player_digests()
        if theirs is None or self._digests is None:  # the same game, by name
            return np.arange(old.n_players)
        present = [each for each in each_digest(theirs) if any(each)]  # zeros are players that were forgotten
        equal = len(present) - len(set(present))
        if equal:
            words = f"{equal} players have the same content as another; all count, and are matched in order"
            self._notes[words] = None
        return matched_players(theirs, self._digests)

    def _drawn(self, ledger: Ledger, run: RecordedRun, old: Game, had: Masks) -> str | None:
        """Return the key of a run that drew by recorded laws, or None if it did not."""
        if run.purpose != Purpose.DRAWS:
            return None
        if run.settings.get("fingerprint", old.fingerprint) != old.fingerprint:  # drew coalitions of a view of it
            return None
        if run.settings.get("options", {}).get("plug_in"):  # chose some coalitions by what it had learned
            return None
        settings = {name: each for name, each in run.settings.items() if name not in _NOT_DRAWN_BY}
        key = json.dumps([old.fingerprint, settings], sort_keys=True)
        drawn = self._runs.setdefault(key, _Drawn(had))
        drawn.has_laws |= bool(ledger.laws(run.id))
        drawn.lengths.add(run.n_evaluations or 0)
        return key

    def _read_game(
        self,
        ledger: Ledger,
        number: int,
        old: Game,
        columns: Ints,
        drawn: Mapping[int, str | None],
        keys: Collection[bytes] | None,
    ) -> None:
        """Take in the evaluations of a game. A draw counts as one as long as it is certain to be one.

        It is uncertain if the run may have found evaluations of another run in the ledger. Then the number of
        evaluations that the run ended with decides, unless coalitions are found one by one.
        """
        numbers = {key: place for place, key in enumerate(self._runs)}
        n_draws: Counter[str] = Counter()
        owners: set[str | None] = set()
        uncertain: defaultdict[str, list[Ints]] = defaultdict(list)
        left = tuple(each for each, column in zip(self._players(old), columns, strict=True) if column < 0)
        for batch in ledger.batches(number):
            name = ledger.key(number, batch.coalitions)
            if keys is not None and name not in keys:
                continue
            masks = unpack_masks(old.n_players, batch.coalitions)
            sizes = masks.sum(axis=1)
            values = batch.outcome.values
            if name not in self._seen and values.size:
                self._n_recorded += int((~np.isnan(values)).all(axis=1).sum())
            self._seen.add(name)
            between = (sizes > 0) & (sizes < old.n_players)
            key = None if batch.run is None else drawn.get(batch.run)
            if between.any():
                owners.add(key)
            run = np.full(len(masks), NOT_DRAWN)
            if key is not None:
                run[between] = numbers[key]
                n_draws[key] += int(between.sum())
            kept = self._add(masks, columns, values, run), self._add_related(masks, columns, left, values, run)
            if key is not None and owners != {key}:
                uncertain[key] += kept
        for key, count in n_draws.items():
            entry = self._runs[key]
            whole = not old.independent_rows and bool(entry.lengths & {count, count + 2})
            entry.has_draws |= count > 0
            for drawn_by in [] if whole else uncertain[key]:
                drawn_by[:] = NOT_DRAWN  # in place, in what was kept

    def _add(self, masks: Masks, columns: Ints, values: Floats, run: Ints) -> Ints:
        """Keep the evaluations without players who have left; return the runs of those that are kept."""
        if not values.shape[1]:
            return run[:0]
        rows = ~masks[:, columns < 0].any(axis=1) & ~np.isnan(values).any(axis=1)
        kept = _Evaluations(self._packed(masks[rows], columns), values[rows], run[rows])
        self._evaluations.append(kept)
        self._check_size(kept.packed.size)
        return kept.run

    def _add_related(self, masks: Masks, columns: Ints, left: tuple[_Player, ...], values: Floats, run: Ints) -> Ints:
        """Keep the draws with players who have left, and return the runs of those that are kept.

        Zeros are players that were forgotten, as were their values.
        """
        gone = masks[:, columns < 0]
        rows = np.flatnonzero(gone.any(axis=1) & (run != NOT_DRAWN))
        rows = rows[~np.isnan(values[rows]).any(axis=1)]
        if not len(rows) or not values.shape[1]:
            return run[:0]
        here = self._packed(masks[rows], columns)
        bits = np.packbits(gone[rows], axis=1)
        kept = _WithLeavers(here, bits, left, values[rows], run[rows])
        self._related.append(kept)
        self._check_size(here.size + bits.size)
        return kept.run

    def _packed(self, masks: Masks, columns: Ints) -> NDArray[np.uint8]:
        """Return coalitions of another game as bits of this one, without the players who have left."""
        here = np.zeros((len(masks), self._game.n_players), dtype=bool)
        here[:, columns[columns >= 0]] = masks[:, columns >= 0]
        return np.packbits(here, axis=1)

    def _all_related(self, renumbered: Ints) -> Related | None:
        """Return the draws with players who have left, sorted, each once."""
        left = sorted({player for each in self._related for player in each.left if any(player[0])})
        n = self._game.n_players
        if not left or len(left) > n:  # of a game that is mostly another one, nothing is to be learned
            return None
        column = {player: n + i for i, player in enumerate(left)}
        packed, values, run = [], [], []
        for each in self._related:
            masks = np.zeros((len(each.run), n + len(left)), dtype=bool)
            masks[:, :n] = np.unpackbits(each.here, axis=1, count=n)
            gone = np.unpackbits(each.gone, axis=1, count=len(each.left))
            for i, player in enumerate(each.left):
                if player in column:
                    masks[:, column[player]] = gone[:, i]
            packed.append(np.packbits(masks, axis=1))
            values.append(each.values)
            run.append(renumbered[each.run])
        bits = np.concatenate(packed)
        by_run = np.concatenate(run)
        found = np.concatenate(values)
        order = np.lexsort((*found.T[::-1], by_run))
        _, first = np.unique(as_keys(bits[order]), return_index=True)
        rows = order[first]
        rows = rows[by_run[rows] != NOT_DRAWN]
        return Related(n + len(left), bits[rows], found[rows], by_run[rows])

    def _check_size(self, more: int) -> None:
        self._n_bytes += more
        if self._n_bytes > MOST_BYTES:
            raise ValueError(
                f"the known coalitions of {self._game.n_players} players need more than {MOST_BYTES >> 30} GiB: "
                "start from fewer of them, or make players of several rows each"
            )

    def known(self) -> Known:
        """Return what was found, sorted, each coalition once."""
        order = sorted(self._runs)  # the same whatever ledger came first
        kept = [key for key in order if self._runs[key].has_laws and self._runs[key].has_draws]
        renumbered = np.full(len(self._runs) + 1, NOT_DRAWN)  # its last entry is that of NOT_DRAWN
        for position, key in enumerate(self._runs):
            renumbered[position] = kept.index(key) if key in kept else NOT_DRAWN
        n = self._game.n_players
        width = (self._game.n_players + 7) // 8
        q = self._game.width or 1
        nothing = _Evaluations(np.zeros((0, width), np.uint8), np.zeros((0, q)), np.zeros(0, np.int64))
        packed, values, run = map(np.concatenate, zip(*(self._evaluations or [nothing]), strict=True))
        self._evaluations = []  # the parts would take as much memory as the whole
        run = renumbered[run]
        # a coalition that was not drawn comes first among equal ones, and is kept
        by_rest = np.lexsort((*values.T[::-1], run))
        rows = by_rest[np.argsort(as_keys(packed[by_rest]), kind="stable")]
        ordered = as_keys(packed[rows])
        first = np.append(True, ordered[1:] != ordered[:-1])[: len(rows)]
        chosen = rows[first]
        apart = np.abs(
            values[rows] - np.repeat(values[chosen], np.diff(np.flatnonzero(np.append(first, True))), axis=0)
        )
        if apart.any():
            self._notes[f"some coalitions were evaluated twice, and differ by up to {apart.max():.3g}"] = None
        return Known(
            n,
            packed[chosen],
            values[chosen],
            run[chosen],
            np.array([self._runs[key].had for key in kept], dtype=bool).reshape(-1, n),
            self._latest.had,
            self._latest.n_left,
            self._n_recorded,
            tuple(self._notes),
            self._latest.providers,
            self._latest.owners,
            self._latest.lost,
            tuple(self._versions[key] for key in sorted(self._versions)),
            self._all_related(renumbered),
        )


def _providers(
    start: RecordedStart, columns: Ints, n: int
) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """Return `providers`, `owners` and `lost` of `Known`, from the start of a run and where its players are now."""
    providers = start.providers
    numbers = start.provider_of_player
    if len(numbers) != len(columns):
        return providers, (), frozenset()
    owners = [""] * n
    for number, column in zip(numbers, columns, strict=True):
        if column >= 0:
            owners[column] = providers[number]
    return providers, tuple(owners), frozenset(providers[number] for number in np.array(numbers)[columns < 0])
