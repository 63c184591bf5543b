"""Proofs about sealed runs: records that a verifier's own randomness picks, with the values of all the others."""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.checks import check_type, whole_number
from fgsv.evaluation.recording import laws_of_draws
from fgsv.files import decode, decode_array, encode, encode_array, write_whole
from fgsv.ledger import Ledger, NotRecorded, WrongLedger
from fgsv.ledger.forgetting import has_forgotten
from fgsv.results.result import Result
from fgsv.results.seals import Sealed, load_as
from fgsv.types import Floats
from fgsv.valuation import Valuation, file
from fgsv.verification.merkle import Tree, root_of_path
from fgsv.verification.replay import Records, from_ledger, record_leaf, recorded_game, repeat
from fgsv.words import option

SCHEMA = 1
RECORDS = 300
"""Records picked by default, besides U(0) and U(N): if 1% are forged, one of them is picked with 95% probability."""


def picked_numbers(root: str, random: str, n_picked: int, n_records: int) -> list[int]:
    """Return the numbers of the records that a root and a random string pick: U(0) and U(N), and `n_picked` others.

    The others are distinct, each as likely as any. Block j is SHA-256(SHA-256(root, random), j). It holds four 64-bit
    numbers; those beyond the largest multiple of the number of records are skipped.

    Args:
        root: The root over the records, in hexadecimal.
        random: The verifier's string.
        n_picked: How many records to pick besides U(0) and U(N).
        n_records: How many records there are.

    Returns:
        The numbers, 0 and 1 first.

    Examples:
        >>> picked_numbers("00" * 32, "six dice: 4 2 6 1 1 5", 3, 1000)
        [0, 1, 791, 91, 170]

    """
    others = n_records - 2
    if n_picked >= others:
        return list(range(n_records))
    key = hashlib.sha256(bytes.fromhex(root) + random.encode()).digest()
    fair = 2**64 - 2**64 % others
    found = dict.fromkeys((0, 1))
    for number in count():
        block = hashlib.sha256(key + number.to_bytes(8, "big")).digest()
        for place in range(0, len(block), 8):
            drawn = int.from_bytes(block[place : place + 8], "big")
            if len(found) == 2 + n_picked:
                return list(found)
            if drawn < fair:
                found[2 + drawn % others] = None
    raise AssertionError("there is always another block")


@dataclass(frozen=True)
class Picked:
    """A record that was picked, with the proof that it is in the tree."""

    number: int
    coalition: bytes
    """Packed, as `fgsv.coalitions.pack` does."""
    values: tuple[float, ...]
    path: tuple[bytes, ...]

    def root(self, n_records: int) -> str | None:
        """Return the root that the inclusion proof leads to; None if it is not a proof."""
        found = root_of_path(
            record_leaf(self.number, self.coalition, np.array(self.values)), self.number, n_records, self.path
        )
        return None if found is None else found.hex()


@dataclass(frozen=True, eq=False)
class Proof:
    """The answer to a challenge: records of a sealed run that somebody else's randomness picked."""

    commitment: str
    root: str
    random: str
    records: tuple[Picked, ...]
    statement: Mapping[str, str]
    """A digest of each field of the valuation.json that it is about."""
    values: Floats | None = None
    """(N, q): the values of all records, in draw order; the coalitions follow from the seed."""
    laws: Mapping[int, Mapping[str, Any]] | None = None
    """The recorded laws of the draws, by round, for processors that round differently."""

    def save(self, path: str | Path) -> None:
        """Write the proof as JSON; `Proof.load` reads it."""
        document = {
            "schema": SCHEMA,
            "commitment": self.commitment,
            "root": self.root,
            "random": self.random,
            "records": encode(self.records),
            "statement": dict(self.statement),
            "values": None if self.values is None else encode_array(self.values),
            "laws": None if self.laws is None else {str(number): law for number, law in self.laws.items()},
        }
        write_whole(path, json.dumps(document, ensure_ascii=False, allow_nan=False))

    @classmethod
    def load(cls, path: str | Path) -> Proof:
        """Read a proof; the error for another file says so."""
        return load_as(cls._from_dict, path, "proof", SCHEMA)

    @classmethod
    def _from_dict(cls, document: Mapping[str, Any]) -> Proof:
        values = document["values"]
        laws = document["laws"]
        return cls(
            str(document["commitment"]),
            str(document["root"]),
            str(document["random"]),
            decode(tuple[Picked, ...], document["records"]),
            dict(document["statement"]),
            None if values is None else decode_array(values),
            None if laws is None else {int(number): dict(law) for number, law in laws.items()},
        )


def challenge(
    path: str | Path, ledger: str | Path, *, random: str, n_records: int = RECORDS, with_values: bool = True
) -> Proof:
    """Answer a challenge to a sealed result from the ledger of its run: `fgsv seal challenge`.

    With the values of all records the shares can be computed again without data; without them the proof is smaller
    and reveals less.

    Args:
        path: A valuation.json or its folder.
        ledger: Ledger of the run.
        random: Random string from the verifier, who already has the result: it picks the records.
        n_records: Records to pick, besides U(0) and U(N).
        with_values: Leave out the values of records that were not picked. In Python False leaves them out.

    Returns:
        The proof: the picked records with their paths in the tree of all records.

    Raises:
        ValueError, TypeError: An argument is wrong, or these are not the records that the run used.

    """
    result = Result.load(path)
    sealed = sealed_of(result, path)
    check_type(random, str, "a text as random", "the verifier's random string")
    if not random.strip():
        raise ValueError("a challenge needs a random string from the verifier")
    if whole_number("n_records", n_records) < 1:
        raise ValueError(f"a challenge picks at least one record, got {n_records}")
    with Ledger(ledger, read_only=True) as opened:
        records, laws = _recorded(result.valuation, opened)
    tree = Tree(records.leaves())
    if tree.root.hex() != sealed.root:
        raise ValueError(
            f"the records of {ledger} have the root {tree.root.hex()[:16]}..., but {path} states {sealed.root[:16]}"
            "...: they are not the records that the run used"
        )
    values = records.values
    picked = [
        Picked(number, records.row(number), tuple(values[number].tolist()), tuple(tree.path(number)))
        for number in picked_numbers(sealed.root, random, n_records, len(tree))
    ]
    return Proof(
        sealed.commitment,
        sealed.root,
        random,
        tuple(picked),
        file.statement(file.read(path)),
        values if with_values else None,
        laws if with_values else None,
    )


def sealed_of(result: Result, path: str | Path) -> Sealed:
    """Return the seal of a result that has one and can be repeated; raise an error for another one."""
    if result.sealed is None or result.source is None or result.valuation.settings is None:
        raise ValueError(f"{path} is not the result of a sealed run (one with {option('seal')})")
    return result.sealed


def _recorded(valuation: Valuation, ledger: Ledger) -> tuple[Records, dict[int, dict[str, Any]]]:
    """Return the records that a run used, and the laws by which it drew, from its ledger."""
    settings = valuation.settings
    assert settings is not None
    game = recorded_game(ledger, settings.fingerprint)[1]
    records = Records()
    try:
        with from_ledger(ledger, game, settings) as evaluator:
            repeat(records.watch(evaluator), valuation)
    except NotRecorded:
        forgotten = "players were forgotten, and their evaluations erased"
        why = forgotten if has_forgotten(game) else "is it another ledger?"
        raise WrongLedger(f"{ledger.path} does not have all the records that the run used: {why}") from None
    return records, dict(ChainMap(*laws_of_draws(ledger, encode(settings))))
