"""Verdicts and refusals: what is uncertain, absurd or noise is not paid unless somebody insists."""

import pickle
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from test_payout import one_at_a_time, valuation_of

import fgsv
from fgsv.files import decode, encode
from fgsv.payout import Doubt, PayoutRefused, Terms, split
from fgsv.results import Decision, Result, Verdict, verdict
from fgsv.results.verdicts import _to_halve
from fgsv.valuation import End, Reason, t_quantile
from fgsv.valuation.test_rows import TestRows

QUANTILE = float(t_quantile(0.95, 31))


def with_error(values, half_width, n_evaluations=1000):
    """Return a valuation whose first and last groups' shares have this half-width, and the others' none."""
    deviations = np.zeros((1, len(values), 1))
    deviations[0, [0, -1], 0] = np.array([1, -1]) * half_width * sum(values) / QUANTILE
    valuation = valuation_of(values, deviations=deviations)
    players = replace(valuation.partition, names=("a", "b", "c", "d")[: len(values)])
    return replace(valuation, partition=players, n_evaluations=n_evaluations)


def with_test_rows(valuation, noise, moved):
    """Return a valuation with these half-widths due to test rows: of U(N) - U(0), and of what moves between two."""
    quantile = float(t_quantile(0.95, 9)) * np.sqrt(10)
    players = noise * valuation.player_values / valuation.player_values.sum()
    players = (players + moved * np.r_[1.0, -1.0, np.zeros(len(players) - 2)]) / quantile
    return replace(
        valuation, test_rows=TestRows(np.tile(players[:, None], (10, 1, 1)), np.full((10, 1), noise / quantile), None)
    )


def test_what_is_known_is_settled_and_paid():
    found = verdict(with_error([4, 3, 2, 1], 0.04))
    assert (found.decision, found.between, found.evaluations) == (Decision.SETTLED, (), None)
    assert found.half_width == pytest.approx(0.04)
    assert split(with_error([4, 3, 2, 1], 0.04), 100).objections == ()


@pytest.mark.parametrize(("half_width", "refused"), [(0.099, False), (0.101, True), (0.3, True)])
def test_a_payment_unknown_by_a_tenth_is_refused(half_width, refused):
    valuation = with_error([8, 1, 1], half_width)
    if not refused:
        assert split(valuation, 100).objections == ()
        return
    with pytest.raises(PayoutRefused) as error:
        split(valuation, 100)
    [objection] = error.value.objections
    assert (objection.doubt, objection.groups) == (Doubt.TOO_WIDE, ("a", "c"))
    expected = min(1000 * (half_width / 0.1) ** 2, 2**3)  # errors fall with the root; three players have 8 coalitions
    assert objection.evaluations == pytest.approx(expected, rel=0.05)
    assert isinstance(error.value, ValueError)
    paid = split(valuation, 100, pay_anyway=True)
    assert sum(paid.payments) == 100
    assert paid.objections == (objection,)


def test_a_small_error_is_not_called_none():
    assert "known to within ± 0.003% at" in str(verdict(with_error([0.6, 0.4], 0.00003)))


def test_the_evaluations_needed_are_those_of_the_square_root_law():
    game = fgsv.games.SumOfUnanimity(64)
    result = fgsv.value(game, [i % 3 for i in range(64)], budget=200, seed=0, learn="sizes")
    estimate = replace(result.estimate, deviations=result.deviations * 200, stderr=None)
    wide = replace(result, estimate=estimate)
    with pytest.raises(PayoutRefused) as error:
        split(wide, 100)
    worst = float((wide.half_width() / wide.total).max())
    assert error.value.objections[0].evaluations == pytest.approx(200 * (worst / 0.1) ** 2, rel=0.1)


def test_a_payment_of_more_than_all_is_refused_and_a_policy_without_charges_is_not():
    valuation = valuation_of([3, -1])
    with pytest.raises(PayoutRefused) as error:
        split(valuation, "100.00")
    [objection] = error.value.objections
    assert (objection.doubt, objection.groups, objection.evaluations) == (Doubt.MORE_THAN_ALL, ("0",), None)
    assert verdict(valuation).decision is Decision.UNRESOLVABLE
    clipped = split(valuation, "100.00", clip=True)
    assert clipped.payments == (100, 0)
    assert verdict(valuation, paid=clipped).decision is Decision.CALCULATED
    assert split(valuation, "100.00", pay_anyway=True).payments == (150, -50)
    # where the interval reaches below the amount, more evaluations may decide it
    uncertain = with_error([3, 0.1, -0.2], 0.05)
    with pytest.raises(PayoutRefused) as error:
        split(uncertain, "100.00")
    assert [(each.doubt, each.evaluations) for each in error.value.objections] == [(Doubt.MORE_THAN_ALL, 2**3)]
    assert verdict(uncertain).decision is not Decision.UNRESOLVABLE


@pytest.mark.parametrize(("noise", "is_noise"), [(0.1, False), (9.9, False), (10.1, True)])
def test_a_total_within_the_noise_of_the_test_rows_is_not_shared(noise, is_noise):
    valuation = with_test_rows(with_error([6, 3, 1], 0.02), noise, 0.0)
    assert ("other test rows could reverse it" in verdict(valuation).known) == is_noise
    found = split(valuation, 100, pay_anyway=True).objections
    noisy = [each for each in found if each.doubt is Doubt.WITHIN_NOISE]
    assert [(each.evaluations, each.groups) for each in noisy] == [(None, ())] * is_noise
    assert Result(valuation).test_noise == pytest.approx(noise)


@pytest.mark.parametrize(("half_width", "decision"), [(0.05, "settled"), (0.11, "unresolvable")])
def test_what_the_test_rows_leave_no_evaluations_remove(half_width, decision):
    valuation = with_test_rows(with_error([6, 3, 1], 0.02), 0.0, 10 * half_width)
    found = verdict(valuation)
    assert found.decision == decision
    np.testing.assert_allclose(valuation.lasting_half_width(), [half_width, half_width, 0])
    if decision == "settled":
        assert found.half_width > half_width
        assert split(valuation, 100).objections == ()
        return
    assert "known to within ± 11%" in found.known
    assert found.made_of.endswith("4.2 times the test rows would halve it")
    with pytest.raises(PayoutRefused) as error:
        split(valuation, 100)
    assert [(each.doubt, each.evaluations) for each in error.value.objections] == [(Doubt.TOO_WIDE, None)]


def test_without_the_error_of_test_rows_nothing_is_called_certain():
    exact = fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "c"])
    for valuation in (exact, with_error([6, 3, 1], 0.02)):
        assert "(Monte Carlo error only)" in verdict(valuation).known
        paid = split(valuation, 100)
        assert "intervals hold the Monte Carlo error only, not that of the test rows" in paid.notes
        assert verdict(valuation, paid=paid).decision is Decision.CALCULATED
    known = with_test_rows(with_error([6, 3, 1], 0.02), 0.1, 0.0)
    assert "Monte Carlo" not in verdict(known).known + repr(split(known, 100))


@pytest.mark.parametrize("terms", [{}, {"floor": 5}])
def test_payments_have_the_error_of_the_test_rows(terms):
    valuation = valuation_of([6, 3, 1])
    wide = split(with_test_rows(valuation, 0.0, 0.5), 100, **terms)
    for paid, low, high, half_width in zip(wide.payments, wide.low, wide.high, (5, 5, 0), strict=True):
        assert float(high - paid) == pytest.approx(half_width, abs=0.8)
        assert float(paid - low) == pytest.approx(half_width, abs=0.8)


def test_a_second_objection_begins_a_sentence():
    with pytest.raises(PayoutRefused) as error:
        split(with_test_rows(with_error([4, 3, 2, 1], 5.0), 20.0, 0.0), 100)
    assert len(error.value.objections) == 2
    assert ". Also, all the data together" in str(error.value)


def test_close_neighbours_leave_a_verdict_settled_and_are_named():
    near = verdict(with_error([4.0, 1.0, 1.0, 3.9], 0.05))
    assert (near.decision, near.between) == (Decision.SETTLED, (("a", "d"),))
    assert near.ranking == "the order is uncertain between a and d"
    assert near.ranking not in str(near)
    # the difference, 4 - 3.9, has a half-width of 2 * 0.012 * 9.9: less than a tenth of an equal part
    assert verdict(with_error([4.0, 1.0, 1.0, 3.9], 0.012)).between == ()


def test_the_evaluations_that_settle_a_verdict_are_those_that_a_refusal_names():
    few = with_error([4.0, 1.0, 1.0, 3.9], 0.16)
    many = fgsv.Partition.of([*"abcd" * 8])  # with 32 players, 2^n is no limit
    values, deviations = np.tile(few.estimate.values, (8, 1)) / 8, np.tile(few.deviations, (1, 8, 1)) / 8
    wide = replace(few, partition=many, estimate=replace(few.estimate, values=values, deviations=deviations))
    found = verdict(wide)
    assert (found.decision, found.evaluations) == (Decision.UNDECIDED, 2600)
    assert "known to within ± 16% at 95% confidence (Monte Carlo error only). About 2,600 evaluations" in found.known
    assert found.made_of == "all of it is from evaluations; about 4,000 evaluations would halve it"
    with pytest.raises(PayoutRefused, match="every payment to within a tenth of the amount: about 2,600 evaluations"):
        split(wide, 100)


def test_the_error_is_split_into_its_causes_and_what_halves_it_does():
    for sampled, tested in ((0.02, 0.05), (0.05, 0.02), (0.04, 0.04)):
        valuation = with_test_rows(with_error([6, 3, 1], sampled), 0.0, 10 * tested)
        found = verdict(valuation)
        assert found.by_cause["the choice of test rows"] == pytest.approx(tested)
        assert sum(part**2 for part in found.by_cause.values()) == pytest.approx(found.half_width**2)
        factors = _to_halve(found.by_cause)
        halved = sum(part**2 / factors.get(name, 1.0) for name, part in found.by_cause.items())
        assert halved == pytest.approx(sum(part**2 for part in found.by_cause.values()) / 4)
        assert max(factors.values()) <= 8


def asked_for(valuation, precision, end):
    """Return the valuation of a run that was asked for a precision and ended so."""
    settings = replace(fgsv.value(fgsv.games.Airport([1, 2, 3]), precision=0.5).settings, precision=precision)
    return replace(valuation, settings=settings, end=End(end, "it ended"))


def test_a_precision_that_was_missed_is_not_paid():
    missed = asked_for(with_error([6, 3, 1], 0.036), 0.01, Reason.TIME)
    paid = split(missed, 100_000, pay_anyway=True)
    found = verdict(missed, paid=paid)
    assert found.decision is Decision.UNDECIDED
    assert "payments are known to within ± 3,600 EUR (3.6%) at 95% confidence" in found.known
    assert "you asked evaluations for 1%, and they reached only 3.6%" in found.known
    with pytest.raises(PayoutRefused, match=r"were to know every share to within 1.00%, and know it to 3.60%; to re"):
        split(missed, 100)
    [objection] = paid.objections
    assert (objection.doubt, objection.evaluations) == (Doubt.MISSED, 2**3)
    for reached in (
        asked_for(with_error([6, 3, 1], 0.009), 0.01, Reason.TIME),
        replace(missed, end=End(Reason.TARGET)),
    ):
        assert split(reached, 100).objections == ()
        assert "you asked for 1%" in verdict(reached).known
    # another target that ended the run does not reach the precision
    for other in ({"stderr": 10.0}, {"stop": lambda progress: progress.n_evaluations > 100}):
        ended = fgsv.value(fgsv.games.SumOfUnanimity(16), np.arange(16) % 4, precision=1e-5, budget=1000, **other)
        assert ended.end.reason is Reason.TARGET
        assert verdict(ended).decision is Decision.UNDECIDED
        assert [each.doubt for each in split(ended, 100, pay_anyway=True).objections] == [Doubt.MISSED]
    # the error of the test rows is not what evaluations were asked for
    tested = asked_for(with_test_rows(with_error([6, 3, 1], 0.009), 0.0, 0.5), 0.01, Reason.TARGET)
    assert split(tested, 100).objections == ()
    assert verdict(tested).known.endswith("you asked for 1%, which the evaluations reached")


@pytest.mark.parametrize("interrupted", [True, False], ids=["run", "audit"])
def test_what_was_not_finished_is_not_paid(interrupted):
    whole = with_error([6, 3, 1], 0.01)
    valuation = replace(whole, end=End(Reason.INTERRUPTED)) if interrupted else replace(whole, finished=False)
    unpaid = Result(valuation).paid_by(Terms(100)).unpaid
    assert [each.doubt for each in unpaid.objections] == [Doubt.UNFINISHED]
    assert "run the same command again" in str(unpaid)
    found = verdict(valuation)
    assert (found.decision, "run the same command again" in found.known) == (Decision.UNDECIDED, True)
    assert Result(valuation).paid_by(Terms(100, pay_anyway=True)).payout.objections == unpaid.objections


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_verdict_does_not_depend_on_the_scale_of_utilities(scale):
    def roots(masks):
        return np.sqrt(masks @ np.linspace(0.5, 1.5, 24))

    groups = [player % 4 for player in range(24)]
    plain, scaled = (
        verdict(fgsv.value(fgsv.Game(game, 24), groups, budget=60, seed=1))
        for game in (roots, lambda masks: scale * roots(masks))
    )
    assert plain.half_width > 0
    assert str(scaled) == str(plain)


def test_neighbours_of_a_method_that_values_one_group_at_a_time_can_be_uncertain_too():
    alone = valuation_of([1.05, 1.0, 0.5])
    known, vague = (one_at_a_time(alone, [error, error, 0.01]) for error in (0.01, 0.05))
    assert verdict(known).between == ()
    assert verdict(vague).between == (("0", "1"),)


def test_errors_that_nobody_knows_are_undecided_and_no_objection():
    valuation = valuation_of([2, 1])
    unknown = replace(valuation, estimate=replace(valuation.estimate, deviations=None))
    assert verdict(unknown).decision is Decision.UNDECIDED
    assert split(unknown, 100).payments == (Decimal("66.67"), Decimal("33.33"))


def test_nothing_to_share_is_unresolvable():
    assert verdict(valuation_of([1, -2])).decision is Decision.UNRESOLVABLE


def test_several_outputs_are_judged_together():
    deviations = np.zeros((1, 2, 2))
    deviations[0] = [[0, 0.5], [0, -0.5]]
    outputs = valuation_of([[2.0, 1.2], [1.0, 1.0]], deviations=deviations, outputs=("red", "blue"))
    assert verdict(outputs).between == (("0", "1"),)
    deviations[0] = [[0.9, 0.5], [-0.9, -0.5]]
    both = valuation_of([[2.0, 1.2], [1.0, 1.0]], deviations=deviations, outputs=("red", "blue"))
    assert verdict(both).between == (("0", "1"),)  # named once
    assert verdict(both).ranking.count("0 and 1") == 1


def test_verdicts_and_refusals_are_documents():
    found = verdict(with_error([4.0, 1.0, 1.0, 3.9], 0.05))
    assert decode(Verdict, encode(found)) == found
    with pytest.raises(PayoutRefused) as error:
        split(with_test_rows(with_error([8, 1, 1], 0.3), 20.0, 0.0), 100)
    for again in (decode(PayoutRefused, encode(error.value)), pickle.loads(pickle.dumps(error.value))):
        assert (str(again), again.objections) == (str(error.value), error.value.objections)


def test_a_verdict_names_the_output_that_it_is_about():
    outputs = ("news", "novels")
    worth = verdict(valuation_of([[2.0, 3.0], [1.0, -1.0]], outputs=outputs))
    assert worth.decision is Decision.UNRESOLVABLE
    assert str(worth).startswith("unresolvable: 0 is worth more than all the data together for novels, because")
    nothing = verdict(valuation_of([[2.0, 1.0], [1.0, -1.0]], outputs=outputs))
    assert "no better than with none for novels: there is nothing to share" in str(nothing)
    with pytest.raises(ValueError, match="it is -2 for the output 'novels'"):
        fgsv.plan(fgsv.Game(lambda masks: masks.sum(axis=1)[:, None] * [1, -1], 2, outputs=outputs))


def test_with_a_payout_the_verdict_is_about_the_shares_of_the_amount():
    """What one output alone would leave open does not matter where the sum that is paid is known."""
    deviations = np.zeros((1, 2, 2))
    deviations[0] = [[0.001, 0.2], [-0.001, -0.2]]
    valued = valuation_of([[2.0, 3.0], [1.0, -1.0]], deviations=deviations, outputs=("news", "novels"))
    assert verdict(valued).decision is Decision.UNRESOLVABLE  # novels alone: 150% for the first
    paid = Result(valued).paid_by(Terms([900, 100]))
    assert paid.payout.objections == ()
    assert paid.verdict.decision is Decision.CALCULATED
    # 900/3 * 0.001 + 100/2 * 0.2 of 1000, as in the interval of the payment
    assert paid.verdict.half_width == pytest.approx(QUANTILE * 0.0103)
    assert float(paid.payout.high[0]) == pytest.approx(750 + 1000 * paid.verdict.half_width, abs=0.02)
    for amounts in ([100, 900], [0, 100]):  # more than all, also of the sum
        assert Result(valued).paid_by(Terms(amounts)).unpaid is not None
        insisted = Result(valued).paid_by(Terms(amounts, pay_anyway=True))
        assert insisted.verdict.decision is not Decision.SETTLED
    alone = replace(valued, estimate=replace(valued.estimate, of_groups=True))
    assert Result(alone).paid_by(Terms([900, 100])).verdict == verdict(alone)
