"""Two periods side by side: who joined or left, what moved, and the settlement of a payment already made."""

from dataclasses import replace
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import fgsv
from fgsv.payout import settle
from fgsv.payout import split as split_money
from fgsv.pipeline import value_data
from fgsv.report import render
from fgsv.results import Result, compare_results


def result(weights, **options):
    """Return the exact result of an airport game with a provider for each weight."""
    return Result(fgsv.exact(fgsv.games.Airport(list(weights.values())), list(weights)), **options)


MARCH = result({"anna": 1, "ben": 2, "cleo": 3})
APRIL = result({"anna": 1, "cleo": 4, "dora": 5})


def paid(period, amount, currency="EUR"):
    return replace(period, payout=split_money(period.valuation, amount, currency))


def test_groups_of_one_valuation_only_are_not_compared():
    airport = fgsv.games.Airport([1, 2, 3])
    first, second, third = (fgsv.exact(airport, names) for names in (["a", "b", "c"], ["a", "b", "d"], [0, 1, 2]))
    frame = fgsv.compare(first, second)
    assert dict(zip(frame["group"], frame["clear"], strict=True)) == {"a": False, "b": False, "c": None, "d": None}
    with pytest.raises(ValueError, match="no group in common: a, b, c against 0, 1, 2"):
        fgsv.compare(first, third)


def test_who_joined_and_who_left():
    found = compare_results(MARCH, APRIL)
    assert dict(zip(found.frame["group"], found.frame["status"], strict=True)) == {
        "anna": "both",
        "ben": "left",
        "cleo": "both",
        "dora": "joined",
    }
    assert found.settlement is None
    assert "joined: dora" in found.facts
    assert "left: ben" in found.facts


def test_a_comparison_prints_as_a_table():
    lines = str(compare_results(paid(MARCH, 100), paid(APRIL, 100))).splitlines()
    assert lines[0] == "2 of 4 providers are in both."
    assert any("in EUR, which add up to 0.00" in line for line in lines)
    [head] = [line for line in lines if line.split()[:1] == ["provider"]]
    assert head.endswith("paid before   due to correct it")
    assert "to correct it" not in str(compare_results(MARCH, APRIL))


def weighed(names, n=4, **options):
    """Return the exact result of a game whose players are known again, with a group for each name."""
    game = fgsv.Game(lambda masks: masks @ np.arange(1.0, n + 1), n, frame="weights", players=range(n))
    return Result(fgsv.exact(game, names), **options)


def test_the_same_players_under_another_name_are_a_rename():
    before, now = weighed(["a", "a", "b", "c"]), weighed(["A & Co", "A & Co", "b", "d"])
    found = compare_results(before, now)
    assert found.renamed == found.to_dict()["renamed"] == {"a": "A & Co", "c": "d"}
    assert dict(zip(found.frame["group"], found.frame["status"], strict=True)) == {
        "b": "both",
        **dict.fromkeys(["a", "c", "A & Co", "d"], "renamed"),
    }
    assert found.facts[:2] == (
        "3 of 3 providers are in both",
        "renamed, with the same players: a is now A & Co, c is now d",
    )
    assert compare_results(before, weighed(["x", "x", "y", "z"])).renamed == {"a": "x", "b": "y", "c": "z"}
    settled = compare_results(paid(before, 100), now)
    assert (settled.settlement.total, "both names" in settled.warnings[-1]) == (0, True)


@pytest.mark.parametrize(
    ("now", "holders", "n_both"),
    [
        (["a", "a1", "b", "c"], {"a": ["a", "a1"]}, "3 of 4"),
        (["b", "b", "a", "c"], {"a": ["b"], "b": ["a"]}, "3 of 3"),
        (["a", "a", "b", "c"], {}, "3 of 3"),
        (["a1", "a2", "b", "c"], {"a": ["a1", "a2"]}, "2 of 5"),
        (["a", "a", "b & c", "b & c"], {"b": ["b & c"], "c": ["b & c"]}, "1 of 4"),
        (["a", "a", "a", "c"], {"b": ["a"]}, "2 of 3"),
        (["w", "x", "y", "y"], {"a": ["w", "x"], "b": ["y"], "c": ["y"]}, "0 of 6"),
    ],
)
def test_nobody_left_or_joined_where_the_same_players_are_split_or_merged(now, holders, n_both):
    before = paid(weighed(["a", "a", "b", "c"]), 100)
    found = compare_results(before, weighed(now))
    assert found.to_dict()["regrouped"] == holders
    status = dict(zip(found.frame["group"], found.frame["status"], strict=True))
    one_sided = ({"a", "b", "c"} ^ set(now)) if holders else set()
    assert {name for name, each in status.items() if each == "regrouped"} == one_sided
    assert found.facts[0] == f"{n_both} providers are in both"
    for old, names in holders.items():
        assert f"the players of {old} are now with {', '.join(names)}" in found.facts
    assert found.settlement.total == 0
    assert any("under both names" in each for each in found.warnings) == bool(one_sided)


def test_who_left_and_joined_may_be_one_provider_if_the_players_changed():
    warning = "renamed, split or merged while rows changed counts as left and joined"
    assert any(warning in each for each in compare_results(MARCH, APRIL).warnings)
    assert compare_results(MARCH, MARCH).warnings == ()


def test_other_players_are_no_rename():
    before = weighed(["a", "a", "b", "c"])
    for now in (weighed(["d", "a", "b", "c"]), weighed(["b", "b", "a", "c"]), weighed(["a", "a", "b", "d", "c"], 5)):
        assert compare_results(before, now).renamed == {}
    halves = [np.array([[1.0, 0], [0.5, 0.5], [0, 1], [0, 1]]), np.array([[1.0, 0], [0.4, 0.6], [0, 1], [0, 1]])]
    owned = [replace(before, valuation=before.valuation.regroup(each)) for each in halves]
    owned.append(replace(before, valuation=before.valuation.regroup(pd.DataFrame(halves[0], columns=[0, "b"]))))
    assert compare_results(owned[0], owned[1]).renamed == {}
    assert compare_results(owned[0], owned[2]).renamed == {"1": "b"}


periods = st.dictionaries(st.sampled_from("abcdef"), st.integers(-2, 30), min_size=1).filter(
    lambda values: sum(values.values()) > 0
)
policies = st.sampled_from([{}, {"clip": True}, {"floor": "0.10"}, {"clip": True, "cap": "900.00"}])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(periods, st.integers(1_000, 90_000), policies), min_size=3, max_size=3))
def test_settling_twice_is_settling_once_whoever_comes_and_goes(history):
    def paid(values, cents, policy):
        worth = np.array(list(values.values()), dtype=float)
        valuation = fgsv.exact(fgsv.Game(lambda masks: masks @ worth, len(worth)), list(values))
        return split_money(valuation, Decimal(cents) / 100, pay_anyway=True, **policy)

    march, april, may = (paid(*period) for period in history)
    steps = [settle(march, april), settle(april, may)]
    at_once = settle(march, may)
    for found, (before, after) in zip([*steps, at_once], [(march, april), (april, may), (march, may)], strict=True):
        assert found.total == sum(found.corrections) == after.amount - before.amount
    corrected = {name: Decimal(0) for found in steps for name in found.names}
    for found in steps:
        for name, correction in zip(found.names, found.corrections, strict=True):
            corrected[name] += correction
    for name, correction in zip(at_once.names, at_once.corrections, strict=True):
        assert corrected.pop(name) == correction
    assert not any(corrected.values())  # who was there in April alone was paid, and paid it back


def test_two_providers_with_one_name_are_not_taken_for_one():
    twice = fgsv.exact(fgsv.games.Airport([1, 2, 3]), [1, "1", "c"])
    with pytest.raises(ValueError, match="two groups are both called '1'"):
        settle(*[split_money(twice, 100)] * 2)
    with pytest.raises(ValueError, match="two groups are both called '1'"):
        fgsv.compare(twice, twice)


def test_without_a_later_payout_the_same_amount_is_split_again():
    found = compare_results(paid(MARCH, 1000), APRIL)
    assert found.settlement.total == 0
    assert found.settlement.due[found.settlement.names.index("dora")] == paid(APRIL, 1000).payout.payments[2]
    assert found.to_dict()["settlement"]["total"] == "0.00"


def test_two_currencies_are_not_settled():
    found = compare_results(paid(MARCH, 100), paid(APRIL, 100, "USD"))
    assert found.settlement is None
    assert "in EUR, but USD is due" in found.warnings[0]
    with pytest.raises(ValueError, match="settle in one currency"):
        settle(paid(MARCH, 100).payout, paid(APRIL, 100, "USD").payout)


def test_earlier_terms_that_cannot_be_met_any_more_are_no_settlement():
    march = replace(MARCH, payout=split_money(MARCH.valuation, 100, floor=30))
    found = compare_results(march, result({"anna": 1, "ben": 2, "cleo": 3, "dora": 4}))
    assert found.settlement is None
    assert "a floor of 30.00 for each of 4 groups" in found.warnings[0]


def test_a_payout_in_a_unit_of_its_own_is_settled_in_it():
    march = replace(MARCH, payout=split_money(MARCH.valuation, "1.005", unit="0.001"))
    anna, cleo, dora = split_money(APRIL.valuation, "1.005", unit="0.001").payments
    assert compare_results(march, APRIL).settlement.due == (anna, Decimal("0.000"), cleo, dora)


def test_several_outputs_are_compared_as_the_error_says():
    game = fgsv.Game(lambda masks: masks.sum(axis=1, keepdims=True) * [1.0, 2.0], 4, outputs=("red", "blue"))
    valuation = fgsv.exact(game, ["a", "a", "b", "c"])
    with pytest.raises(ValueError, match=r"valuation\.combined\(weights\)"):
        fgsv.compare(valuation, valuation)
    assert len(fgsv.compare(valuation.combined([0.5, 0.5]), valuation.combined([1.0, 0.0]))) == 3


def test_shares_by_different_semivalues_are_compared_with_a_warning():
    runs = [fgsv.value(fgsv.games.Airport([1, 2, 3]), semivalue=name) for name in ("shapley", "banzhaf")]
    assert compare_results(*map(Result, runs)).warnings == ("the shares are by shapley and by banzhaf values",)
    assert compare_results(Result(runs[1]), Result(runs[1])).warnings == ()


def test_noise_is_called_noise():
    game = fgsv.games.SumOfUnanimity(24)
    groups = np.arange(24) % 3
    runs = [Result(fgsv.value(game, groups, budget=400, seed=seed)) for seed in (1, 2)]
    found = compare_results(*runs)
    assert not found.frame["clear"].any()
    assert "no difference is more than noise" in found.facts


def test_the_report_shows_the_period_before_after_the_warnings_of_this_one():
    page = render(replace(paid(APRIL, 100), before=paid(MARCH, 100), own_warnings=("read as text: a",)))
    assert "Joined: dora." in page
    assert "to correct it" in page
    assert page.index("Payments in EUR") < page.index("read as text: a") < page.index("Then and now")
    assert "Then and now" not in render(APRIL)


def test_a_share_that_did_not_move_has_no_sign():
    before, now = (
        fgsv.exact(fgsv.Game(lambda masks, w=w: masks @ w, 2), ["a", "b"]) for w in ([1, 1], [1, 1 + 1e-6])
    )
    html = render(Result(now, before=Result(before)))
    assert "-0.00%" not in html


def test_test_rows_that_only_the_preprocessing_changed_are_not_called_different():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=90), "provider": ["a", "b", "c"] * 30})
    rows["y"] = (rows["x"] + 0.3 * rng.normal(size=90) > 0).astype(int)
    options = {"group": "provider", "target": "y"}

    def made(train, test):
        return value_data(fgsv.open_table(train, test=test, **options), budget=60)

    first, later = made(rows[:50], rows[70:]), made(rows[:60], rows[70:])
    (warning,) = (each for each in compare_results(first, later).warnings if "different games" in each)
    assert warning.endswith("which differ in preprocessing")
    (warning,) = (each for each in compare_results(first, made(rows[:60], rows[75:])).warnings if "games" in each)
    assert "test rows" in warning
