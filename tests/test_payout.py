"""Money: it adds up, it is exact, and under the default policy splitting earns nothing."""

import tracemalloc
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

import fgsv
from fgsv import payout
from fgsv.partition import Partition
from fgsv.payout.refusal import Doubt, Objection
from fgsv.payout.terms import Terms, apply
from fgsv.results import Result
from fgsv.valuation import End, Estimate, Reason, Valuation

values_lists = st.lists(st.floats(-1, 10).map(lambda x: round(x, 6)), min_size=1, max_size=12)
amounts = st.integers(1, 10**9).map(lambda cents: Decimal(cents) / 100)


def valuation_of(player_values, groups=None, deviations=None, outputs=None):
    players = np.asarray(player_values, dtype=float)
    values = players.reshape(len(players), -1)
    deviations = np.zeros((2, *values.shape)) if deviations is None else np.asarray(deviations)
    estimate = Estimate(values, deviations.astype(np.float32), degrees_of_freedom=31, method="gp")
    ends = np.stack([np.zeros(players.shape[1:]), players.sum(axis=0)])
    return Valuation(estimate, Partition.of(groups, len(players)), ends, 2, End(Reason.BUDGET), outputs)


def one_at_a_time(valuation, stderr, freedom=31):
    """Return the valuation by a method that values one group at a time, with these standard errors."""
    groups = Estimate(valuation.values[:, None], stderr=np.array(stderr)[:, None], of_groups=True, method="one")
    return replace(valuation, estimate=replace(groups, degrees_of_freedom=freedom))


@settings(deadline=None)
@given(values_lists, amounts)
def test_parts_add_up_and_each_moves_by_less_than_a_cent(values, amount):
    assume(sum(values) > 1e-3)
    result = payout.split(valuation_of(values), amount, pay_anyway=True)
    assert sum(result.payments) == amount
    total = sum(map(Fraction, values))
    for value, paid in zip(values, result.payments, strict=True):
        assert abs(Fraction(paid) - Fraction(amount) * Fraction(value) / total) < Fraction(1, 100)
        assert paid == paid.quantize(Decimal("0.01"))


@settings(deadline=None)
@given(values_lists, amounts, st.data())
def test_splitting_moves_nobody_by_more_than_rounding(values, amount, data):
    assume(sum(values) > 1e-2 and len(values) > 2)
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    part = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    assume(0 in labels)
    split = [(label, p and label == 0) for label, p in zip(labels, part, strict=True)]
    before = payout.split(valuation_of(values, labels), amount, pay_anyway=True)
    after = payout.split(valuation_of(values, split), amount, pay_anyway=True)
    ideal_before = dict(zip(before.names, before.shares, strict=True))
    ideal_after: dict[int, float] = {}
    for (label, _), share in zip(after.names, after.shares, strict=True):
        ideal_after[label] = ideal_after.get(label, 0.0) + share
    for label, share in ideal_before.items():
        assert ideal_after[label] == pytest.approx(share, abs=1e-9)
    assert before.is_faithful


@settings(deadline=None)
@given(values_lists, st.integers(1, 10**6), st.floats(0, 1), st.floats(1, 3))
def test_floor_and_cap_hold_and_parts_still_add_up(values, cents, low, high):
    assume(sum(values) > 1e-2)
    amount, n = Decimal(cents) / 100, len(values)
    floor = Decimal(int(cents * low / n)) / 100
    cap = Decimal(int(cents * high / n) + 1) / 100
    positive = sum(value > 0 for value in values)
    if floor * (n - positive) + cap * positive < amount:
        with pytest.raises(ValueError, match="raise the cap"):
            payout.split(valuation_of(values), amount, floor=floor, cap=cap)
        return
    result = payout.split(valuation_of(values), amount, floor=floor, cap=cap)
    assert sum(result.payments) == amount
    assert min(result.payments) >= floor
    assert max(result.payments) <= cap
    assert not result.is_faithful
    assert any("not faithful" in note for note in result.notes)


@settings(deadline=None)
@given(values_lists, amounts)
def test_clipping_pays_nobody_below_zero(values, amount):
    assume(sum(values) > 1e-2)
    result = payout.split(valuation_of(values), amount, clip=True)
    assert sum(result.payments) == amount
    assert min(result.payments) >= 0
    assert "not faithful" in result.terms.describe()


@settings(deadline=None)
@given(st.lists(st.fractions(min_value=-100, max_value=100), min_size=1, max_size=20))
def test_largest_remainder_is_a_rounding(parts):
    assume(sum(parts) > 0)
    whole = Decimal(int(sum(parts) * 1000)) / 1000
    parts = [part * Fraction(whole) / sum(parts) for part in parts]
    rounded = payout.round_to(parts, whole, Decimal("0.001"))
    assert sum(rounded) == whole
    assert all(abs(Fraction(a) - b) < Fraction(1, 1000) for a, b in zip(rounded, parts, strict=True))


def test_units_of_currencies():
    assert payout.split(valuation_of([1, 1, 1]), 100, "JPY").payments == (34, 33, 33)
    assert payout.split(valuation_of([1, 1, 1]), "1", "KWD").payments[0] == Decimal("0.334")
    assert payout.split(valuation_of([1, 2]), "1.00", "CHF", unit="0.05").payments == (
        Decimal("0.35"),
        Decimal("0.65"),
    )


def test_a_small_unit_is_written_with_all_its_digits():
    paid = payout.split(valuation_of([1, 1, 1]), 1, "BTC", unit="0.00000001")
    assert paid.notes[-1] == "payments are rounded to 0.00000001 BTC and add up to exactly 1.00000000 BTC"
    with pytest.raises(ValueError, match=r"smallest unit of the currency, 0\.00000001$"):
        payout.split(valuation_of([1, 1]), "0.000000001", "BTC", unit="0.00000001")


def test_integers_of_numpy_are_money():
    assert payout.split(valuation_of([1, 1]), np.int64(7)).payments == (Decimal("3.50"),) * 2
    with pytest.raises(TypeError, match="money is never a float"):
        payout.split(valuation_of([1, 1]), np.float64(7))


def test_an_interval_contains_its_payment_also_beyond_the_digits_of_a_float():
    paid = payout.split(valuation_of([1] * 7), "9" * 22)
    assert all(low <= part <= high for low, part, high in zip(paid.low, paid.payments, paid.high, strict=True))


def test_values_of_another_semivalue_are_not_called_estimates_of_a_method():
    for budget in (40, 64):  # estimated, and exact
        result = fgsv.value(fgsv.games.Airport([1, 2, 3, 4, 5, 6]), semivalue="banzhaf", budget=budget)
        assert payout.split(result, 10, pay_anyway=True).notes[0].startswith("the banzhaf values miss U(N) - U(0) by")


def test_a_table_of_payments_counts_players_as_the_table_of_values_does():
    game = fgsv.games.Airport([1, 2, 3])
    for groups in (["a", "a", "b"], np.array([[1, 0], [0.5, 0.5], [0, 1]])):
        valuation = fgsv.exact(game, groups)
        ours, theirs = payout.split(valuation, 6).to_frame()["players"], valuation.to_frame()["players"]
        assert (ours.tolist(), ours.dtype) == (theirs.tolist(), theirs.dtype)


def test_intervals_are_those_of_the_shares():
    deviations = np.random.default_rng(0).normal(size=(8, 4, 1)) / 20
    deviations -= deviations.mean(axis=1, keepdims=True)
    result = valuation_of([1, 2, 3, 4], deviations=deviations)
    paid = payout.split(result, 1000)
    expected = result.share_interval(0.95) * 1000
    np.testing.assert_allclose([float(x) for x in paid.low], expected[:, 0], atol=0.0100001)
    np.testing.assert_allclose([float(x) for x in paid.high], expected[:, 1], atol=0.0100001)
    # far from zero, clipping changes nothing, and the scenarios find the same interval
    clipped = payout.split(result, 1000, clip=True)
    np.testing.assert_allclose([float(x) for x in clipped.low], expected[:, 0], atol=12)
    np.testing.assert_allclose([float(x) for x in clipped.high], expected[:, 1], atol=12)
    bounded = payout.split(result, 1000, floor=100)
    assert all(low >= 100 for low in bounded.low)


def test_no_bound_of_a_payment_is_minus_zero():
    deviations = np.array([[-0.001, 0.001]]).reshape(1, 2, 1)
    paid = payout.split(valuation_of([1, -0.005], deviations=deviations), "0.10", pay_anyway=True)
    assert [str(bound) for bound in (paid.low[1], paid.payments[1], paid.high[1])] == ["-0.01", "0.00", "0.00"]


def test_no_interval_leaves_what_the_policy_pays():
    # the scenarios of a clipped payment begin at zero, give or take the last bit, which must not round to -0.01
    deviations = np.random.default_rng(0).normal(size=(8, 4, 1)) / 2
    result = valuation_of([1, 0.3, 3, 4], deviations=deviations)
    paid = payout.split(result, "1000.00", clip=True, pay_anyway=True)
    assert min(paid.low) == 0
    assert all(low <= part <= high for low, part, high in zip(paid.low, paid.payments, paid.high, strict=True))
    bounded = payout.split(result, "1000.00", floor="100.00", cap="400.00", pay_anyway=True)
    assert min(bounded.low) == 100
    assert max(bounded.high) == 400


def halves(paid):
    return np.array([float(high - low) / 2 for low, high in zip(paid.low, paid.high, strict=True)])


def test_values_that_are_scaled_to_the_amount_have_the_error_of_their_sum():
    weights = np.linspace(0.2, 1, 10)
    game, options = fgsv.Game(lambda masks: np.sqrt(masks @ weights), 10), {"semivalue": "banzhaf"}
    groups = ["a"] * 6 + ["b"] * 2 + ["c"] * 2
    exact = fgsv.exact(game, groups, **options)
    runs = [fgsv.value(game, groups, budget=200, seed=seed, unbiased=True, **options) for seed in range(12)]
    for policy in ({}, {"floor": "0.01"}):
        alone = payout.split(runs[0].regroup(["all"] * 10), "1000.00", **policy)
        assert halves(alone).max() == 0  # who is alone is paid all of it, whatever the values
        paid = [payout.split(run, 10**6, **policy) for run in (exact, *runs)]
        payments = np.array([[float(payment) for payment in each.payments] for each in paid])
        off = np.sqrt(((payments[1:] - payments[0]) ** 2).mean(axis=0))
        np.testing.assert_allclose(off, np.mean([halves(each) for each in paid[1:]], axis=0) / 2.04, rtol=0.4)


@pytest.mark.parametrize("policy", [{}, {"clip": True}])
def test_groups_valued_one_at_a_time_have_independent_errors_and_that_of_their_sum(policy):
    alone = valuation_of([6.0, 3.0, 1.0])
    errors = np.array([0.1, 0.2, 0.3])
    parts = np.array([0.6, 0.3, 0.1])
    variances = (1 - 2 * parts) * errors**2 + parts**2 * (errors**2).sum()
    known = payout.split(one_at_a_time(alone, errors, np.inf), "10000.00", **policy)
    np.testing.assert_allclose(halves(known), 1.96 * 1000 * np.sqrt(variances), rtol=0.05)
    unknown = payout.split(one_at_a_time(alone, [0.1, np.nan, 0.3], np.inf), "10000.00", **policy)
    assert all(low.is_nan() for low in unknown.low)  # all payments depend on the one whose error is unknown


def test_an_output_that_cannot_be_paid_is_named():
    outputs = tuple(f"prompt {number}, in red" for number in range(40))
    values = np.ones((4, 40))
    result = valuation_of(values, outputs=outputs)
    for amounts, words in (
        (dict.fromkeys(outputs[1:], 1), "each output once: 'prompt 0, in red' has none"),
        (dict.fromkeys([*outputs, "blue"], 1), "there is no 'blue'"),
        ([1, 2], r"40 outputs \('prompt 0, in red', .* and 30 more\): give an amount for each, got 2"),
    ):
        with pytest.raises(ValueError, match=f"{words}$"):
            payout.split(result, amounts)
    assert payout.split(result, [1] * 40).describe().endswith("and 30 more), linear, value over total")
    values[:, [3, 7]] = -1
    for refused in (lambda result: payout.split(result, [1] * 40), payout.royalty_shares):
        with pytest.raises(ValueError, match="sum to -4 for 'prompt 3, in red', 'prompt 7, in red', which is not"):
            refused(valuation_of(values, outputs=outputs))


def test_nothing_is_paid_for_an_output_with_an_amount_of_zero():
    """Not even if it is worth nothing; the others are paid as if it were not there."""
    rng = np.random.default_rng(0)
    values, deviations = rng.random((4, 3)), 0.01 * rng.normal(size=(5, 4, 3))
    deviations -= deviations.mean(axis=1, keepdims=True)
    values[:, 1] *= -1
    whole = valuation_of(values, deviations=deviations, outputs=("a", "b", "c"))
    without = valuation_of(values[:, [0, 2]], deviations=deviations[:, :, [0, 2]], outputs=("a", "c"))
    for policy in ({}, {"clip": True, "cap": 120}):
        paid = payout.split(whole, {"a": 100, "b": 0, "c": 200}, **policy)
        other = payout.split(without, [100, 200], **policy)
        assert (paid.payments, paid.low, paid.high) == (other.payments, other.low, other.high)
        assert paid.by_output == {"a": 100, "b": 0, "c": 200}
        assert payout.differences(paid, whole) == []
    terms, other = (payout.Terms(each, pay_anyway=True) for each in ({"a": 100, "b": 0, "c": 200}, [100, 200]))
    assert Result(whole).paid_by(terms).verdict == Result(without).paid_by(other).verdict


def test_a_changed_payment_is_told_by_what_was_changed():
    result = fgsv.exact(fgsv.games.Airport([1, 2, 4]), ["a", "b", "c"])
    paid = payout.split(result, 70)
    due = paid.payments
    changed = replace(paid, payments=(due[1], due[0], due[2]))
    stated = [
        f"payment to 'a': stated {due[1]}, derived {due[0]}",
        f"payment to 'b': stated {due[0]}, derived {due[1]}",
    ]
    assert [str(each) for each in payout.differences(changed, result)] == stated


def test_several_outputs_are_paid_from_their_own_amounts():
    values = np.array([[1.0, 3.0], [1.0, 1.0]])
    deviations = np.zeros((1, 2, 2))
    deviations[0] = [[0.1, -0.2], [-0.1, 0.2]]
    result = valuation_of(values, deviations=deviations, outputs=("red", "blue"))
    paid = payout.split(result, {"red": 100, "blue": 200})
    assert paid.payments == (Decimal("200.00"), Decimal("100.00"))
    # 100/2 * 0.1 - 200/4 * 0.2 = -5: errors of outputs that offset each other do so
    quantile = 2.0395  # t with 31 degrees of freedom
    assert float(paid.high[0]) == pytest.approx(200 + 5 * quantile, abs=0.02)
    np.testing.assert_allclose(payout.royalty_shares(result), [[0.5, 0.75], [0.5, 0.25]])
    with pytest.raises(ValueError, match="an amount for each"):
        payout.split(result, 100)
    with pytest.raises(ValueError, match="name each output once"):
        payout.split(result, {"red": 1, "green": 2})


def test_royalty_shares_of_gsv_are_not_faithful():
    game = fgsv.games.Airport([1, 2, 4])
    gsv = fgsv.value(fgsv.grouped(game, ["a", "b", "b"]))
    paid = payout.split(gsv, 100)
    assert any("Group Shapley" in note for note in paid.notes)
    assert not paid.is_faithful
    assert payout.Payout.from_dict(paid.to_dict(), gsv).to_dict() == paid.to_dict()
    assert not paid.to_dict()["faithful"]
    np.testing.assert_allclose(payout.royalty_shares(gsv), gsv.shares())
    clipped = payout.royalty_shares(valuation_of([3, -1]), clip=True)
    np.testing.assert_allclose(clipped, [1, 0])


def test_estimates_that_miss_the_total_are_scaled_and_say_so():
    game = fgsv.games.SumOfUnanimity(16)
    result = fgsv.value(game, [i % 4 for i in range(16)], method="finite_difference", budget=4000)
    paid = payout.split(result, 1000)
    assert sum(paid.payments) == 1000
    assert any("scaled" in note for note in paid.notes)


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"amount": 100.0}, TypeError, "never a float"),
        ({"amount": True}, TypeError, "int, str or Decimal"),
        ({"amount": "ten"}, ValueError, "a number such as"),
        ({"amount": "nan"}, ValueError, "finite"),
        ({"amount": "0.001"}, ValueError, "not a multiple of the smallest unit of the currency, 0.01"),
        ({"amount": 0}, ValueError, "must be positive"),
        ({"amount": -5}, ValueError, "must not be negative, got -5.00"),
        ({"amount": 10**30}, ValueError, "digits"),
        ({"amount": {"a": 100}}, ValueError, "not amounts by name"),
        ({"amount": 100, "currency": "euro"}, ValueError, "three capital letters"),
        ({"amount": 100, "currency": None}, ValueError, "three capital letters"),
        ({"amount": 100, "currency": "XQZ"}, ValueError, "no currency XQZ: .* such as EUR, .*unit="),
        ({"amount": None}, TypeError, "int, str or Decimal, not NoneType"),
        ({"amount": 100, "unit": 0}, ValueError, "unit must be a positive number"),
        ({"amount": 100, "unit": "a cent"}, ValueError, "unit must be a positive number"),
        ({"amount": 100, "unit": "NaN"}, ValueError, "unit must be a positive number"),
        ({"amount": 100, "floor": 60}, ValueError, "60.00 for each of 2 groups is 120.00, more than 100.00: lower"),
        ({"amount": 100, "floor": -1}, ValueError, "floor must not be negative, got -1.00"),
        ({"amount": 100, "cap": 40}, ValueError, "raise the cap"),
        ({"amount": 100, "floor": 30, "cap": 20}, ValueError, "the floor 30.00 is above the cap 20.00"),
    ],
)
def test_bad_arguments(kwargs, error, words):
    with pytest.raises(error, match=words):
        payout.split(valuation_of([1, 2]), **kwargs)


def test_a_code_of_ones_own_needs_its_smallest_unit():
    paid = payout.split(valuation_of([1, 2]), 100, "XQZ", unit="0.5")
    assert paid.payments == (Decimal("33.5"), Decimal("66.5"))
    assert sum(paid.split_again(valuation_of([2, 1]), 0.95).payments) == 100


def test_nothing_to_share_explains_itself():
    for values in ([-1, -2], [1, -1]):
        with pytest.raises(ValueError, match="nothing to share"):
            payout.split(valuation_of(values), 100)
        with pytest.raises(ValueError, match="nothing to share"):
            payout.royalty_shares(valuation_of(values))


@pytest.mark.parametrize("policy", [{"clip": True}, {"floor": "1"}, {"clip": True, "cap": "90"}])
def test_intervals_take_little_memory_and_have_the_same_bits(monkeypatch, policy):
    weights = np.random.default_rng(0).normal(size=400) + 0.5
    result = fgsv.value(fgsv.Game(lambda masks: masks @ weights, 400), budget=100)
    whole = fgsv.payout.split(result, "10000", **policy)
    monkeypatch.setattr("fgsv.payout.splitting.BLOCK", 2**16)
    tracemalloc.start()
    blocks = fgsv.payout.split(result, "10000", **policy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert blocks.to_dict() == whole.to_dict()
    assert peak < 400 * 2000 * 8  # not even one array of all scenarios


def test_bounds_for_many_groups_are_found_at_once():
    values = np.random.default_rng(0).random((5000, 1)) + 0.01
    total = sum(map(Fraction, values[:, 0].tolist()))
    paid = apply(Terms(100_000, floor=5, cap=35), values, [Decimal(100_000)], [total])
    assert sum(paid) == 100_000
    assert (min(paid), max(paid)) == (5, 35)


def test_an_objection_says_once_whether_evaluations_help():
    wide = Objection(Doubt.TOO_WIDE, "it is known badly", evaluations=2_000)
    question = "to know every payment to within a tenth of the amount"
    assert str(wide) == f"it is known badly; {question}: about 2,000 evaluations"
    noise = Objection(Doubt.WITHIN_NOISE, "more test rows may help, more evaluations cannot")
    assert str(noise) == noise.detail
