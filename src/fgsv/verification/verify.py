"""Verification: recompute a valuation from its ledger, and compare what it states with the run's own record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from fgsv.ledger import Ledger, NotRecorded
from fgsv.ledger.forgetting import has_forgotten
from fgsv.methods import Enumeration, Method
from fgsv.methods.method import OtherLaw
from fgsv.semivalue import Semivalue
from fgsv.valuation import Reason, Valuation, check_valuation
from fgsv.valuation.differences import LEARNED, ROUNDING, Difference, Differences, different_entries
from fgsv.valuation.file import statement, to_document
from fgsv.verification.replay import from_ledger, has_targets, recorded_game, repeat, was_regrouped

RECOMPUTED = {
    "method": "estimate.method",
    "n_evaluations": "n_evaluations",
    "outputs": "outputs",
    "exact": "estimate.exact",
    "efficient": "estimate.efficient",
    "degrees_of_freedom": "estimate.degrees_of_freedom",
    "failures": "failures",
    "n_known": "n_known",
    "values": "estimate.values",
    "stderr": "estimate.stderr",
    "total": "ends",
    "ends": "ends",
    "player_values": "estimate.values",
    "deviations": "estimate.deviations",
}
"""What follows from the recorded utilities -> the field of a file that it is read from."""
TEST_ROWS = "test_rows"
"""The field of the error of the test rows, which is recomputed part by part."""
BY_OUTPUT = ("values", "stderr", "total", "ends", "player_values", "deviations")
"""Fields with an entry for each output, which may be of very different scales."""


def verify(
    valuation: Valuation,
    ledger: str | Path,
    *,
    method: Method | None = None,
    semivalue: Semivalue | None = None,
    stop: Any = None,
    proxy: Any = None,
    document: Mapping[str, Any] | None = None,
) -> Differences:
    """Recompute every draw from the seed and every number from the recorded utilities; return what differs.

    This repeats the run with a game that only looks values up in the ledger: it needs neither data nor model, and
    does not change the ledger. Fields that cannot be recomputed (names, groups, weights of outputs, model, metric,
    notes, audit, an end by the clock) are compared with what the ledger recorded when the result was made. `document`
    is the saved file as JSON, by default the file of the valuation alone.

    Processors round differently, and learning amplifies it: estimates that differ by less than a hundredth of their
    standard error are the same, and a note says so. Fields that the ledger contradicts must agree to the bit, and so
    must those that it has no record of, if this processor repeats the bits of the player values. An empty list means
    that nothing differs; its `on_trust` names the fields that the ledger has no record of. A run with your own
    method, semivalue, stopping rule or proxy needs that object again.

    Args:
        valuation: What a run states.
        ledger: The ledger of the run, which is only read.
        method: Your own method, if the run used one.
        semivalue: Your own semivalue, likewise.
        stop: Your own stopping rules, likewise.
        proxy: The proxy, likewise.
        document: The saved file as JSON. Default: the file of the valuation alone.

    Returns:
        What differs; empty if nothing does.

    Raises:
        ValueError: The valuation has no settings, needs an object of yours, or was made by a version that draws
            other coalitions.
        LedgerError: The ledger cannot be read, or is of another game.

    """
    check_valuation(valuation)
    settings = valuation.settings
    if settings is None:
        raise ValueError("a valuation without settings cannot be verified: it was not made by fgsv.value")
    own = {"method": method, "semivalue": semivalue, "stop": stop, "proxy": proxy}
    lacking = [name for name in settings.needs if own[name] is None]
    if lacking:
        raise ValueError(
            f"this run used your own {lacking[0]}, which no file stores: pass it again, "
            f"fgsv.verify(valuation, ledger, {lacking[0]}=...)"
        )
    with Ledger(ledger, read_only=True) as opened:
        derived = _repeated(opened, valuation, {name: own[name] for name in settings.needs})
        if isinstance(derived, Difference):
            return Differences([derived])
        recorded = [content for _, content in opened.statements()]
        notes = longer_runs(opened, valuation)
    altered, on_trust = compare_with_record(document or to_document(valuation), recorded)
    repeats_bits = _same_bits(valuation, derived)
    found = Differences(differences(valuation, derived, {*altered, *(on_trust if repeats_bits else ())}))
    found.to_the_bit = repeats_bits
    if not (repeats_bits or found):
        notes.append("the numbers agree but for rounding, which differs between processors")
    checked = {*RECOMPUTED.values(), TEST_ROWS, *(() if _end_is_free(valuation) else ("end",))}
    altered = {name: said for name, said in altered.items() if name not in checked}
    on_trust = [name for name in on_trust if name not in checked]
    if was_regrouped(valuation):  # after the run: the ledger knows players, not providers
        of_groups = ("partition.names", "partition.owners")
        on_trust += [name for name in of_groups if altered.pop(name, None) is not None]
    found += [Difference(name, said, "different in the ledger") for name, said in altered.items()]
    found.on_trust = tuple(on_trust)
    found.notes = tuple(notes)
    return found


def _repeated(ledger: Ledger, valuation: Valuation, own: Mapping[str, Any]) -> Valuation | Difference:
    """Repeat the run of a valuation from its ledger; return what is different if it draws something else."""
    settings = valuation.settings
    assert settings is not None
    game = recorded_game(ledger, settings.fingerprint)[1]
    game = replace(game, grouped_by=valuation.partition if valuation.grouped else None)
    try:
        with from_ledger(ledger, game, settings) as evaluator:
            return repeat(evaluator, valuation, own).valuation
    except NotRecorded:
        if settings.version != fgsv.__version__ and not has_forgotten(game):
            raise ValueError(
                f"fgsv {settings.version} made this result, and version {fgsv.__version__} may draw other "
                "coalitions from its seed: verify it with the version that made it"
            ) from None
        lacking = "coalitions that the ledger does not have"
        if has_forgotten(game):
            lacking = "evaluations of forgotten players, which were erased"
        return Difference("draws", f"{valuation.n_evaluations} evaluations from seed {settings.seed}", lacking)
    except OtherLaw as error:
        return Difference("law of the draws", "as recorded", str(error))


def _same_bits(stated: Valuation, derived: Valuation) -> bool:
    """Say whether two valuations have the same player values and deviations, to the bit, where both have them."""
    pairs = [(stated.player_values, derived.player_values), (stated.deviations, derived.deviations)]
    both = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    return all(np.array_equal(ours, theirs, equal_nan=True) for ours, theirs in both)


def _end_is_free(stated: Valuation) -> bool:
    """Say whether the end cannot be recomputed: a clock, an interrupt or the errors of other groups set it."""
    clocked = stated.settings is not None and stated.settings.max_seconds is not None
    return (
        (was_regrouped(stated) and has_targets(stated))
        or stated.end.reason is Reason.INTERRUPTED
        or (stated.end.reason is Reason.TIME and clocked)
    )


def differences(stated: Valuation, derived: Valuation, to_the_bit: Collection[str] = ()) -> Iterator[Difference]:
    """Yield the recomputed fields in which two valuations differ; those of `to_the_bit` even by rounding.

    Args:
        stated: What the result states.
        derived: What was recomputed.
        to_the_bit: Fields of a file that may not differ even by rounding.

    Yields:
        What differs.

    """
    slack = _slack(derived)
    for name, field in RECOMPUTED.items():
        ours = getattr(stated, name)
        theirs = getattr(derived, name)
        if isinstance(ours, np.ndarray | float) or isinstance(theirs, np.ndarray):
            by_output = stated.outputs is not None and name in BY_OUTPUT
            allowed = {} if field in to_the_bit else {"rounding": ROUNDING, "slack": slack.get(name, 0.0)}
            yield from different_entries(name, ours, theirs, stated.names, by_output=by_output, **allowed)
        elif ours != theirs:
            yield Difference(name, ours, theirs)
    yield from _different_test_rows(stated, derived, TEST_ROWS in to_the_bit)
    if not _end_is_free(stated) and stated.end != derived.end:
        yield Difference("end", *(f"{each.end.reason} ({each.end})" for each in (stated, derived)))


def _different_test_rows(stated: Valuation, derived: Valuation, to_the_bit: bool) -> Iterator[Difference]:
    """Yield the entries in which the errors of the test rows differ."""
    ours = stated.test_rows
    theirs = derived.test_rows
    if ours is None or theirs is None:
        if ours is not theirs:
            yield Difference("test_rows", *("unknown" if each is None else "known" for each in (ours, theirs)))
        return
    sampled = 0.0 if theirs.sampled is None else np.sqrt((theirs.sampled.astype(float) ** 2).sum(axis=0))
    slack = {"players": LEARNED * sampled, "sampled": LEARNED * sampled, "total": 0.0}
    for name, allowed in slack.items():
        rounding: dict[str, Any] = {} if to_the_bit else {"rounding": ROUNDING, "slack": allowed}
        both = getattr(ours, name), getattr(theirs, name)
        yield from different_entries(f"test_rows.{name}", both[0], both[1], stated.names, **rounding)


def _slack(derived: Valuation) -> dict[str, Any]:
    """Return by how much estimates may differ because learning amplifies rounding; nothing if they are exact."""
    if derived.exact or derived.deviations is None or derived.player_values is None:
        return {}
    of_players = np.sqrt((derived.deviations.astype(float) ** 2).sum(axis=0))
    errors = {
        "values": derived.stderr,
        "stderr": derived.stderr,
        "player_values": of_players.reshape(derived.player_values.shape),
        "deviations": of_players,
        "degrees_of_freedom": derived.degrees_of_freedom,
    }
    return {
        name: LEARNED * np.nan_to_num(np.asarray(error, dtype=float), posinf=0.0) for name, error in errors.items()
    }


def compare_with_record(
    document: Mapping[str, Any], recorded: list[dict[str, str]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that were altered, with what they say now, and the fields that have no record.

    A run may have several results (other groupings, a payout): the most similar record counts. Records of another
    game do not count: a ledger that took over evaluations of this game has no record of its results.
    """
    own = statement(document)
    game = own.get("settings.fingerprint")
    recorded = [each for each in recorded if each.get("settings.fingerprint", game) == game]
    if not recorded:
        return {}, sorted(own)
    best = max(recorded, key=lambda each: sum(own.get(name) == digest for name, digest in each.items()))
    fields = sorted(set(own) | set(best))
    altered = {name: _shown(document, name) for name in fields if name in best and own.get(name) != best[name]}
    return altered, [name for name in fields if name not in best]


def _shown(document: Mapping[str, Any], name: str) -> str:
    section, _, entry = name.partition(".")
    place = document.get(section, {}) if entry else document
    key = entry or section
    if key not in place:
        return "nothing: it was removed"
    text = repr(place[key])
    return text if len(text) <= 200 else text[:200] + "..."


def longer_runs(ledger: Ledger, valuation: Valuation) -> list[str]:
    """Return a note if the ledger records a run that went further than the one a valuation states."""
    settings = valuation.settings
    assert settings is not None
    most = max(
        (
            run.n_evaluations or 0
            for run in ledger.runs()
            if all(run.settings.get(name) == getattr(settings, name) for name in ("fingerprint", "seed"))
            and run.settings.get("method") in (settings.method, Enumeration.name)
        ),
        default=0,
    )
    if most <= valuation.n_evaluations:
        return []
    return [f"the ledger also records a run of this game and seed that went on to {most} evaluations"]
