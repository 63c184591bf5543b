"""Records of a ledger: runs, what they started from, and the results of evaluating batches of coalitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fgsv.coalitions import n_rows
from fgsv.files import decode, encode
from fgsv.types import Floats
from fgsv.valuation import End

KEY_BYTES = 16
"""Length of the key by which a batch is found."""


class Purpose(StrEnum):
    """Why coalitions were evaluated. Only draws are blind to the partition and follow a law."""

    DRAWS = "draws"
    ENUMERATION = "enumeration"
    AUDIT = "audit"
    DIAGNOSIS = "diagnosis"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of evaluating one batch."""

    values: Floats
    """(m, q), NaN in the rows that failed; (m, 0) if the whole batch failed."""
    seconds: float
    failures: dict[str, list[int]] = field(default_factory=dict)
    """What went wrong ("kind: details"), and the rows it affects."""
    trace: str = ""
    """The traceback, if the game raised an error; not recorded."""

    @property
    def failed(self) -> dict[int, str]:
        """The rows that failed, with what went wrong."""
        return {row: text for text, rows in self.failures.items() for row in rows}


class Row(NamedTuple):
    """The result of evaluating one coalition."""

    values: list[float]
    """(q,), or (0,) if it failed."""
    seconds: float
    failure: str | None


@dataclass(frozen=True)
class RecordedRun:
    """A run, with the columns of its table."""

    id: int
    game: int
    """The number of its game in the ledger."""
    purpose: str
    settings: dict[str, Any]
    versions: dict[str, str]
    started: str
    ended: str | None
    end: End | None
    """How it ended; None if it was killed, or is running."""
    n_evaluations: int | None

    @classmethod
    def of(cls, columns: Sequence[Any]) -> RecordedRun:
        """Return the run in these columns."""
        number, game, purpose, settings, made_with, started, ended, end, n_evaluations = columns
        how = None if end is None else decode(End, json.loads(end))
        return cls(
            number, game, purpose, json.loads(settings), json.loads(made_with), started, ended, how, n_evaluations
        )

    @property
    def columns(self) -> list[Any]:
        """What the table holds of it, after the number."""
        settings, made_with = json.dumps(self.settings), json.dumps(self.versions)
        end = None if self.end is None else json.dumps(encode(self.end))
        return [self.game, self.purpose, settings, made_with, self.started, self.ended, end, self.n_evaluations]


@dataclass(frozen=True)
class RecordedStart:
    """What is recorded of a run before its first round."""

    providers: tuple[str, ...] = ()
    """Digests of their names."""
    provider_of_player: tuple[int, ...] = ()
    """The place in `providers` of each player's own; empty if players have several, or are too many."""
    known: str | None = None
    """The hash of the known evaluations that it started from."""
    batches: tuple[bytes, ...] = ()
    """The keys of the batches that these are in."""

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RecordedStart:
        """Read what `to_dict` returned."""
        keys = bytes.fromhex(document.get("batches", ""))
        return cls(
            tuple(document.get("providers", ())),
            tuple(document.get("provider_of_player", ())),
            document.get("start"),
            tuple(keys[i : i + KEY_BYTES] for i in range(0, len(keys), KEY_BYTES)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        document: dict[str, Any] = {"providers": self.providers}
        if self.provider_of_player:
            document["provider_of_player"] = self.provider_of_player
        if self.known is not None:
            document |= {"start": self.known, "batches": b"".join(self.batches).hex()}
        return document


@dataclass(frozen=True)
class Batch:
    """One record of a ledger."""

    id: int
    game: int
    coalitions: bytes
    outcome: Outcome
    run: int | None = None
    """The run that had it evaluated."""

    @classmethod
    def of(cls, columns: tuple[Any, ...]) -> Batch:
        """Return the record that has these columns (`schema.COLUMNS`)."""
        number, _, game, run, coalitions, values, seconds, failures = columns
        table = np.frombuffer(values, "<f8").reshape(n_rows(coalitions), -1).astype(float)
        outcome = Outcome(table, seconds, json.loads(failures) if failures else {})
        return cls(number, game, coalitions, outcome, run)


def classify(new: Outcome, seen: Outcome | None) -> tuple[str, float]:
    """Classify the outcome of a batch beside the recorded one: added, known or different, with the largest gap.

    A failure says nothing about a value: it is added only if nothing is recorded, and a success replaces it.
    """
    if seen is None or (seen.failures and not new.failures):
        return "added", 0.0
    if new.failures or (seen.values.shape == new.values.shape and np.array_equal(seen.values, new.values)):
        return "known", 0.0
    apart = np.abs(seen.values - new.values).max() if seen.values.shape == new.values.shape else np.inf
    return "different", float(apart)


def failed(m: int, text: str, seconds: float, trace: str = "") -> Outcome:
    """Return the outcome of m coalitions that failed together."""
    return Outcome(np.empty((m, 0)), seconds, {text: list(range(m))}, trace)


def by_row(outcome: Outcome, rows: Sequence[int] | None = None) -> list[Row]:
    """Return the result of each coalition of a batch, or of these."""
    failed = outcome.failed
    seconds = outcome.seconds / len(outcome.values)
    rows = range(len(outcome.values)) if rows is None else rows
    return [
        Row(values, seconds, failed.get(row)) for row, values in zip(rows, outcome.values[rows].tolist(), strict=True)
    ]


def joined(rows: Sequence[Row]) -> Outcome:
    """Return the outcome of a batch from the results of its rows."""
    failures: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if row.failure:
            failures.setdefault(row.failure, []).append(i)
    seconds = sum(row.seconds for row in rows)
    if not failures:
        return Outcome(np.array([row.values for row in rows]), seconds)
    nothing = [np.nan] * max(len(row.values) for row in rows)
    return Outcome(np.array([nothing if row.failure else row.values for row in rows]), seconds, failures)
