"""Verification: recompute a valuation from its ledger, and a ledger's records from the game."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from fgsv.coalitions import unpack
from fgsv.estimators import Method
from fgsv.game import Game, as_game
from fgsv.ledger import Batch, Ledger, NotRecorded, WrongLedger
from fgsv.running.batches import PackedBatch
from fgsv.running.run import iterate
from fgsv.running.workers import Workers
from fgsv.semivalue import Semivalue
from fgsv.valuation import Reason, RunSettings, Valuation

TAKEN_FROM_FILE = (
    "the groups' names and members, the amount and policy of a payout, an end by time limit or interrupt, the "
    "error from the test rows, the scores without each provider, and the audit"
)
"""What a valuation states but no ledger records."""


@dataclass(frozen=True)
class Difference:
    """One difference between a stated result and the recomputed one."""

    where: str
    stated: Any
    derived: Any

    def __str__(self) -> str:
        return f"{self.where}: stated {self.stated}, derived {self.derived}"


def verify(
    valuation: Valuation,
    ledger: str | Path,
    *,
    method: Method | None = None,
    semivalue: Semivalue | None = None,
    stop: Any = None,
    proxy: Any = None,
) -> list[Difference]:
    """Recompute every draw from the seed and every number from the recorded utilities; return what differs.

    This repeats the run with a game that only looks values up in the ledger: it needs neither data nor model, and
    does not change the ledger. An empty list means that all values, errors and shares are the same, bit for bit.

    A run with your own method, semivalue, stopping rule or proxy needs that object again. The ledger knows players,
    not providers: `TAKEN_FROM_FILE` lists what is not checked.
    """
    settings = valuation.settings
    if settings is None:
        raise ValueError("a valuation without settings cannot be verified: it was not made by fgsv.value")
    own = {"method": method, "semivalue": semivalue, "stop": stop, "proxy": proxy}
    lacking = [name for name in settings.needs if own[name] is None]
    if lacking:
        raise ValueError(
            f"this run used your own {lacking[0]}, which no file stores: pass it again, "
            f"fgsv.verify(valuation, ledger, {lacking[0]}=...)"
        )
    with Ledger(ledger, read_only=True) as opened:
        game = recorded_game(opened, settings.fingerprint)[1]
        game = replace(game, grouped_by=valuation.partition if valuation.grouped else None)
        given = {name: each for name, each in own.items() if name in settings.needs}
        if _was_regrouped(valuation):  # targets were met, or not, by other groups: follow it as far as it went
            given |= {"precision": None, "stderr": None, "stop": None}
            given["max_seconds"] = float("inf") if settings.rules or "stop" in settings.needs else None
        try:
            for derived in iterate(game, valuation.partition, ledger=opened, **(_arguments(settings) | given)):
                if derived.n_evaluations >= valuation.n_evaluations:
                    break
            if valuation.weights is not None:  # the ledger records each fold of the test rows as an output
                derived = derived.combined(valuation.weights)
        except NotRecorded:
            stated = f"{valuation.n_evaluations} evaluations from seed {settings.seed}"
            return [Difference("draws", stated, "some of them are not in the ledger")]
    return list(_differences(valuation, derived))


def _was_regrouped(valuation: Valuation) -> bool:
    """Say whether these are not the groups of the run."""
    settings = valuation.settings
    return settings is not None and settings.groups not in (None, valuation.partition.fingerprint)


def _arguments(settings: RunSettings) -> dict[str, Any]:
    """Return the arguments of `fgsv.value` that repeat the run in this process."""
    table = None if settings.cost is None else np.array(settings.cost)
    options = {} if "method" in settings.needs else dict(settings.options)
    return options | {
        "method": settings.method,
        "semivalue": settings.semivalue,
        "seed": settings.seed,
        "budget": settings.budget,
        "batch_size": settings.batch_size,
        "cost": None if table is None else lambda sizes: table[sizes - 1],
        # when the clock stopped the run cannot be recomputed, only that there was a limit
        "max_seconds": None if settings.max_seconds is None else float("inf"),
        "stderr": settings.stderr,
        "precision": settings.precision,
        "confidence": settings.confidence,
        "on_error": settings.on_error,
        "n_jobs": 1,
    }


def recorded_game(ledger: Ledger, fingerprint: str | None) -> tuple[int, Game]:
    """Return a game's number in the ledger, and the game, which can only replay recorded values."""
    games = {game.fingerprint: (number, game) for number, game in ledger.games()}
    if fingerprint not in games:
        held = ", ".join(map(repr, games)) or "no game at all"
        raise WrongLedger(
            f"the ledger {ledger.path} is of another game: it contains no game with fingerprint {fingerprint!r}, "
            f"but {held}. Pass the ledger of the run itself"
        )
    return games[fingerprint]


def _differences(stated: Valuation, derived: Valuation) -> Iterator[Difference]:
    for name in ("method", "seed", "n_evaluations", "outputs", "efficient", "degrees_of_freedom", "failures"):
        if getattr(stated, name) != getattr(derived, name):
            yield Difference(name, getattr(stated, name), getattr(derived, name))
    for name in ("values", "stderr", "total", "player_values", "deviations"):
        yield from _different_entries(name, getattr(stated, name), getattr(derived, name), stated.names)
    # an end by time limit or interrupt cannot be recomputed
    clocked = stated.settings is not None and stated.settings.max_seconds is not None
    if (
        _was_regrouped(stated)
        or stated.end.reason is Reason.INTERRUPTED
        or (stated.end.reason is Reason.TIME and clocked)
    ):
        return
    same_words = stated.settings is not None and stated.settings.version == fgsv.__version__
    if stated.end != derived.end if same_words else stated.end.reason is not derived.end.reason:
        yield Difference("stopped", repr(stated.stopped), repr(derived.stopped))


def _different_entries(name: str, stated: Any, derived: Any, names: tuple[Any, ...]) -> Iterator[Difference]:
    if stated is None or derived is None or np.shape(stated) != np.shape(derived):
        if stated is not derived:
            yield Difference(f"shape of {name}", np.shape(stated), np.shape(derived))
        return
    a, b = np.asarray(stated), np.asarray(derived)
    wrong = np.argwhere(~((a == b) | ((a != a) & (b != b))))
    for index in wrong[:5]:
        place = tuple(index.tolist())
        label = f" of group {names[place[0]]!r}" if name in ("values", "stderr") and place else f" {list(place)}"
        yield Difference(name + label, a[place].item(), b[place].item())
    if len(wrong) > 5:
        yield Difference(name, f"{len(wrong)} entries in total", "others")


def verify_records(
    ledger: str | Path, game: Any, *, sample: int = 20, seed: int = 0, tolerance: float = 0.0
) -> list[Difference]:
    """Evaluate a random sample of a game's recorded batches again; return where the values differ.

    Values differ if they were tampered with, or if a library changed its arithmetic. `tolerance` is the largest
    allowed absolute difference: for another type of machine, or a GPU.
    """
    with Ledger(ledger, read_only=True) as opened:
        number, recorded = recorded_game(opened, getattr(game, "fingerprint", None))
        # a batch that hung or killed its worker could do the same here
        whole = (batch for batch in opened.batches(number) if not batch.outcome.failures)
        records = _sampled(whole, sample, np.random.default_rng(seed))
    game = as_game(game, recorded.n_players)
    batches = [PackedBatch(unpack(game.n_players, record.coalitions)) for record in records]
    answers = Workers(game, 1, None).attempt(batches)
    found: list[Difference] = []
    for record, answer in zip(records, answers, strict=True):
        if answer.failures or answer.values.shape != record.outcome.values.shape:
            words = ", ".join(answer.failures) or f"{answer.values.shape[1]} outputs"
            found.append(Difference(f"batch {record.id}", f"{record.outcome.values.shape[1]} outputs", words))
            continue
        far = np.abs(answer.values - record.outcome.values) > tolerance
        for row, output in np.argwhere(far)[:3]:
            where = f"batch {record.id}, coalition {row}, output {output}"
            found.append(Difference(where, record.outcome.values[row, output], answer.values[row, output]))
    return found


def _sampled(records: Iterator[Batch], count: int, rng: np.random.Generator) -> list[Batch]:
    """Return a uniform sample of a stream, keeping only the sample in memory."""
    kept: list[Batch] = []
    for seen, record in enumerate(records):
        place = int(rng.integers(0, seen + 1))
        if len(kept) < count:
            kept.append(record)
        elif place < count:
            kept[place] = record
    return kept
