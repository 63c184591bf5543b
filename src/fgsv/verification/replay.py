"""Replay: a run repeated from what was recorded about it, and the records that it used, in draw order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, starmap
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions, join, pack, split, unpack
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import View
from fgsv.game import Game
from fgsv.ledger import Ledger, NotRecorded, WrongLedger, known
from fgsv.methods.known import Known
from fgsv.methods.steady import Steady
from fgsv.running.run import with_estimator
from fgsv.types import Floats, Masks
from fgsv.valuation import Reason, RunSettings, Valuation
from fgsv.valuation.settings import TARGETS


class Records:
    """Every evaluation that a run used, in draw order after U(0) and U(N); what is drawn twice is there twice.

    The leaf of a record has its number (8 bytes), the length of the packed coalition (4 bytes), the coalition
    (`fgsv.coalitions.pack`) and its values as little-endian 64-bit floats.
    """

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._values: list[Floats] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, coalitions: Coalitions, values: Floats) -> None:
        """Add coalitions with their (m, q) values."""
        self._rows += split(pack(coalitions))
        self._values.append(np.array(values, dtype=float))

    @property
    def values(self) -> Floats:
        """(N, q), in the same order."""
        return np.concatenate(self._values)

    def masks(self, n_players: int) -> Masks:
        """Return (N, n) the coalitions."""
        return coalitions_of(n_players, self._rows).masks()

    def row(self, number: int) -> bytes:
        """Return a coalition, packed."""
        return self._rows[number]

    def leaves(self) -> list[bytes]:
        """Return what a Merkle tree is built over."""
        return [record_leaf(*each) for each in zip(range(len(self)), self._rows, self.values, strict=True)]

    def watch(self, evaluator: Evaluator) -> View:
        """Return access that adds every evaluation here; the evaluator is open, and has U(0) and U(N) already."""
        self.add(Coalitions.ends(evaluator.game.n_players), evaluator.ends())
        return View(evaluator, evaluator.game, seen=self.add)


def record_leaf(number: int, row: bytes, values: Floats) -> bytes:
    """Return the leaf of one record.

    Args:
        number: The record's number in draw order.
        row: Its coalition, packed.
        values: (q,): its values.

    Returns:
        The bytes that the tree hashes.

    """
    floats = np.asarray(values, dtype="<f8").tobytes()
    return number.to_bytes(8, "big") + len(row).to_bytes(4, "big") + row + floats


@dataclass(frozen=True, eq=False)
class Repeated:
    """A run that was repeated, as far as the one that it repeats went."""

    valuation: Valuation
    estimator: Steady

    @property
    def influence(self) -> Floats | None:
        """(m, K): how much each draw, in draw order, moves each group's value; None if the method does not say."""
        return self.estimator.influence(self.valuation.partition)


def repeat(access: GameAccess, valuation: Valuation, own: Mapping[str, Any] | None = None) -> Repeated:
    """Repeat the run that a valuation states, with open access; `own` has the user's objects that it needs.

    Args:
        access: The game, open: of a ledger, of a proof, or the real one.
        valuation: What the run states.
        own: The user's own objects by argument, for those that `settings.needs` names.

    Returns:
        The valuation of the repeated run, and what its records can move.

    Raises:
        NotRecorded: It draws what was not recorded.
        OtherLaw: A recorded law does not follow from the values.

    """
    settings = valuation.settings
    assert settings is not None
    given = dict(own or {})
    regrouped = was_regrouped(valuation)
    if regrouped:  # targets were met, or not, by other groups: follow it as far as it went
        given |= dict.fromkeys((*TARGETS, "stop"))
        given["max_seconds"] = float("inf") if settings.max_seconds or has_targets(valuation) else None
    # rounds that ask only for what was known count nothing: such a run is over at its own end
    by_itself = settings.start is not None and valuation.end.reason in (Reason.BUDGET, Reason.EXHAUSTED)
    for found in starmap(Repeated, with_estimator(access, valuation.partition, **(_arguments(settings) | given))):
        derived = found.valuation
        as_far = (derived.n_evaluations, derived.n_known) >= (valuation.n_evaluations, valuation.n_known)
        if as_far and (derived.end.reason is not Reason.INTERRUPTED or not by_itself):
            break
    if valuation.weights is not None:
        derived = derived.combined(valuation.weights)
    return replace(found, valuation=derived)


def was_regrouped(valuation: Valuation) -> bool:
    """Say whether these are not the groups of the run."""
    settings = valuation.settings
    return settings is not None and settings.groups not in (None, valuation.partition.fingerprint)


def has_targets(valuation: Valuation) -> bool:
    """Say whether errors, which depend on the groups, could end the run."""
    settings = valuation.settings
    return settings is not None and ("stop" in settings.needs or any(getattr(settings, name) for name in TARGETS))


def from_ledger(ledger: Ledger, game: Game, settings: RunSettings) -> Evaluator:
    """Return an evaluator of a recorded game that only looks values up.

    Args:
        ledger: The open ledger.
        game: The recorded game.
        settings: The settings of the run.

    Returns:
        The evaluator, not open yet.

    """
    game = replace(game, weights=settings.weights, n_folds=settings.n_folds)
    start = _known_of_run(ledger, game, settings.start)
    return Evaluator(game, ledger=ledger, start=start, **_evaluated_as(settings))


def from_values(
    values: Floats,
    n_players: int,
    outputs: tuple[str, ...] | None,
    settings: RunSettings,
    laws: Mapping[int, Mapping[str, Any]] | None = None,
) -> Evaluator:
    """Return an evaluator whose game answers with these (N, q) values in turn, and then with an error.

    A run draws by recorded `laws`, as far as these differ from its own by rounding alone.

    Args:
        values: (N, q): the values in draw order.
        n_players: Players of the game.
        outputs: Names of the outputs, if it has any.
        settings: The settings of the run.
        laws: The recorded laws of its draws, by round.

    Returns:
        The evaluator, not open yet.

    """
    left = iter(values)

    def answer(masks: Any) -> Floats:
        found = list(islice(left, len(masks)))
        if len(found) < len(masks):
            raise NotRecorded(f"the run needs more than the {len(values)} values in the proof")
        return np.array(found)

    game = Game(answer, n_players, outputs, settings.fingerprint, weights=settings.weights, n_folds=settings.n_folds)
    return Evaluator(game, laws=laws, **_evaluated_as(settings))


def _known_of_run(ledger: Ledger, game: Game, start: str | None) -> Known | None:
    """Return the known evaluations that a recorded run started from, by their hash, from its own ledger.

    Args:
        ledger: The open ledger of the run.
        game: Its game.
        start: The hash of what it started from; None if it started from nothing.

    Returns:
        The known evaluations; None if it started from nothing.

    Raises:
        WrongLedger: The ledger does not record them, or no longer has all of them.

    """
    if start is None:
        return None
    for run in ledger.runs():
        recorded = ledger.start_of(run.id)
        if recorded is not None and recorded.known == start:
            found = known(game, [ledger], keys=set(recorded.batches))
            if found.sha256 == start:
                return found
            raise WrongLedger(
                f"{ledger.path} no longer has all the evaluations that the run started from: they were erased or "
                "replaced"
            )
    raise WrongLedger(f"{ledger.path} does not record the evaluations that the run started from ({start[:16]}...)")


def recorded_game(ledger: Ledger, fingerprint: str | None) -> tuple[int, Game]:
    """Return a game's number in the ledger, and the game, which can only replay recorded values."""
    games = {game.fingerprint: (number, game) for number, game in ledger.games()}
    if fingerprint is None:
        raise WrongLedger(
            f"the game has no fingerprint, so it was not recorded in {ledger.path}, nor in any other ledger"
        )
    if fingerprint not in games:
        held = ", ".join(map(repr, games)) or "no game at all"
        raise WrongLedger(
            f"the ledger {ledger.path} belongs to another game: it contains no game with fingerprint "
            f"{fingerprint!r}, but {held}. Pass the ledger of the run itself"
        )
    return games[fingerprint]


def coalitions_of(n_players: int, rows: list[bytes]) -> Coalitions:
    """Return packed coalitions as a batch."""
    return unpack(n_players, join(rows))


def _evaluated_as(settings: RunSettings) -> dict[str, Any]:
    return {"batch_size": settings.batch_size, "on_error": settings.on_error, "n_jobs": 1}


def _arguments(settings: RunSettings) -> dict[str, Any]:
    """Return the arguments of `fgsv.value` that repeat the run, besides those of its evaluator."""
    table = None if settings.cost is None else np.array(settings.cost)
    options = {} if "method" in settings.needs else dict(settings.options)
    return options | {
        "method": settings.method,
        "semivalue": settings.semivalue,
        "seed": settings.seed,
        "budget": settings.budget,
        "cost": None if table is None else lambda sizes: table[sizes - 1],
        **{name: getattr(settings, name) for name in TARGETS},
        "confidence": settings.confidence,
        # when the clock stopped the run cannot be recomputed, only that there was a limit
        "max_seconds": None if settings.max_seconds is None else float("inf"),
    }
