"""Checking a proof: what follows from the seal and the values, and with the data the picked records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fgsv import payout
from fgsv.checks import check_type, whole_number
from fgsv.evaluation.evaluator import Evaluator
from fgsv.game import Game, GameError, as_game
from fgsv.ledger import NotRecorded
from fgsv.methods.method import OtherLaw
from fgsv.packages import versions
from fgsv.payout.money import smallest_unit
from fgsv.results.result import Result
from fgsv.results.seals import (
    Sealed,
    check_seal,
    described_run,
    first_difference,
    of_partition,
    of_settings,
    of_source,
    policy_of,
    read_commitment,
)
from fgsv.types import Floats
from fgsv.valuation import Limits, Reason, RunSettings, Valuation, file
from fgsv.valuation.differences import ROUNDING, Difference
from fgsv.verification.forging import moves_in_words, odds_in_words
from fgsv.verification.merkle import Tree
from fgsv.verification.proofs import Proof, picked_numbers, sealed_of
from fgsv.verification.replay import Records, Repeated, coalitions_of, from_values, has_targets, repeat, was_regrouped
from fgsv.verification.result_checks import open_again
from fgsv.verification.verify import compare_with_record, differences

CHOSEN_ENDS = (Reason.INTERRUPTED, Reason.TIME, Reason.FAILED)
"""Ends that the operator of a run can choose."""


@dataclass
class Check:
    """What the check of a proof found."""

    checked: list[str] = field(default_factory=list)
    """What is as it should be."""
    differences: list[Difference] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """What the check cannot decide, and why."""

    @property
    def code(self) -> int:
        """0 if everything matches, 1 if something differs, 2 if the check cannot decide."""
        return 1 if self.differences else 2 if self.doubts else 0

    def lines(self) -> list[str]:
        """Return what was found, in words."""
        if self.differences:
            return [*map(str, self.differences), "not the same"]
        return [*self.checked, *(f"cannot tell {doubt}" for doubt in self.doubts), *([] if self.doubts else ["same"])]

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON; both sides of a difference as text, so that no digit is lost."""
        found = [{name: str(side) for name, side in vars(each).items()} for each in self.differences]
        return {"code": self.code, "checked": self.checked, "differences": found, "doubts": self.doubts}


def check_proof(
    proof: Proof,
    path: str | Path,
    data: Any = None,
    *,
    test: Any = None,
    commitment: str | None = None,
    public: str | None = None,
    random: str | None = None,
    n_records: int | None = None,
    tolerance: float = ROUNDING,
    n_jobs: int | None = 1,
) -> Check:
    """Check a proof of a sealed result, and with its data evaluate the picked records again: `fgsv seal check`.

    Args:
        proof: The answer to a challenge.
        path: A valuation.json or its folder.
        data: The table that was valued, as `fgsv.open_table` or `fgsv.open_text` takes it.
        test: The file of test rows, if there was one.
        commitment: The commitment as it was published.
        public: The public value, as you know it.
        random: The random string that you gave.
        n_records: How many records you asked for.
        tolerance: Largest difference of a value, relative to the largest of its output.
        n_jobs: Number of workers; -1 for one per core.

    Returns:
        What was checked, what differs, and what cannot be told.

    Raises:
        ValueError, TypeError: The proof is of another result, or the data is not what was sealed.

    """
    check_type(proof, Proof, "a proof", "fgsv.verification.Proof.load(path) opens one")
    commitment = None if commitment is None else read_commitment(commitment)
    if n_records is not None:
        n_records = whole_number("n_records", n_records, least=1)
    result = Result.load(path)
    document = file.read(path)
    sealed = sealed_of(result, path)
    valuation = result.valuation
    found = Check()
    for name in ("commitment", "root"):
        its = getattr(proof, name)
        theirs = getattr(sealed, name)
        if its != theirs:
            raise ValueError(f"the proof is of another result: its {name} is {its}, that of {path} {theirs}")
    asked = None if n_records is None else min(n_records, sealed.n_records - 2)
    known = (
        ("commitment", sealed.commitment, commitment),
        ("public", sealed.public, public),
        ("random", proof.random, random),
        ("records", len(proof.records) - 2, asked),
    )
    found.differences += [
        Difference(name, stated, mine) for name, stated, mine in known if mine not in (None, stated)
    ]
    found.differences += _against_seal(result, sealed)
    altered, _ = compare_with_record(document, [dict(proof.statement)])
    found.differences += [Difference(name, said, "different in the proof") for name, said in altered.items()]
    found.differences += _against_tree(proof, sealed)
    agreed = sealed.seal.contents.get("public_from") or "the seal does not say which one"
    found.checked += [
        f"commitment {sealed.commitment}, public value {sealed.public!r} ({agreed}): seed {valuation.seed}",
        f"root {sealed.root} over {sealed.n_records} records",
        f"U(0), U(N) and {len(proof.records) - 2} records, picked by {proof.random!r}, are in the tree",
    ]
    if proof.values is None:
        found.doubts.append("whether the shares follow from the records: the proof has no values of the others")
    else:
        _replay(result, sealed, proof, proof.values, found)
    if data is not None and not found.differences:
        settings = valuation.settings
        assert settings is not None
        table = open_again(result.source, data, test)
        check_seal(
            sealed.seal,
            described_run(table, Limits.of(settings), confidence=settings.confidence, on_error=settings.on_error),
        )
        _evaluate_again(as_game(table.game), proof, settings, tolerance, n_jobs, found)
    return found


def _against_seal(result: Result, sealed: Sealed) -> Iterator[Difference]:
    """Yield where a result is not what its seal promised."""
    valuation = result.valuation
    source = result.source
    contents = sealed.seal.contents
    settings = valuation.settings
    assert settings is not None
    assert source is not None
    if sealed.seal.commitment != sealed.commitment:
        yield Difference("commitment", sealed.commitment, sealed.seal.commitment)
    seed = sealed.seal.seed(sealed.public)
    version = source.versions.get("fgsv")
    for name, stated, derived in (
        ("seed", settings.seed, seed),
        ("settings.version", settings.version, version),
    ):
        if stated != derived:
            yield Difference(name, stated, derived)
    found: dict[str, Any] = {"versions": dict(source.versions), **of_source(source), "game": source.game}
    found["weights"] = None if valuation.weights is None else list(valuation.weights)
    found["settings"] = of_settings(settings)
    groups = of_partition(valuation.partition)
    sealed_groups = contents.get("groups")
    by_column = list(sealed_groups.values()) if isinstance(sealed_groups, Mapping) else []
    if groups not in by_column:
        found["groups"] = groups
    paid = result.payout
    if paid is not None:
        found["policy"] = policy_of(**paid.terms.policy, currency=paid.currency)
        unit = smallest_unit(paid.currency, None)
        if paid.unit != unit:  # a run pays in these; larger ones would move money by rounding
            yield Difference("unit of the payout", paid.unit, unit)
        yield from payout.differences(paid, valuation)
    as_sealed = {name: contents.get(name) for name in found} | ({"groups": by_column[0]} if by_column else {})
    difference = first_difference({name: as_sealed[name] for name in found}, found)
    if difference is not None:
        promised = "nothing" if difference.stated is None else difference.stated
        yield Difference(difference.where, difference.derived, f"{promised}, as sealed")
    if valuation.end.reason in CHOSEN_ENDS or not valuation.finished:
        yield Difference("end", str(valuation.end), "the budget or the target that was sealed")


def _against_tree(proof: Proof, sealed: Sealed) -> Iterator[Difference]:
    """Yield where picks or inclusion proofs are wrong."""
    numbers = [each.number for each in proof.records]
    if len(numbers) < 2 or sealed.n_records < 2:
        yield Difference("records", f"{len(numbers)} of {sealed.n_records}", "U(0) and U(N) at least")
        return
    expected = picked_numbers(sealed.root, proof.random, len(numbers) - 2, sealed.n_records)
    if numbers != expected:
        yield Difference("picked records", numbers[:5], expected[:5])
    for each in proof.records:
        root = each.root(sealed.n_records)
        if root != sealed.root:
            yield Difference(f"root by record {each.number}", sealed.root, root or "no proof")
            return


def _replay(result: Result, sealed: Sealed, proof: Proof, values: Floats, found: Check) -> None:
    """Repeat the run from the values of all records, and compare the results."""
    valuation = result.valuation
    wrong, repeated = _repeat(valuation, sealed, values)
    if repeated is not None and not wrong:
        count = valuation.partition.n_groups
        found.checked.append(f"the shares of {count} providers follow from the seed and {len(values)} values")
        found.checked.append(moves_in_words(result, values, repeated.influence))
        if has_targets(valuation) and was_regrouped(valuation):  # only repeated up to the stated end
            found.doubts.append(
                "whether the run ended where its target was met: the target refers to the first grouping; check "
                "valuation.json, which must have the same root"
            )
        return
    made = {} if result.source is None else result.source.versions
    here = versions()
    others = [f"{name} {made.get(name)}" for name in sorted({*made, *here}) if made.get(name) != here.get(name)]
    if others:
        found.doubts.append(
            f"whether the shares follow from the records: repeated here they differ ({wrong[0]}), but the run was "
            f"made with {', '.join(others)}; check it with these"
        )
        return
    if proof.laws and not _repeat(valuation, sealed, values, proof.laws)[0]:
        found.doubts.append(
            "whether the draws were chosen: they follow recorded laws that this processor rounds differently; check "
            "it on the kind of machine that made it"
        )
    else:
        found.differences += wrong


def _repeat(
    valuation: Valuation, sealed: Sealed, values: Floats, laws: Mapping[int, Mapping[str, Any]] | None = None
) -> tuple[list[Difference], Repeated | None]:
    """Return where the run that these values lead to is another one, and that run, if it could be made."""
    settings = valuation.settings
    names = sealed.seal.contents.get("outputs")
    assert settings is not None
    outputs = tuple(names) if isinstance(names, list) else None
    if values.ndim != 2 or len(values) != sealed.n_records or not np.isfinite(values).all():
        expected = f"{sealed.n_records} rows of finite numbers"
        return [Difference("values", f"an array of shape {values.shape}", expected)], None
    records = Records()
    evaluator = from_values(values, valuation.partition.n_players, outputs, settings, laws)
    try:
        with evaluator, warnings.catch_warnings():
            # values in a wrong order look like those of a random game
            warnings.simplefilter("ignore", RuntimeWarning)
            repeated = repeat(records.watch(evaluator), valuation)
    except (NotRecorded, OtherLaw, GameError, ValueError, FloatingPointError) as error:
        return [Difference("draws", f"{len(values)} records", str(error))], None
    root = Tree(records.leaves()).root.hex()
    if (root, len(records)) != (sealed.root, sealed.n_records):
        return [Difference("root over the records", sealed.root, root)], None
    # which evaluations failed is not among the values
    derived = replace(repeated.valuation, failures=valuation.failures)
    return list(differences(valuation, derived)), repeated


def _evaluate_again(
    game: Game, proof: Proof, settings: RunSettings, tolerance: float, n_jobs: int | None, found: Check
) -> None:
    """Evaluate the picked coalitions again, and compare their values."""
    coalitions = coalitions_of(game.n_players, [each.coalition for each in proof.records])
    stated = np.array([each.values for each in proof.records])
    try:
        with Evaluator(game, n_jobs=n_jobs, on_error=settings.on_error) as evaluator:
            values = evaluator(coalitions)
    except GameError as error:
        found.doubts.append(f"what the picked records are worth: {str(error).splitlines()[0]}")
        return
    far = ~(np.abs(values - stated) <= tolerance * np.abs(stated).max(axis=0)).all(axis=1)
    found.differences += [
        Difference(f"record {proof.records[row].number}", stated[row].tolist(), values[row].tolist())
        for row in np.flatnonzero(far)[:5].tolist()
    ]
    found.checked += [f"these {len(stated)} records evaluated again: same", odds_in_words(len(stated) - 2)]
