"""Making a result in Python: what is written is what is read back."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

import fgsv
from fgsv.game import GameError
from fgsv.ledger import Ledger
from fgsv.ledger.tools import summary
from fgsv.payout import Doubt, Terms
from fgsv.pipeline import value_data
from fgsv.planning import Watcher
from fgsv.report import render
from fgsv.results import Decision, Result
from fgsv.running.first_cost import FirstCost
from fgsv.valuation import t_quantile


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["y"] = 2 * frame["a"] + frame["b"]
    frame["owner"] = np.array(["north", "south", "east"])[np.arange(60) % 3]
    frame["site"] = np.array(["old", "new"])[np.arange(60) % 2]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return fgsv.open_table(tmp_path / "t.csv", group="owner,site", target="y", metric="neg_mean_squared_error")


def test_a_result_reads_back_as_it_was_made(table, tmp_path):
    terms = Terms("100.00", clip=True, pay_anyway=True)
    made = value_data(table, budget=200, payout=terms, audit=True, confidence=0.9, out=tmp_path / "o")
    read = Result.load(tmp_path / "o" / "valuation.json")
    assert read.to_document() == made.to_document()  # what is read back is written as it was
    assert read.source.file.endswith("t.csv")
    assert read.history[-1].n_evaluations == made.valuation.n_evaluations
    assert (read.confidence, read.warnings, read.test_noise) == (0.9, made.warnings, made.test_noise)
    assert all(len(each) for each in (read.audit.warnings, read.audit.gsv, read.audit.attacks))
    assert read.payout.objections == made.payout.objections != ()
    assert read.verdict == made.verdict
    assert sum(read.payout.payments) == 100
    assert list(made.others) == ["site"]
    other = Result.load(tmp_path / "o" / "valuation-site.json")
    np.testing.assert_array_equal(other.valuation.values, made.others["site"].values)
    assert (other.valuation.names, other.source, other.confidence) == (("old", "new"), made.source, 0.9)


def test_the_scores_without_each_provider_are_those_of_the_model(table, tmp_path):
    made = value_data(table, budget=200, ledger=tmp_path / "run.db", out=tmp_path / "o")
    masks = np.stack([table.partition.codes != k for k in range(3)])
    both = made.without.scores + made.without.alone
    np.testing.assert_array_equal([score for (score,) in both], table.game(np.concatenate([masks, ~masks]))[:, 0])
    assert made.valuation.n_evaluations <= 200
    assert made.without.n_evaluations == 6
    read = Result.load(tmp_path / "o" / "valuation.json")
    assert read.without == made.without
    assert pd.read_csv(tmp_path / "o" / "valuation.csv")["without"].tolist() == made.without.columns[0]
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        before = summary(ledger)["coalitions"].sum()
    again = value_data(table, budget=200, ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert summary(ledger)["coalitions"].sum() == before
    assert again.without == made.without
    page = render(made)
    assert f"{made.without.scores[0][0]:.4g}" in page
    assert value_data(table, budget=200, without=False).without is None


@pytest.mark.parametrize(("error", "finished"), [(GameError("no"), True), (KeyboardInterrupt(), False)])
def test_scores_without_providers_that_fail_lose_no_valuation(table, tmp_path, monkeypatch, error, finished):
    def fail(*_):
        raise error

    monkeypatch.setattr("fgsv.pipeline.pipeline.scores_without_each", fail)
    made = value_data(table, budget=200, out=tmp_path / "o")
    assert made.without is None
    assert "scores without each provider are missing" in made.warnings[0]
    assert Result.load(tmp_path / "o" / "valuation.json").valuation.finished is finished


@pytest.mark.parametrize("anyway", [False, True])
def test_a_run_whose_audit_failed_pays_only_who_insists(table, tmp_path, monkeypatch, anyway):
    def fail(*_, **__):
        raise RuntimeError("no audit today")

    terms = Terms("100.00", pay_anyway=anyway, cap="90")
    paid = value_data(table, budget=200, payout=terms, without=False)
    monkeypatch.setattr("fgsv.pipeline.pipeline.audit_table", fail)
    made = value_data(table, budget=200, payout=terms, without=False, audit=True, out=tmp_path / "o")
    for result in (made, Result.load(tmp_path / "o" / "valuation.json")):
        stopped = result.payout if anyway else result.unpaid
        assert stopped.objections[-1].doubt is Doubt.UNFINISHED
        assert "run the same command again" in result.verdict.known
    if anyway:
        assert made.payout.payments == paid.payout.payments
    else:
        assert made.payout is None


def test_several_outputs_have_a_score_without_each_provider_each(table, tmp_path):
    several = fgsv.open_table(tmp_path / "t.csv", group="owner", target="y", metric="r2,neg_mean_squared_error")
    made = value_data(several, budget=200)
    masks = np.stack([several.partition.codes != k for k in range(3)])
    scores = several.game(np.concatenate([masks, ~masks]))[:, :2]
    np.testing.assert_array_equal(made.table()["without"], scores[:3].T.ravel())
    np.testing.assert_array_equal(made.table()["alone"], scores[3:].T.ravel())


def test_the_confidence_holds_in_the_csv_too(table, tmp_path):
    result = value_data(table, budget=200, confidence=0.5, out=tmp_path / "o")
    frame = pd.read_csv(tmp_path / "o" / "valuation.csv")
    np.testing.assert_allclose(frame["share_low"], result.valuation.share_interval(0.5)[:, 0])


class Costs(Watcher):
    def measured(self, cost):
        self.cost = cost


@pytest.mark.parametrize(
    ("model", "limits", "n_evaluations", "advice"),
    [
        ("ridge", {"budget": 50}, 50, ["max_players="]),
        (
            "sklearn.tree:ExtraTreeRegressor",
            {"precision": 0.9, "budget": None},
            None,
            ["model ridge or knn", "max_players="],
        ),
    ],
)
def test_what_a_run_costs_is_said_before_it(tmp_path, table, model, limits, n_evaluations, advice):
    context = pytest.warns(UserWarning, match="random_state") if ":" in model else nullcontext()
    with context:
        table = fgsv.open_table(tmp_path / "t.csv", group="owner", target="y", ignore="site", model=model)
    watcher = Costs()
    made = value_data(table, watcher=watcher, **{"budget": 50, **limits})
    assert watcher.cost.n_evaluations == n_evaluations
    assert 0 < watcher.cost.seconds_each < watcher.cost.seconds_of_all
    assert all(words in watcher.cost.advice for words in advice)
    # U(0) and U(N) are timed, not evaluated twice
    again = fgsv.value(table.game, table.partition, budget=made.valuation.n_evaluations)
    np.testing.assert_array_equal(made.valuation.ends, again.ends)


def test_hours_are_announced_with_a_cheaper_way():
    slow = FirstCost(10.0, 20_000, 2, "model ridge")
    assert slow.seconds == 50_000
    assert "14 h. Cheaper: model ridge" in str(slow)
    assert "ridge" not in str(FirstCost(0.6, None, 1, "model ridge"))
    told = [FirstCost(seconds, 20_000).is_worth_saying for seconds in (0.01, 0.4, 0.6)]
    assert told == [False, True, True]  # quick evaluations of a long run too


def noisy(tmp_path, weight, n=240):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["y"] = weight * frame["a"] + rng.normal(size=n)
    frame["owner"] = np.array(["north", "south", "east"])[np.arange(n) % 3]
    frame.to_csv(tmp_path / "n.csv", index=False)
    return {"path": tmp_path / "n.csv", "group": "owner", "target": "y", "test_fraction": 0.5}


def test_the_noise_of_the_test_rows_is_that_of_a_bootstrap(tmp_path):
    table = fgsv.open_table(**noisy(tmp_path, weight=1.0), metric="r2")
    y = table.rows.test_target
    predicted = Ridge().fit(table.inputs.X, table.rows.target).predict(table.inputs.X_test)
    draws = np.random.default_rng(0).integers(len(y), size=(400, len(y)))
    spread = np.std([r2_score(y[rows], predicted[rows]) for rows in draws])
    made = value_data(table, budget=50)
    assert 0.6 < made.test_noise / (t_quantile(0.95, 9) * spread) < 1.6  # from ten folds


@pytest.mark.parametrize(("weight", "is_noise"), [(0.12, True), (5.0, False)])
def test_a_total_within_the_noise_is_refused_without_being_asked(tmp_path, weight, is_noise):
    table = fgsv.open_table(**noisy(tmp_path, weight), metric="r2")
    made = value_data(table, budget=1000, payout=Terms("100.00"), out=tmp_path / "o")
    assert (made.verdict.decision is Decision.UNRESOLVABLE) == is_noise
    doubts = [] if made.unpaid is None else [objection.doubt for objection in made.unpaid.objections]
    assert (Doubt.WITHIN_NOISE in doubts) == is_noise
    read = Result.load(tmp_path / "o" / "valuation.json")
    assert (read.test_noise, read.verdict) == (made.test_noise, made.verdict)


def test_players_of_several_providers_leave_the_result_without_the_scores_without_each(table, tmp_path):
    frame = pd.read_csv(tmp_path / "t.csv").assign(unit=np.arange(60) % 10)
    options = {"group": "owner", "target": "y", "unit": "unit", "ignore": "site", "shared_units": "co-own"}
    made = value_data(fgsv.open_table(frame, **options), budget=60)
    assert made.without is None
    assert any("some players belong to several providers" in warning for warning in made.warnings)


def opened(path, owners=("north", "south", "east"), **options):
    frame = pd.read_csv(path).drop(columns="site")
    frame["owner"] = np.array(owners)[np.arange(60) % 3]
    return fgsv.open_table(frame, group="owner", target="y", **options)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({"metric": "r2,neg_mean_squared_error"}, "this run has several outputs"),
        ({"owners": ("Ada", "Bob", "Cai")}, "no provider of this run is in the earlier result"),
    ],
)
def test_a_run_that_cannot_be_compared_with_the_previous_period_is_refused_before_it(
    table, tmp_path, monkeypatch, now, words
):
    before = value_data(opened(tmp_path / "t.csv"), budget=100)
    monkeypatch.setattr("fgsv.pipeline.pipeline.value_with_plan", lambda *_, **__: pytest.fail("the run began"))
    changed = pd.read_csv(tmp_path / "t.csv")[::-1].assign(a=lambda frame: frame["a"] + 1)
    changed.to_csv(tmp_path / "u.csv", index=False)
    with pytest.raises(ValueError, match=words):
        value_data(opened(tmp_path / "u.csv", **now), budget=100, before=before, out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_an_earlier_result_with_several_outputs_or_without_shares_is_refused_before_the_run(table, tmp_path):
    now = opened(tmp_path / "t.csv")
    several = value_data(opened(tmp_path / "t.csv", metric="r2,neg_mean_squared_error"), budget=100)
    with pytest.raises(ValueError, match="the earlier result has several outputs"):
        value_data(now, budget=100, before=several)
    with pytest.raises(ValueError, match="the earlier result cannot be compared: shares need a positive"):
        value_data(now, budget=100, before=value_data(opened(tmp_path / "t.csv", empty=2.0), budget=100))


def test_a_run_without_shares_has_its_report_without_the_comparison(table, tmp_path):
    pytest.importorskip("vl_convert")
    before = value_data(opened(tmp_path / "t.csv"), budget=100)
    found = value_data(opened(tmp_path / "t.csv", empty=2.0), budget=100, before=before, out=tmp_path / "o")
    assert (found.errors, [path.name for path in found.files][-1]) == ((), "report.html")
    assert any("no comparison with the earlier result" in each for each in found.warnings)


def test_what_a_result_states_is_recorded_for_its_own_run(table, tmp_path):
    """Not for the group values of its audit, which are a valuation too."""
    value_data(table, budget=200, audit=True, ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        runs = [run for run, _ in ledger.statements()]
        assert len(set(runs)) == 2
        assert runs[0] == runs[-1] == ledger.runs()[0].id


def test_a_document_is_made_only_for_a_folder_or_a_ledger(table, tmp_path, monkeypatch):
    made, to_document = [], Result.to_document
    monkeypatch.setattr(Result, "to_document", lambda result: made.append(result) or to_document(result))
    value_data(table, budget=100)
    assert made == []
    value_data(table, budget=100, out=tmp_path / "o")
    assert len(made) == 3  # unfinished, and one for each of the two groupings
