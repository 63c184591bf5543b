"""Looking batches up in the ledger before they are evaluated."""

from __future__ import annotations

from collections.abc import Callable

from fgsv.coalitions import join, split, unpack
from fgsv.evaluation.batch import PackedBatch
from fgsv.game import Game
from fgsv.ledger import Ledger, Outcome, Row, by_row, joined

MOST_RECENT = 2**16
"""Rows cached with their values, to avoid reading the file: some 20 MB."""

Evaluated = Callable[[list[PackedBatch]], list[Outcome]]


class LedgerLookup:
    """Looks batches up in a ledger, row by row if rows are independent, and has the missing ones evaluated."""

    def __init__(self, ledger: Ledger, game: Game, *, retries: bool) -> None:
        self._ledger, self._game = ledger, game
        self.number = ledger.game(game)
        """The game's number in the ledger."""
        widths = (batch.outcome.values.shape[1] for batch in ledger.batches(self.number))
        self.width = next((width for width in widths if width), None)
        """Outputs of the recorded evaluations; None if there are none."""
        self._retries = retries
        self._recent: dict[bytes, Row] = {}

    def outcomes(self, batches: list[PackedBatch], evaluated: Evaluated) -> list[Outcome]:
        """Return the outcomes of batches, in order."""
        if self._game.independent_rows:
            return self._by_row(batches, evaluated)
        known: dict[bytes, Outcome] = {}
        missing: dict[bytes, PackedBatch] = {}
        for batch in batches:
            outcome = self._ledger.find(self.number, batch.packed)
            if outcome is not None and not self._should_retry(outcome.failures):
                known[batch.packed] = outcome
            else:
                missing[batch.packed] = batch  # a batch that occurs twice in a round is evaluated once
        known |= zip(missing, evaluated(list(missing.values())), strict=True)
        return [known[batch.packed] for batch in batches]

    def _by_row(self, batches: list[PackedBatch], evaluated: Evaluated) -> list[Outcome]:
        """Look up each row separately, and evaluate each missing row once."""
        rows = [split(batch.packed) for batch in batches]
        known = self._recent
        if len(known) > MOST_RECENT:
            known.clear()
        claimed: set[bytes] = set()
        missing: list[list[bytes]] = []
        asked: list[PackedBatch] = []
        unknown = {row for batch in rows for row in batch if row not in known}
        found = self._ledger.find_rows(self.number, unknown)
        known |= {row: seen for row, seen in found.items() if not self._should_retry(seen.failure)}
        for batch, wanted in zip(batches, rows, strict=True):
            new = [row for row in dict.fromkeys(wanted) if row not in known and row not in claimed]
            claimed.update(new)
            if new:
                missing.append(new)
                whole = len(new) == len(wanted)
                asked.append(batch if whole else PackedBatch(unpack(self._game.n_players, join(new))))
        for new, outcome in zip(missing, evaluated(asked), strict=True):
            known |= zip(new, by_row(outcome), strict=True)
        return [joined([known[row] for row in batch]) for batch in rows]

    def _should_retry(self, failure: object) -> bool:
        """Say whether to evaluate a recorded failure again: only when on_error="raise"."""
        return bool(failure) and self._retries
