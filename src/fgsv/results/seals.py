"""Seals: a run described before it is made, under a hash that reveals nothing and fixes everything but the seed."""

from __future__ import annotations

import hashlib
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fgsv.checks import check_type
from fgsv.data.dataset import Dataset, check_dataset
from fgsv.data.source import Source
from fgsv.evaluation.evaluator import Evaluator
from fgsv.files import as_path, encode, other_schema, read_json, write_whole
from fgsv.game import Game, as_game
from fgsv.methods import DEFAULT, as_method, for_task
from fgsv.packages import versions
from fgsv.partition import Partition
from fgsv.payout.money import Money, read_money, smallest_unit
from fgsv.running.preparation import settings_of, task_of
from fgsv.valuation import Limits, RunSettings
from fgsv.valuation.differences import Difference
from fgsv.words import option

T = TypeVar("T")

SCHEMA = 1
SALT_BYTES = 32
SEED_BYTES = 4
"""Seeds below 2^32, which every library takes."""
_NOT_SEALED = ("seed", "version")
"""Settings of a run that a seal leaves out: the seed is drawn later, and the others are stated elsewhere."""
_HASHED = {
    "players": "training rows or documents, or their order,",
    "groups": "providers of rows or documents, or the order of these,",
}
"""What the hashes in a seal are of, where their names do not say it."""
_OF_SOURCE = ("columns", "task", "metric", "model", "features", "rows", "test_rows")


@dataclass(frozen=True)
class Seal:
    """The description of a run, and the salt that hides it: kept by its operator, who publishes `commitment`."""

    contents: Mapping[str, Any]
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(SALT_BYTES), repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_BYTES:  # or salt and contents could be cut elsewhere
            raise ValueError(f"the salt of a seal must have {SALT_BYTES} bytes, this one has {len(self.salt)}")

    @property
    def commitment(self) -> str:
        """SHA-256 of the salt and the contents, as canonical JSON; without the salt it reveals nothing."""
        return hashlib.sha256(self.salt + canonical(self.contents)).hexdigest()

    def seed(self, public: str | None) -> int:
        """Return the seed of the run: the first four bytes of SHA-256 over the commitment's bytes and `public`.

        >>> Seal({}, bytes(32)).seed("1.0854"), Seal({}, bytes(32)).seed("1.0855")
        (3231503494, 3685334167)
        """
        if public is not None:
            check_type(public, str, "a text as public", "write the public value as it was agreed")
        if public is None or not public.strip():
            raise ValueError(
                f"a sealed run needs the public value, the text that became public after the seal: {option('public')}"
            )
        digest = hashlib.sha256(bytes.fromhex(self.commitment) + public.encode()).digest()
        return int.from_bytes(digest[:SEED_BYTES], "big")

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {"commitment": self.commitment, "salt": self.salt.hex(), "contents": dict(self.contents)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Seal:
        """Read what `to_dict` returned; raise an error if the commitment does not match the contents."""
        seal = cls(dict(document["contents"]), bytes.fromhex(document["salt"]))
        if seal.commitment != document["commitment"]:
            raise ValueError("the seal was altered: its commitment does not match its contents")
        return seal

    def save(self, path: str | Path) -> None:
        """Write the seal with its salt, which its operator keeps; `Seal.load` reads it."""
        document = {"schema": SCHEMA, **self.to_dict()}
        write_whole(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))

    @classmethod
    def load(cls, path: str | Path) -> Seal:
        """Read a seal; the error for another file, or a seal that was altered, says so."""
        return load_as(cls.from_dict, path, "seal", SCHEMA)


@dataclass(frozen=True)
class Sealed:
    """What a sealed result carries: the opened seal, the public value, and the root over its records."""

    commitment: str
    """As it was published; `check_proof` compares it with `seal.commitment`, which follows from the contents."""
    seal: Seal
    public: str
    root: str
    """Root of the Merkle tree (RFC 6962) over the records that the run used, in draw order."""
    n_records: int


def read_commitment(text: str) -> str:
    """Return a commitment that somebody copied as it is computed; what cannot be one is an error.

    >>> read_commitment(" " + 32 * "AB") == 32 * "ab"
    True
    """
    check_type(text, str, "a text as commitment")
    digits = text.strip().lower()
    if not _is_hash(digits):
        raise ValueError(f"a commitment has 64 hexadecimal digits, got {text!r:.100}")
    return digits


def _is_hash(part: Any) -> bool:
    return isinstance(part, str) and len(part) == 64 and set(part) <= set("0123456789abcdef")


def load_as(read: Callable[[Mapping[str, Any]], T], path: str | Path, what: str, schema: int) -> T:
    """Read a JSON file of a schema.

    Args:
        read: From the document to what it is.
        path: The file.
        what: What it should be, for errors: "seal".
        schema: The version that is read.

    Returns:
        What `read` made of it.

    Raises:
        FileNotFoundError, ValueError: There is no such file, or it is something else; the message says why.

    """
    try:
        document = read_json(as_path(path, f"a {what}"))
        if document["schema"] != schema:
            raise ValueError(other_schema(document["schema"], schema))
        return read(document)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no {what} at {path}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, zlib.error) as error:
        why = str(error) if type(error) is ValueError else repr(error)
        why = f"it has no field {error}" if isinstance(error, KeyError) else why
        raise ValueError(f"{path} is not a {what}: {why:.200}") from None


def canonical(document: Any) -> bytes:
    """Return the one way to write a document as JSON: keys in order, no spaces, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def seal_run(
    table: Dataset,
    *,
    budget: int | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    on_error: str | float = "raise",
    clip: bool = False,
    floor: Money | None = None,
    cap: Money | None = None,
    currency: str = "EUR",
    public_from: str | None = None,
) -> Seal:
    """Seal a run of a table or texts before it is made: data, test rows, groups, model, metric, policy, budget.

    Publish the seal's `commitment`, then make the run by `value_data(seal=..., public=...)`: `public` is a text that
    nobody could know when the commitment was published.

    Args:
        table: What `fgsv.open_table` or `fgsv.open_text` returns.
        budget: Evaluations in total.
        precision: Stop when every share is known to within this (0.01 = one percentage point).
        confidence: Confidence level of all intervals.
        on_error: raise, or the number that a failed evaluation counts as, or empty: count it like no data.
        clip: Pay nothing for negative values instead of charging (not faithful).
        floor: Smallest payment to each provider (not faithful).
        cap: Largest payment to each provider (not faithful).
        currency: Three-letter currency code.
        public_from: Which public value will give the seed, and how it is written: 'drand round 5000000, as hex'.

    Returns:
        The seal, with a salt without which nobody can guess its contents from the commitment.

    Raises:
        ValueError, TypeError: An argument is wrong, or this run cannot be sealed.

    """
    check_dataset(table)
    if public_from is not None:
        check_type(public_from, str, "a text as public_from")
    policy = policy_of(clip, floor, cap, currency)
    run = described_run(table, Limits(budget, precision), confidence=confidence, on_error=on_error)
    return Seal({"versions": versions(), "public_from": public_from, **run, "policy": policy})


def described_run(table: Dataset, limits: Limits, *, confidence: float, on_error: str | float) -> dict[str, Any]:
    """Return what a seal holds about the data and the settings of a run, in the order in which it is compared.

    Args:
        table: The data.
        limits: When the run ends.
        confidence: Confidence level of the precision.
        on_error: What a failed evaluation counts as.

    Returns:
        Its parts by name, as JSON has them.

    Raises:
        ValueError: The run cannot be sealed.

    """
    opened_with = table.source.opened_with or {}
    if opened_with.get("start"):
        raise ValueError(f"a sealed run cannot use {option('start')}: earlier evaluations would be one more choice")
    if opened_with.get("seed"):
        raise ValueError(f"{option('seed')} cannot be sealed: the seed comes from the seal and the public value")
    game = as_game(table.game)
    if game.fingerprint is None:
        raise ValueError("this model's content cannot be hashed: give it as package.module:object")
    evaluator = Evaluator(game, on_error=on_error)
    asked = as_method(DEFAULT, {})
    task = task_of(
        evaluator,
        table.partition,
        asked,
        semivalue="shapley",
        budget=limits.budget,
        may_stop_early=bool(limits.early),
    )
    settings = settings_of(evaluator, task, for_task(asked, task), confidence=confidence, **limits.early)
    return {
        **of_source(table.source),
        "groups": {column: of_partition(each) for column, each in table.groupings.items()},
        **_of_game(game),
        "weights": None if table.weights is None else table.weights.tolist(),
        "settings": of_settings(settings),
    }


def of_source(source: Source) -> dict[str, Any]:
    """Return what a seal holds about columns, model and score."""
    return {name: _read_back(getattr(source, name)) for name in _OF_SOURCE}


def of_settings(settings: RunSettings) -> dict[str, Any]:
    """Return what a seal holds about the settings of a run."""
    return {name: _read_back(part) for name, part in encode(settings).items() if name not in _NOT_SEALED}


def of_partition(partition: Partition) -> dict[str, Any]:
    """Return what a seal holds about groups: their sizes, and a hash of who is in which."""
    content = np.ascontiguousarray(partition.owners, dtype="<i8" if partition.is_disjoint else "<f8").tobytes()
    names = list(map(str, partition.names))  # their order counts: players are assigned to places in it
    sizes = dict(zip(names, partition.sizes.tolist(), strict=True))
    return {"players": sizes, "sha256": hashlib.sha256(canonical(names) + content).hexdigest()}


def _of_game(game: Game) -> dict[str, Any]:
    """Return what a seal holds about the players and what they are worth, as hashes."""
    digests = game.player_digests()
    frame = game.frame if isinstance(game.frame, Mapping) else {}
    return {
        "players": None if digests is None else hashlib.sha256(digests).hexdigest(),
        "frame": {name: hashlib.sha256(part.encode()).hexdigest() for name, part in sorted(frame.items())},
        "game": game.fingerprint,
        "outputs": _read_back(game.outputs),
    }


def policy_of(clip: bool, floor: Money | None, cap: Money | None, currency: str) -> dict[str, Any]:
    """Return what a seal holds about how shares become payments; the amount is not sealed.

    Args:
        clip: Whether negative values count as zero.
        floor: The smallest payment to any group; None for no floor.
        cap: The largest payment to any group; None for no cap.
        currency: The currency of these.

    Returns:
        The policy, as JSON has it.

    Raises:
        ValueError, TypeError: There is no such currency, or a bound is no money.

    """
    unit = smallest_unit(currency, None)
    bounds = {
        name: None if money is None else f"{read_money(money, unit, name)} {currency}"
        for name, money in (("floor", floor), ("cap", cap))
    }
    return {"clip": clip, **bounds}


def check_seal(seal: Seal, found: Mapping[str, Any]) -> None:
    """Raise an error that names the first difference between what was sealed and these parts of its contents."""
    difference = first_difference({name: seal.contents.get(name) for name in found}, found)
    if difference is not None:
        raise ValueError(f"the seal does not fit: {in_words(difference)}")


def in_words(difference: Difference) -> str:
    """Say what was sealed and what was found."""
    where = difference.where
    if _is_hash(difference.stated) and _is_hash(difference.derived):
        what = _HASHED.get(where.partition(".")[0], where.rpartition(".")[2])
        return f"{where} was sealed as another hash: the {what} changed"
    return f"{where} was sealed as {_short(difference.stated)}, but is {_short(difference.derived)}"


def first_difference(sealed: Any, found: Any, place: str = "") -> Difference | None:
    """Return the first entry, in the order of `found`, in which two documents differ.

    Args:
        sealed: One document, or a part of it.
        found: The other, or the same part of it.
        place: Where the parts are, such as "settings.budget".

    Returns:
        The difference; None if there is none.

    """
    if isinstance(sealed, list) and isinstance(found, list) and sealed != found:
        pairs = zip(sealed, found, strict=False)
        entries = (first_difference(a, b, f"{place}.{number}") for number, (a, b) in enumerate(pairs))
        longer = Difference(place, f"{len(sealed)} entries", f"{len(found)} entries")
        return next((each for each in entries if each is not None), longer)
    if not isinstance(sealed, Mapping) or not isinstance(found, Mapping):
        return None if sealed == found else Difference(place or "contents", sealed, found)
    for name in dict.fromkeys([*found, *sealed]):
        below = f"{place}.{name}" if place else name
        difference = first_difference(sealed.get(name), found.get(name), below)
        if difference is not None:
            return difference
    return None


def _short(part: Any) -> str:
    text = json.dumps(part, ensure_ascii=False)
    return text if len(text) <= 80 else text[:80] + "..."


def _read_back(part: Any) -> Any:
    """Return a part as it reads back from JSON."""
    return json.loads(json.dumps(part, default=str))
