"""Re-evaluation of recorded coalitions if libraries have changed since they were recorded."""

from __future__ import annotations

from collections.abc import Mapping

from fgsv.coalitions import Coalitions, join, split, unpack
from fgsv.evaluation.batch import PackedBatch
from fgsv.evaluation.workers import Workers
from fgsv.game import Game
from fgsv.ledger import Batch, Ledger, LedgerError
from fgsv.methods.known import Known
from fgsv.packages import versions
from fgsv.types import Floats

COALITIONS = 2
"""Coalitions of a batch that are evaluated again, in the first and the last batch of the game."""
TOLERANCE = 1e-6
"""Largest difference allowed, relative to the largest recorded value: other versions round differently."""


def recheck(ledger: Ledger, number: int, game: Game, workers: Workers) -> None:
    """Evaluate a few coalitions again that were recorded with other versions; raise an error if their values moved.

    These evaluations are outside the budget and not recorded.
    """
    recorded: dict[int | None, dict[str, str]] = {run.id: run.versions for run in ledger.runs()}
    now = versions()
    for batch in _first_and_last(ledger, number):
        before = recorded.get(batch.run, {})
        if before == now:
            continue
        coalitions = unpack(game.n_players, join(split(batch.coalitions)[-COALITIONS:]))
        changed = _changes(before, now)
        _compare(workers, coalitions, batch.outcome.values[-COALITIONS:], str(ledger.path), changed)


def recheck_known(known: Known, workers: Workers) -> None:
    """Evaluate the last known coalitions again if some were recorded with other versions; raise if values moved."""
    now = versions()
    others = [each for each in known.versions if each != now]
    if not others or not len(known):
        return
    coalitions = Coalitions.from_masks(known.masks(slice(-COALITIONS, None)))
    changed = _changes(others[0], now)
    _compare(workers, coalitions, known.values[-COALITIONS:], "the ledger to start from", changed)


def _first_and_last(ledger: Ledger, number: int) -> list[Batch]:
    """Return the first and the last batch of a game without failures, of those whose versions a run recorded."""
    first = last = None
    for batch in ledger.batches(number):
        if not batch.outcome.failures and batch.run is not None:
            first, last = first or batch, batch
    return [batch for batch in dict.fromkeys((first, last)) if batch is not None]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the versions that changed, in words."""
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {before.get(name, 'unknown')} then, {now.get(name, 'none')} now" for name in names)


def _compare(workers: Workers, coalitions: Coalitions, recorded: Floats, place: str, changed: str) -> None:
    """Evaluate coalitions again; raise an error that names the first whose value moved, and what changed."""
    answer = workers.evaluate(PackedBatch(coalitions))
    row, found = 0, "no such value"
    if not answer.failures and answer.values.shape == recorded.shape:
        far = (abs(answer.values - recorded) > TOLERANCE * abs(recorded).max()).any(axis=1)
        if not far.any():
            return
        row = int(far.argmax())
        found = str(answer.values[row])
    members = coalitions.members(row)[:10].tolist()
    raise LedgerError(
        f"the game gives other values than those recorded in {place}: for the coalition of size "
        f"{coalitions.sizes[row]} that begins with {members}, {recorded[row]} is recorded, but now it is {found}. "
        f"What changed: {changed}. Install the earlier versions, or use a new ledger"
    )
