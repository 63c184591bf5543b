"""The ledger before the workers: batches are looked up, and a few evaluated again if libraries have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgsv.coalitions import Coalitions, join, split, unpack
from fgsv.evaluation.batch import Asked, PackedBatch
from fgsv.evaluation.workers import Workers
from fgsv.game import Game
from fgsv.ledger import Batch, Ledger, LedgerError, Outcome, Row
from fgsv.methods.known import Known
from fgsv.packages import versions
from fgsv.types import Floats

MOST_RECENT = 2**16
"""Rows cached with their values, to avoid reading the file: some 20 MB."""
COALITIONS = 2
"""Coalitions of a batch that are evaluated again, in the first and the last batch of the game."""
TOLERANCE = 1e-6
"""Largest difference allowed, relative to the largest recorded value: other versions round differently."""


class LedgerLookup:
    """Finds batches in a ledger, or on their way to it: row by row if rows are independent."""

    def __init__(self, ledger: Ledger, game: Game, *, retries: bool) -> None:
        self._ledger = ledger
        self._game = game
        self.number = ledger.game(game)
        """The game's number in the ledger."""
        widths = (batch.outcome.values.shape[1] for batch in ledger.batches(self.number))
        self.width = next((width for width in widths if width), None)
        """Outputs of the recorded evaluations; None if there are none."""
        self._retries = retries
        self._recent: dict[bytes, Row] = {}
        self._coming: dict[bytes, PackedBatch] = {}
        """Batches or rows that are being evaluated."""

    def find(self, batches: Sequence[PackedBatch]) -> Asked:
        """Return what is known of batches, and which are to be evaluated."""
        self._coming = {key: batch for key, batch in self._coming.items() if batch.outcome is None}
        if self._game.independent_rows:
            return self._by_row(batches)
        found, new = [], []
        for batch in batches:
            coming = self._coming.get(batch.packed)
            if coming is None:  # a batch that occurs twice is evaluated once
                outcome = self._ledger.find(self.number, batch.packed)
                if outcome is not None and not self._should_retry(outcome.failures):
                    batch.outcome = outcome
                else:
                    self._coming[batch.packed] = batch
                    new.append(batch)
            found.append(coming or batch)
        return Asked.all(found, new)

    def _by_row(self, batches: Sequence[PackedBatch]) -> Asked:
        """Find each row separately; each that is missing is evaluated once."""
        rows = [split(batch.packed) for batch in batches]
        if len(self._recent) > MOST_RECENT:
            self._recent = {}
        known = self._recent
        unknown = {row for batch in rows for row in batch if row not in known and row not in self._coming}
        found = self._ledger.find_rows(self.number, unknown)
        known |= {row: seen for row, seen in found.items() if not self._should_retry(seen.failure)}
        new: list[PackedBatch] = []
        for batch, wanted in zip(batches, rows, strict=True):
            missing = [row for row in dict.fromkeys(wanted) if row not in known and row not in self._coming]
            if missing:
                whole = len(missing) == len(wanted)
                new.append(batch if whole else PackedBatch(unpack(self._game.n_players, join(missing))))
                self._coming |= dict.fromkeys(missing, new[-1])
        every = [row for batch in rows for row in batch]
        coming = {self._coming[row]: None for row in every if row in self._coming}
        here = {row: known[row] for row in every if row in known}

        def outcomes() -> list[Outcome]:
            for batch in coming:
                assert batch.outcome is not None
                here.update(zip(split(batch.packed), batch.outcome.rows(), strict=True))
            known.update(here)
            return [Outcome.joined([here[row] for row in every])]

        return Asked(list(coming), new, outcomes)

    def forget(self) -> None:
        """Forget what was being evaluated."""
        self._coming = {}

    def _should_retry(self, failure: object) -> bool:
        """Say whether to evaluate a recorded failure again: only when on_error="raise"."""
        return bool(failure) and self._retries


def recheck(ledger: Ledger, number: int, game: Game, workers: Workers) -> None:
    """Evaluate a few coalitions again that were recorded with other versions; raise an error if their values moved.

    These evaluations are outside the budget and not recorded.

    Args:
        ledger: The open ledger.
        number: The game's number in it.
        game: The game.
        workers: Who evaluates it.

    Raises:
        LedgerError: A value moved; the error names the coalition and the libraries that changed.

    """
    recorded: dict[int | None, dict[str, str]] = {run.id: run.versions for run in ledger.runs(number)}
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
            first = first or batch
            last = batch
    return [batch for batch in dict.fromkeys((first, last)) if batch is not None]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the versions that changed, in words."""
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {before.get(name, 'unknown')} then, {now.get(name, 'none')} now" for name in names)


def _compare(workers: Workers, coalitions: Coalitions, recorded: Floats, place: str, changed: str) -> None:
    """Evaluate coalitions again; raise an error that names the first whose value moved, and what changed."""
    answer = workers.evaluate(PackedBatch(coalitions))
    row = 0
    found = "no such value"
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
