"""The ledger: a file that records every evaluation and run, and tools that read, merge and forget them."""

from fgsv.ledger.earlier import known
from fgsv.ledger.file import Ledger, LedgerError, NotRecorded, WrongLedger
from fgsv.ledger.records import Batch, Outcome, Purpose, RecordedRun, RecordedStart, Row

__all__ = [
    "Batch",
    "Ledger",
    "LedgerError",
    "NotRecorded",
    "Outcome",
    "Purpose",
    "RecordedRun",
    "RecordedStart",
    "Row",
    "WrongLedger",
    "known",
]
