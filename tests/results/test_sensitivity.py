"""Sensitivity: what is scored beside the score, and how shares depend on it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.reading import TableError
from fgsv.files import decode, encode
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.report import render
from fgsv.results import Result, sensitivity
from fgsv.results.questions import SharesByQuestion
from fgsv.valuation.test_rows import TestRows
from fgsv.verification import verify_result


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.5 * rng.normal(size=160) > 0).astype(int)
    return frame.assign(provider=rng.choice(["n", "s", "e"], 160), area=rng.choice(["city", "land"], 160))


def opened(frame, **options):
    return fgsv.open_table(frame, group="provider", target="y", ignore="area", **options)


ALSO = {"also_metric": "neg_log_loss,roc_auc", "also_slice": "area"}
QUESTIONS = ("accuracy", "neg_log_loss", "roc_auc", "area: city", "area: land")


@pytest.mark.parametrize("only", [False, True])
def test_further_outputs_are_those_of_runs_of_their_own(frame, only):
    table = opened(frame, monte_carlo_only=only, **ALSO)
    made = value_data(table, budget=100, without=False)
    assert made.by_question.questions == QUESTIONS
    alone = value_data(opened(frame, monte_carlo_only=only), budget=100, without=False)
    assert made.valuation.outputs is None
    assert made.valuation.total == pytest.approx(alone.valuation.total)
    assert made.test_noise == (None if only else pytest.approx(alone.test_noise))
    # oracles of U(N) - U(0): a table with that score alone, and a utility of that slice alone
    log_loss = value_data(opened(frame, metric="neg_log_loss"), budget=100, without=False).valuation
    assert made.by_question.totals[1] == pytest.approx(log_loss.total)
    y, slices = table.rows.test_target, table.rows.test_slices["area"]
    train = table.inputs.X, table.rows.target
    test = table.inputs.X_test[slices == "city"], y[slices == "city"]
    cities = fgsv.utility(table.game.model, *train, *test, "accuracy")
    nobody, everybody = cities(np.array([[False] * 175, [True] * 175])[:, : table.game.n_players])
    assert made.by_question.totals[3] == pytest.approx(everybody - nobody)


def test_targets_and_payments_look_at_the_first_output(frame, tmp_path):
    table = opened(frame, **ALSO)
    made = value_data(table, precision=0.25, payout=Terms("100.00", pay_anyway=True), ledger=tmp_path / "run.db")
    assert made.valuation.settings.weights == (1.0, 0.0, 0.0, 0.0, 0.0)
    assert made.valuation.end.reason is fgsv.Reason.TARGET
    assert made.valuation.sampling_half_width().max() <= 0.25
    assert sum(made.payout.payments) == 100
    made.save(tmp_path / "valuation.json")
    assert verify_result(tmp_path / "valuation.json", tmp_path / "run.db")[1] == []


def test_answers_are_read_back_and_shown(frame, tmp_path):
    made = value_data(opened(frame, **ALSO), budget=100, without=False)
    made.save(tmp_path / "valuation.json")
    read = Result.load(tmp_path / "valuation.json")
    assert read.to_document() == made.to_document()
    found, again = sensitivity(made), sensitivity(read)
    pd.testing.assert_frame_equal(found.shares, again.shares)
    assert "How much depends on the question" in render(read)
    assert "<table" in found._repr_html_()
    assert found.facts[0][1:] in repr(found)


def answers_of(shares, error=0.0, together=False):
    """Return a result with these (Q, K) shares, whose errors are independent between questions or the same."""
    shares = np.array(shares)
    one = np.full((len(shares),) * 2, error**2)
    covariances = np.stack([one if together else np.diag(np.diag(one))] * shares.shape[1])
    game = fgsv.Game(lambda masks: masks @ shares[0], shares.shape[1])
    names = [f"p{k}" for k in range(shares.shape[1])]
    answers = SharesByQuestion(
        tuple(f"q{k}" for k in range(len(shares))), np.ones(len(shares)), shares, covariances, np.inf
    )
    return Result(fgsv.exact(game, names), by_question=answers)


def test_ranks_and_reversals():
    certain = sensitivity(answers_of([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], error=0.001))
    assert certain.groups[["rank", "best_rank", "worst_rank"]].to_numpy().tolist() == [
        [1, 1, 3],
        [2, 2, 2],
        [3, 1, 3],
    ]
    assert set(certain.reversals) == {("q1", "p0", "p1"), ("q1", "p0", "p2"), ("q1", "p1", "p2")}
    assert certain.by_choice > 0.99
    assert certain.shares["clear"].tolist() == [False] * 3 + [True, False, True]
    unsure = sensitivity(answers_of([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], error=0.3))
    assert unsure.reversals == ()
    assert not unsure.shares["clear"].any()


def test_rounding_moves_no_share_and_no_order():
    found = sensitivity(answers_of([[0.3, 0.7 - 1e-16], [0.3 + 1e-16, 0.7]]))
    assert not found.shares["clear"].any()
    tied = sensitivity(answers_of([[0.5, 0.5 + 2e-16], [0.5 + 2e-16, 0.5]]))
    assert found.reversals == tied.reversals == ()


def test_spread_by_error_is_what_error_alone_would_give():
    """The oracle: questions that differ by independent error alone, of known size."""
    rng, error = np.random.default_rng(0), 0.02
    noisy = np.array([0.5, 0.3, 0.2]) + error * rng.normal(size=(400, 3))
    found = sensitivity(answers_of(noisy, error))
    np.testing.assert_allclose(found.groups["error"], error, rtol=1e-9)
    np.testing.assert_allclose(found.groups["spread"], error, rtol=0.15)
    assert found.by_choice < 0.1
    # an error that all questions have in common moves all of them, and explains no difference
    common = sensitivity(answers_of([[0.5, 0.5], [0.4, 0.6]], 0.2, together=True))
    assert common.by_choice == pytest.approx(1)
    assert common.shares["clear"].tolist() == [False, False, True, True]


def test_resampled_test_rows_have_the_spread_of_the_test_error():
    rng = np.random.default_rng(1)
    values = np.array([[0.5], [0.3], [0.2]]) + 0.05 * rng.normal(size=(3, 10))
    totals = values.sum(axis=0)
    rest = (values.sum(axis=1, keepdims=True) - values) / 9, (totals.sum() - totals) / 9  # means without each fold
    parts = [(each - each.mean(axis=-1, keepdims=True)).T * np.sqrt(0.9) for each in rest]
    result = replace(answers_of([values.mean(axis=1)]), by_question=None)
    tested = TestRows(parts[0][:, :, None], parts[1][:, None], None)
    valuation = replace(result.valuation, test_rows=tested, ends=np.array([0.0, totals.mean()]))
    result = replace(result, valuation=valuation)
    found = sensitivity(result).groups
    spread = (found["test_high"] - found["test_low"]) / 2 / 1.96
    expected = np.sqrt((valuation.test_deviations[:, :, 0] ** 2).sum(axis=0)) / totals.mean()
    np.testing.assert_allclose(spread, expected, rtol=0.1)
    assert (found["rank_kept"] > 0.9).all()


def test_results_of_other_models_are_questions_too(frame):
    one, other = (value_data(opened(frame, model=model), budget=100, without=False) for model in (None, "knn"))
    found = sensitivity(one, other, labels=["knn"])
    assert list(dict.fromkeys(found.shares["question"])) == ["accuracy", "accuracy (knn)"]
    shares = found.shares.set_index(["question", "group"])["share"]
    for name, share in zip(other.valuation.names, other.valuation.shares(), strict=True):
        assert shares["accuracy (knn)", name] == pytest.approx(share)
    renamed = replace(other, valuation=other.valuation.regroup(None))
    with pytest.raises(ValueError, match="different providers"):
        sensitivity(one, renamed)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"also_slice": "a", "metric": "accuracy,roc_auc"}, "need a single metric"),
        ({"also_slice": "nowhere"}, "nowhere"),
        ({"also_slice": "id"}, "needs 2 to 10"),
        ({"also_metric": "acuracy"}, "did you mean accuracy"),
    ],
)
def test_bad_input(frame, options, words):
    named = frame.assign(id=[f"row {k}" for k in range(len(frame))])
    with pytest.raises((TableError, ValueError), match=words):
        fgsv.open_table(named, group="provider", target="y", ignore="area,id", **options)


def test_a_slice_in_which_all_data_is_worth_nothing_has_no_shares():
    base = answers_of([[0.5, 0.5], [0.4, 0.6]], 0.01)
    answers = replace(base.by_question, shares=np.array([[0.5, 0.5], [np.nan, np.nan]]), totals=np.array([1.0, -1.0]))
    found = sensitivity(replace(base, by_question=decode(SharesByQuestion, encode(answers))))
    assert len(found.shares) == 2
    assert any("no shares" in fact for fact in found.facts)
    assert found.by_choice is None


def test_a_result_without_shares_by_any_question_is_read_back(frame, tmp_path):
    test = frame.assign(y=1 - frame["y"])  # all that is learned is wrong
    made = value_data(opened(frame, test=test, also_metric="roc_auc"), budget=60, without=False)
    assert (made.by_question.totals < 0).all()
    made.save(tmp_path / "valuation.json")
    read = Result.load(tmp_path / "valuation.json")
    assert read.to_document() == made.to_document()
    with pytest.raises(ValueError, match="no shares by the first question"):
        sensitivity(read)


def test_where_one_of_several_metrics_has_nothing_to_share_another_one_is_proposed(frame):
    table = opened(frame, test=frame.assign(y=1 - frame["y"]), metric="neg_log_loss,accuracy")
    with pytest.raises(
        ValueError, match=r"output neg_log_loss: .*: roc_auc .* or balanced_accuracy \(every class alike\)\. Or"
    ):
        value_data(table, budget=60, payout=Terms([1, 1]))


def test_two_providers_with_one_name_are_not_taken_for_one():
    alike = Result(fgsv.exact(fgsv.games.Airport([1, 2, 3]), [1, "1", 2]))
    with pytest.raises(ValueError, match="two groups are both called '1'"):
        sensitivity(alike)


def test_the_errors_of_two_runs_are_independent():
    runs = [Result(fgsv.value(fgsv.games.SumOfUnanimity(30), list("aabbbc") * 5, budget=100, seed=i)) for i in (0, 1)]
    found = sensitivity(*runs).shares
    first, second = (found["share_high"] - found["share"]).to_numpy().reshape(2, 3)
    of_difference = (found["difference_high"] - found["difference"]).to_numpy()[3:]
    np.testing.assert_allclose(of_difference, np.hypot(first, second))
