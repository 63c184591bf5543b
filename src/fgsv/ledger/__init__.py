"""The ledger: a file that remembers what was evaluated, and the tools that read it."""

from fgsv.ledger.file import Batch, Ledger, LedgerError, NotRecorded, Outcome, Row, WrongLedger, by_row, versions

__all__ = ["Batch", "Ledger", "LedgerError", "NotRecorded", "Outcome", "Row", "WrongLedger", "by_row", "versions"]
