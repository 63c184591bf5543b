"""Looking batches up in the ledger before they are evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from fgsv.coalitions import join, split, unpack
from fgsv.evaluation.batch import PackedBatch
from fgsv.evaluation.pending import Asked
from fgsv.game import Game
from fgsv.ledger import Ledger, Outcome, Row, by_row, joined

MOST_RECENT = 2**16
"""Rows cached with their values, to avoid reading the file: some 20 MB."""


class LedgerLookup:
    """Finds batches in a ledger, or on their way to it: row by row if rows are independent."""

    def __init__(self, ledger: Ledger, game: Game, *, retries: bool) -> None:
        self._ledger, self._game = ledger, game
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
                here.update(zip(split(batch.packed), by_row(batch.outcome), strict=True))
            known.update(here)
            return [joined([here[row] for row in every])]

        return Asked(list(coming), new, outcomes)

    def forget(self) -> None:
        """Forget what was being evaluated."""
        self._coming = {}

    def _should_retry(self, failure: object) -> bool:
        """Say whether to evaluate a recorded failure again: only when on_error="raise"."""
        return bool(failure) and self._retries
