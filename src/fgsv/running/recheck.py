"""Re-evaluation of recorded coalitions where the libraries have changed since they were recorded."""

from __future__ import annotations

from fgsv.coalitions import Coalitions, join, split, unpack
from fgsv.environment import versions
from fgsv.game import Game, Known
from fgsv.ledger import Batch, Ledger, LedgerError
from fgsv.ledger.schema import Promise
from fgsv.running.batches import PackedBatch
from fgsv.running.workers import Workers

COALITIONS = 2
"""Coalitions of a batch that are evaluated again, in the first and the last batch of the game."""
TOLERANCE = 1e-6
"""Largest difference allowed, relative to the largest recorded value: other versions round differently."""


def recheck(ledger: Ledger, numbers: list[int], game: Game, workers: Workers) -> None:
    """Evaluate a few coalitions again that were recorded with other versions; raise an error if their values moved.

    These evaluations are outside the budget and not recorded.
    """
    recorded = {run["id"]: run["versions"] for run in ledger.runs()}
    now = versions()
    for batch in [batch for number in numbers for batch in _ends(ledger, number)]:
        if recorded.get(batch.run) == now:
            continue
        some = split(batch.coalitions)[-COALITIONS:]
        coalitions = unpack(game.n_players, join(some))
        [answer] = workers.attempt([PackedBatch(coalitions)])
        known = batch.outcome.values[-COALITIONS:]
        if answer.failures or answer.values.shape != known.shape:
            raise _moved(ledger.path, recorded.get(batch.run), now, coalitions, 0, known[0], "no such value")
        far = abs(answer.values - known) > TOLERANCE * abs(known).max()
        if far.any():
            row = int(far.any(axis=1).argmax())
            raise _moved(ledger.path, recorded.get(batch.run), now, coalitions, row, known[row], answer.values[row])


def recheck_known(known: Known, game: Game, workers: Workers) -> None:
    """Evaluate the last known coalitions again if some were recorded with other versions; raise if values moved."""
    now = versions()
    others = [dict(each) for each in known.versions if each != now]
    if not others or not len(known):
        return
    coalitions = Coalitions.from_masks(known.masks(slice(-COALITIONS, None)))
    [answer] = workers.attempt([PackedBatch(coalitions)])
    recorded = known.values[-COALITIONS:]
    wrong = answer.failures or answer.values.shape != recorded.shape
    far = wrong or (abs(answer.values - recorded) > TOLERANCE * abs(recorded).max()).any()
    if far:
        found = "no such value" if wrong else answer.values[-1]
        raise _moved("the ledger to start from", others[0], now, coalitions, -1, recorded[-1], found)


def _ends(ledger: Ledger, number: int) -> list[Batch]:
    """Return the first and the last batch of a game without failures, of those whose versions a run recorded.

    Records of 0.1.0 do not say which run asked for them: they all count.
    """
    says_run = ledger.promises()[number] is Promise.CODE
    first = last = None
    for batch in ledger.batches(number):
        if not batch.outcome.failures and not (says_run and batch.run is None):
            first, last = first or batch, batch
    return [batch for batch in dict.fromkeys((first, last)) if batch is not None]


def _moved(
    place: object,
    before: dict[str, str] | None,
    now: dict[str, str],
    coalitions: Coalitions,
    row: int,
    known: object,
    found: object,
) -> LedgerError:
    changed = [
        f"{name} {(before or {}).get(name, 'unknown')} then, {now.get(name, 'none')} now"
        for name in sorted({*(before or {}), *now})
        if (before or {}).get(name) != now.get(name)
    ]
    row %= len(coalitions)
    members = coalitions.members(row)[:10].tolist()
    return LedgerError(
        f"the game gives other values than those recorded in {place}: for the coalition of size "
        f"{coalitions.sizes[row]} that begins with {members}, {known} is recorded, now {found}. "
        f"What changed: {'; '.join(changed)}. Install the versions of then, or use a new ledger"
    )
