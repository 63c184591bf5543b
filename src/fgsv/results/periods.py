"""Periods: two results side by side, whose providers may have joined or left in between."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fgsv.payout import Settlement, settle
from fgsv.results.as_json import records
from fgsv.results.result import Result, check_result
from fgsv.valuation.comparison import compare, regrouped, renamed
from fgsv.valuation.display import Section, as_html, as_text
from fgsv.words import in_percent, option, sentence, some


@dataclass(frozen=True, eq=False)
class Comparison:
    """How a result differs from an earlier one."""

    frame: pd.DataFrame
    """The table of `fgsv.compare`."""
    settlement: Settlement | None
    """The correction of the earlier result's payment; None if it has no payout."""
    settled_as: str
    """What is due, in words."""
    facts: tuple[str, ...]
    warnings: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old name -> new name of the providers that have the same players under another name."""
    regrouped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Old name -> who now has the players of a provider that was split, merged or taken over."""

    def sections(self) -> list[Section]:
        """Return what moved between the two results, and what corrects the earlier payment."""
        columns = ["provider", "in which", "share before", "share now", "difference", "moved"]
        words = [*map(sentence, self.facts)]
        money = {}
        if self.settlement is not None:
            settled = self.settlement.to_frame().itertuples(index=False)
            money = {name: [f"{each:,}" for each in amounts] for name, *amounts in settled}
            columns += ["paid before", "due", "to correct it"]
            words.append(
                f"If this corrects the earlier payment: the last columns, in {self.settlement.currency}, which add "
                f"up to {self.settlement.total:,}; due is {self.settled_as}."
            )
        words += [f"Warning: {each}" for each in self.warnings]
        noise = {True: "yes", False: "within noise", None: ""}
        table = []
        for row in self.frame.to_dict("records"):
            shares = [in_percent(row[name]) for name in ("share_a", "share_b", "difference")]
            table.append((row["group"], row["status"], *shares, noise[row["clear"]], *money.get(row["group"], ())))
        return [Section("Then and now", tuple(words), tuple(columns), tuple(table))]

    __repr__ = as_text
    _repr_html_ = as_html

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {
            "groups": records(self.frame),
            "settlement": None if self.settlement is None else self.settlement.to_dict(),
            "renamed": dict(self.renamed),
            "regrouped": {name: list(holders) for name, holders in self.regrouped.items()},
            "facts": list(self.facts),
            "notes": list(self.warnings),
        }


def check_before(
    before: Result, *, names: Iterable[Hashable], outputs: Sequence[str] | None, game: str | None
) -> None:
    """Raise an error, before a run, if its result could not be compared with this one of the previous period.

    Args:
        before: The result of the previous period.
        names: The providers of the run.
        outputs: The names of its outputs; None if it has one.
        game: The fingerprint of its game; None if it has none.

    Raises:
        ValueError: One of the two has several outputs or no shares, or they have no provider in common.

    """
    check_result(before)
    earlier = before.valuation
    if outputs is not None or earlier.outputs is not None:
        which = "this run" if outputs is not None else "the earlier result"
        raise ValueError(f"{which} has several outputs, so it cannot be compared: leave out {option('before')}")
    try:
        earlier.shares()
    except ValueError as error:
        raise ValueError(f"the earlier result cannot be compared: {error}") from None
    same_game = game is not None and earlier.settings is not None and earlier.settings.fingerprint == game
    if not same_game and not {*map(str, earlier.names)} & {*map(str, names)}:
        raise ValueError(
            f"no provider of this run is in the earlier result, which has {some(earlier.names)}: check "
            f"{option('before')} and {option('group')}"
        )


def compare_results(first: Result, second: Result, confidence: float = 0.95) -> Comparison:
    """Return what moved between two results, what is noise, who joined or left, and how payments change.

    If the earlier result has a payout, the settlement corrects it: due is the payout of the later result or, if that
    has none, the earlier amount split by the later values under the same terms.

    Args:
        first: The earlier result.
        second: The later one.
        confidence: Confidence level of all intervals.

    Returns:
        A row for each provider, the settlement, and sentences about what happened.

    Raises:
        ValueError, TypeError: An argument is wrong, or the results cannot be compared.

    """
    for each in (first, second):
        check_result(each)
    same_test_rows = _has_same_test_rows(first, second)
    frame = compare(first.valuation, second.valuation, confidence, same_test_rows=same_test_rows)
    names = renamed(first.valuation, second.valuation)
    warnings = _different_games(first, second)
    holders = regrouped(first.valuation, second.valuation)
    settlement, settled_as = None, ""
    if first.payout is not None:
        due, settled_as = second.payout, "the payout of the later result"
        try:
            if due is None:
                due = first.payout.split_again(second.valuation, second.confidence)
                settled_as = f"the same {first.payout.amount:,} {first.payout.currency}, by the later values"
            settlement = settle(first.payout, due)
            warnings += [f"in the settlement, {objection}" for objection in due.objections]
            if {"renamed", "regrouped"} & set(frame["status"]):
                who = "renamed, split or merged provider"
                warnings.append(f"the settlement lists a {who} under both names: set one against the other")
        except ValueError as error:
            warnings.append(f"there is no settlement: {error}")
    facts = _facts(frame, names, holders, first, second)
    if {"joined", "left"} <= set(frame["status"]):
        warnings.append("a provider that was renamed, split or merged while rows changed counts as left and joined")
    return Comparison(frame, settlement, settled_as, tuple(facts), tuple(warnings), names, holders)


def _different_games(first: Result, second: Result) -> list[str]:
    """Return warnings about comparing the shares of two results that are of different games, or semivalues."""
    settings = [each.valuation.settings for each in (first, second)]
    named = ["shapley" if each is None else each.semivalue for each in settings]
    warnings = [] if named[0] == named[1] else [f"the shares are by {named[0]} and by {named[1]} values"]
    games = [None if each is None else each.fingerprint for each in settings]
    if None in games or games[0] == games[1]:
        return warnings
    moved = _different_parts(*(vars(each.source) if each.source is not None else {} for each in (first, second)))
    words = f"these results come from different games, which differ in {', '.join(moved)}"
    return [*warnings, words] if moved else warnings


def _different_parts(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return what differs between two sources besides their players, which are no reason for a warning."""
    before, now = (dict(source.get("frame") or {}) for source in (first, second))
    if not before or not now:
        moved = [name for name in ("file", "model", "metric") if first.get(name) != second.get(name)]
        return moved or ["their data or test rows"]
    moved = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    tested = first.get("test_sha256")
    if "preprocessing" in moved and tested is not None and tested == second.get("test_sha256"):
        moved = [name for name in moved if name != "test rows"]  # they only look different to the model
    return moved


def _has_same_test_rows(first: Result, second: Result) -> bool:
    """Say whether two results were tested on the same rows, in the same folds."""
    frames = [dict(each.source.frame or {}) if each.source is not None else {} for each in (first, second)]
    parts = ("test rows", "folds of the test rows", "tests")
    before, now = ([frame.get(name) for name in parts] for frame in frames)
    return any(before) and before == now


def _facts(
    frame: pd.DataFrame,
    names: Mapping[str, str],
    holders: Mapping[str, Sequence[str]],
    first: Result,
    second: Result,
) -> list[str]:
    by_status = {status: frame.loc[frame["status"] == status, "group"].tolist() for status in ("joined", "left")}
    moved = frame.loc[frame["clear"].eq(True), "group"].tolist()
    n_both = int((frame["status"] == "both").sum()) + len(names)
    n_providers = len(frame) - len(names)
    facts = [f"{n_both} of {n_providers} providers are in both"]
    if names:
        facts.append(f"renamed, with the same players: {some(f'{old} is now {new}' for old, new in names.items())}")
    facts += [f"the players of {old} are now with {some(new)}" for old, new in list(holders.items())[:10]]
    facts += [f"{status}: {some(names)}" for status, names in by_status.items() if names]
    facts.append(f"more than noise: {some(moved)}" if moved else "no difference is more than noise")
    totals = [float(each.valuation.total) for each in (first, second)]
    return [*facts, f"U(N) - U(0) was {totals[0]:.4g} and is {totals[1]:.4g}"]
