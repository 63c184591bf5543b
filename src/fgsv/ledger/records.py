"""Records of a ledger: runs, what they started from, the results of batches, and an index of their coalitions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fgsv.coalitions import n_rows
from fgsv.files import decode, encode
from fgsv.types import Floats, Ints
from fgsv.valuation import End

KEY_BYTES = 16
"""Length of the key by which a batch is found."""
ROW_BITS = 24
"""A place is a batch number followed by this many bits for the row in it."""
MOST_NEW = 2**16


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

    @classmethod
    def of_failure(cls, m: int, text: str, seconds: float, trace: str = "") -> Outcome:
        """Return the outcome of m coalitions that failed together.

        Args:
            m: How many coalitions.
            text: What went wrong: "kind: details".
            seconds: Seconds that it took.
            trace: The traceback, if the game raised an error.

        Returns:
            The outcome, with values of shape (m, 0).

        """
        return cls(np.empty((m, 0)), seconds, {text: list(range(m))}, trace)

    @classmethod
    def joined(cls, rows: Sequence[Row]) -> Outcome:
        """Return the outcome of a batch from the results of its rows."""
        failures: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            if row.failure:
                failures.setdefault(row.failure, []).append(i)
        seconds = sum(row.seconds for row in rows)
        if not failures:
            return cls(np.array([row.values for row in rows]), seconds)
        nothing = [np.nan] * max(len(row.values) for row in rows)
        return cls(np.array([nothing if row.failure else row.values for row in rows]), seconds, failures)

    @property
    def failed(self) -> dict[int, str]:
        """The rows that failed, with what went wrong."""
        return {row: text for text, rows in self.failures.items() for row in rows}

    def rows(self, numbers: Sequence[int] | None = None) -> list[Row]:
        """Return the result of each coalition of the batch, or of these."""
        failed = self.failed
        seconds = self.seconds / len(self.values)
        numbers = range(len(self.values)) if numbers is None else numbers
        return [
            Row(values, seconds, failed.get(row))
            for row, values in zip(numbers, self.values[numbers].tolist(), strict=True)
        ]


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
        settings = json.dumps(self.settings)
        made_with = json.dumps(self.versions)
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


class Rows:
    """Where each coalition was evaluated, for independent rows: an index in memory, 16 bytes a coalition.

    Sorted keys with their places; the newest stay in a dictionary until there are many.
    A table in the file would be rewritten at every commit: hashes are in random order, so each call's rows touch
    all its pages. This index is built from the batches on first use.
    """

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._places: Ints = np.empty(0, np.int64)
        self._new: dict[int, int] = {}

    def add(self, batch: int, rows: Collection[bytes], failed: Collection[int] = ()) -> None:
        """Add the coalitions of a batch; the newest place wins, but a failure never hides a value.

        Args:
            batch: The number of the batch.
            rows: Its coalitions, each packed.
            failed: The rows that failed.

        """
        keys = _keys(rows)
        first = batch << ROW_BITS
        places = dict(zip(keys, range(first, first + len(keys)), strict=True))
        if failed:
            worse = [key for row, key in enumerate(keys) if row in failed]
            for key in self._find(worse):
                places.pop(key, None)
        self._new |= places
        if len(self._new) > MOST_NEW:
            self._sort()

    def _sort(self) -> None:
        keys = np.concatenate([self._keys, np.fromiter(self._new, np.int64, len(self._new))])
        places = np.concatenate([self._places, np.fromiter(self._new.values(), np.int64, len(self._new))])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        places = places[order]
        is_last = np.append(keys[1:] != keys[:-1], True)
        self._keys = keys[is_last]
        self._places = places[is_last]
        self._new = {}

    def find(self, rows: Collection[bytes]) -> dict[int, list[tuple[bytes, int]]]:
        """Return batches, and in each the coalitions that may be found there with their rows.

        Keys are 64 bits of a hash, so callers must compare the coalition itself. If two share a key, one is hidden.
        """
        by_key = dict(zip(_keys(rows), rows, strict=True))
        found: dict[int, list[tuple[bytes, int]]] = {}
        for key, place in self._find(by_key).items():
            found.setdefault(place >> ROW_BITS, []).append((by_key[key], place & (2**ROW_BITS - 1)))
        return found

    def _find(self, keys: Collection[int]) -> dict[int, int]:
        wanted = np.fromiter(keys, np.int64, len(keys))
        found: dict[int, int] = {}
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            hit = self._keys[at] == wanted
            found = dict(zip(wanted[hit].tolist(), self._places[at[hit]].tolist(), strict=True))
        return found | {key: self._new[key] for key in keys if key in self._new}


def _keys(rows: Iterable[bytes]) -> list[int]:
    return list(map(hash, rows))  # keyed anew in each process, as this index is, so that no file can forge clashes
