"""Arguments of a wrong type: the error names the argument or what was expected, before anything is evaluated."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fgsv
from fgsv import audit, games, payout, pipeline, planning, plots, report, results, verification
from fgsv.ledger import WrongLedger, known
from fgsv.ledger.forgetting import forget
from fgsv.ledger.tools import export, merge, summary
from fgsv.semivalue import Beta
from fgsv.utilities import language
from fgsv.verification.record_checks import odds_of_missing, verify_records


@pytest.fixture
def game():
    asked = []

    def count(masks):
        asked.extend(masks)
        return masks.sum(axis=1)

    yield fgsv.Game(count, 6, fingerprint="count")
    assert not asked


VALUED = {
    "value": fgsv.value,
    "exact": fgsv.exact,
    "plan": fgsv.plan,
    "diagnose": fgsv.diagnose,
    "shell_companies": lambda game, **options: audit.shell_companies(game, [0, 0, 0, 1, 1, 1], **options),
}


@pytest.mark.parametrize("wrong", [3, 2.5, True, b"run.db", ["run.db"]])
@pytest.mark.parametrize("function", VALUED.values(), ids=VALUED)
def test_a_ledger_that_is_no_path(function, wrong, game):
    with pytest.raises(TypeError, match=f"^ledger must be given as a path, got {type(wrong).__name__}$"):
        function(game, ledger=wrong)


def test_other_paths_that_are_none(tmp_path):
    valuation = fgsv.exact(fgsv.games.Airport([1, 2]))
    for call, name in (
        (lambda: fgsv.load(3), "a saved valuation"),
        (lambda: fgsv.fit_cost(3), "a ledger"),
        (lambda: fgsv.verify(valuation, 3), "a ledger"),
        (lambda: pipeline.write_result(3, results.Result(valuation)), "folder"),
        (lambda: pipeline.check_file(3, force=False), "a file"),
    ):
        with pytest.raises(TypeError, match=f"^{name} must be given as a path, got int$"):
            call()
    pipeline.check_file(str(tmp_path / "new.json"), force=False)
    pipeline.check_folder(str(tmp_path), force=False)


WITH_VALUATION = {
    "compare": lambda wrong: fgsv.compare(wrong, wrong),
    "verify": lambda wrong: fgsv.verify(wrong, "run.db"),
    "split": lambda wrong: payout.split(wrong, 100),
    "royalty_shares": payout.royalty_shares,
    "verdict": results.verdict,
    "audit": lambda wrong: audit.audit(fgsv.games.Airport([1, 2]), wrong),
    "policy_gains": lambda wrong: audit.policy_gains(wrong, 100),
    "render": report.render,
}
WITH_TABLE = {
    "value_data": pipeline.value_data,
    "seal_run": results.seal_run,
    "audit_table": lambda wrong: audit.audit_table(wrong, wrong),
}
WITH_RESULT = {
    "compare_results": lambda wrong: results.compare_results(wrong, wrong),
    "sensitivity": results.sensitivity,
    "verify_data": lambda wrong: verification.verify_data(wrong, "run.db", "train.csv"),
    "withdrawn_players": lambda wrong: verification.withdrawn_players(wrong, "run.db", "train.csv", "rows.csv"),
    "write_result": lambda wrong: pipeline.write_result("folder", wrong),
}
WITH_PAYOUT = {
    "settle": lambda wrong: payout.settle(wrong, wrong),
    "differences": lambda wrong: payout.differences(wrong, wrong),
    "write_payout": lambda wrong: pipeline.write_payout("payments.csv", wrong),
}
EXPECTED = {
    "a valuation, got {}: fgsv.load(path) opens a saved one": WITH_VALUATION,
    "a table or texts, got {}: fgsv.open_table or fgsv.open_text opens them": WITH_TABLE,
    "a result, got {}: fgsv.results.Result.load(path) opens a saved one": WITH_RESULT,
    "payout": WITH_PAYOUT,
}


@pytest.mark.parametrize("wrong", ["x", 3, None])
@pytest.mark.parametrize(
    ("words", "function"),
    [(words, each) for words, functions in EXPECTED.items() for each in functions.values()],
    ids=[name for functions in EXPECTED.values() for name in functions],
)
def test_an_object_of_another_type(words, function, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"^expected ") as error:
        function(wrong)
    assert words.format(type(wrong).__name__) in str(error.value)
    assert not list(tmp_path.iterdir())


ROOTS = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 4)
VALUED_ROOTS = fgsv.exact(ROOTS, ["a", "a", "b", "b"])


def theorem3(**wrong):
    return fgsv.theorem3(**({"epsilon": 0.1, "delta": 0.1, "upsilon": 1.0, "n": 10, "s0": 2} | wrong))


def shells(**wrong):
    return audit.shell_companies(ROOTS, ["a", "a", "b", "b"], **wrong)


def gains(**wrong):
    return audit.policy_gains(VALUED_ROOTS, 100, **wrong)


def copies(X=((1.0,), (2.0,)), y=(0, 1), **wrong):
    return audit.find_copies(X, y, ["a", "b"], **wrong)


def rounded(ideal=(1, 2), whole=Decimal(3), unit=Decimal("0.01")):
    return payout.round_to(ideal, whole, unit)


def utility(X=((0.0,), (1.0,)), y=(0, 1), **options):
    return fgsv.utility(LogisticRegression(), X, y, [[0.0], [1.0]], [0, 1], **options)


ROWS = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) // 20, "provider": ["north", "south"] * 20})
TEXTS = pd.DataFrame({"text": [f"word {number}" for number in range(20)], "provider": ["north", "south"] * 10})


def table(**wrong):
    return fgsv.open_table(ROWS, **({"target": "y", "group": "provider"} | wrong))


def texts(**wrong):
    return fgsv.open_text(TEXTS, **({"group": "provider"} | wrong))


def ngram(**wrong):
    return language.ngram(["a b", "c d"], {"test": ["a"]}, **wrong)


NAMED = [
    (lambda: table(target=["y"]), "expected the name of a column as target, got list"),
    (lambda: table(unit=["x"]), "expected the name of a column as unit, got list"),
    (lambda: table(encoding=3), "expected a text as encoding, got int"),
    (lambda: table(start=3), "start must be the path of an earlier ledger, or a list of paths, got 3"),
    (lambda: table(model=3), "model must be a name or an estimator such as SVC(), got 3"),
    (lambda: table(model=LogisticRegression), "model must be a name or an estimator such as SVC(), got <class"),
    (lambda: table(test_fraction="x"), "test_fraction must be between 0 and 1, got x"),
    (lambda: table(split_seed="x"), "split_seed must be a whole number, got 'x'"),
    (lambda: table(seed="x"), "seed must be a whole number, got 'x'"),
    (lambda: table(shared_units="own"), "shared_units must be co-own or split, got 'own'"),
    (lambda: texts(text=["text"]), "expected a text as text, got list"),
    (lambda: texts(encoding=None), "expected a text as encoding, got NoneType"),
    (
        lambda: fgsv.value(texts()),
        "game must be callable, from an (m, n) boolean array to m numbers; got Texts; give its game and its groups",
    ),
    (lambda: results.seal_run(texts(), public_from=3), "expected a text as public_from, got int"),
    (lambda: results.seal_run(texts(), budget=100).seed(1.0854), "expected a text as public, got float: write the"),
    (lambda: texts(training="steps"), "expected a mapping from names to settings as training, got str"),
    (lambda: planning.plan_table("train.csv"), "expected a table or texts, got str: fgsv.open_table or"),
    (lambda: planning.plan_table(table(), limits=3), "expected limits of a run, got int"),
    (lambda: planning.Limits(budget="x"), "budget must be a whole number, got 'x'"),
    (lambda: pipeline.value_data(table(), budget="x"), "budget must be a whole number, got 'x'"),
    (lambda: pipeline.value_data(table(), audit=True, audit_budget="x"), "audit_budget must be a whole number"),
    (lambda: pipeline.value_data(table(), payout=100), "expected terms of a payout, got int: fgsv.payout.Terms("),
    (
        lambda: verification.check_proof("proof.json", "result"),
        "expected a proof, got str: fgsv.verification.Proof.load(",
    ),
    (lambda: verify_records("run.db", ROOTS, sample="x"), "sample must be a whole number, got 'x'"),
    (lambda: verify_records("run.db", ROOTS, tolerance="x"), "tolerance must be a number, 0 or more; got 'x'"),
    (lambda: Beta("x", 1), "Beta semivalues need positive, finite parameters, got a='x', b=1"),
    (lambda: ngram(trust="x"), "trust must be between 0 and 1, got 'x'"),
    (lambda: ngram(base=3), "base must be a list of texts, got 3"),
    (lambda: theorem3(epsilon="x"), "epsilon must be a positive number, got 'x'"),
    (lambda: theorem3(n=2.5), "n must be a whole number, got 2.5"),
    (lambda: theorem3(s0=0), "s0 must be at least 1, got 0"),
    (lambda: theorem3(delta="x"), "theorem3 needs 0 < delta < 1 and s0 <= n, got delta='x', s0=2 and n=10"),
    (lambda: theorem3(m1_constant=-1), "m1_constant must be a positive number, got -1"),
    (lambda: theorem3(epsilon=1e-200), "epsilon=1e-200 would take more evaluations than a number can count"),
    (lambda: rounded(unit="0.01"), "expected a Decimal as unit, got str"),
    (lambda: rounded(ideal="x"), "ideal must be a list of numbers, such as fractions; got 'x'"),
    (
        lambda: rounded(whole=Decimal("3.005")),
        "whole must be a multiple of unit, which is positive; got 3.005 and 0.01",
    ),
    (lambda: copies(X=[["x"], ["y"]]), "X must be an (n, p) array of numbers"),
    (lambda: copies(X=[1.0, 2.0]), "X must have two dimensions, rows and columns, got shape (2,)"),
    (lambda: copies(y=[1]), "y must have a target for each of the 2 rows, got shape (1,)"),
    (lambda: copies(tolerance="x"), "tolerance must be a number of standard deviations, 0 or more; got 'x'"),
    (lambda: copies(tolerance=-1), "tolerance must be a number of standard deviations, 0 or more; got -1"),
    (lambda: audit.find_passages("text", ["a"]), "texts must be a list of texts, got the text 'text'"),
    (lambda: audit.find_passages([3], ["a"]), "expected a list of texts as texts, got int"),
    (lambda: audit.with_precedence(ROOTS, 3), "origin must give, for each row"),
    (lambda: shells(parts=3), "parts must be numbers of companies, 2 or more, such as [2, 3, 5], got 3"),
    (lambda: shells(ways="evenly"), "ways must be a list of kinds of splits, got the text 'evenly'"),
    (lambda: shells(classes=[0, 1]), "classes must have an entry for each of the 4 players, got shape (2,)"),
    (lambda: shells(player_values=[0]), "player_values must have an entry for each of the 4 players"),
    (lambda: shells(budget="x"), "budget must be a whole number, got 'x'"),
    (lambda: shells(seed=-1), "seed must be at least 0, got -1"),
    (lambda: audit.audit(ROOTS, VALUED_ROOTS, budget="x"), "budget must be a whole number, got 'x'"),
    (lambda: gains(groups=["a"]), "groups must be positions of groups, from 0 to 1, got ['a']"),
    (lambda: gains(groups=[2]), "groups must be positions of groups, from 0 to 1, got [2]"),
    (lambda: gains(parts=[1]), "parts must be numbers of companies, 2 or more, such as [2, 3, 5], got [1]"),
    (lambda: gains(seed="x"), "seed must be a whole number, got 'x'"),
    (lambda: payout.split(VALUED_ROOTS, b"9"), "amount must be int, str or Decimal, not bytes"),
    (
        lambda: results.sensitivity(results.Result(VALUED_ROOTS), results.Result(VALUED_ROOTS), labels=["a", "b"]),
        "labels must have a name for each further result, 1 in all; got ['a', 'b']",
    ),
    (lambda: report.render(VALUED_ROOTS, others=["x"]), "expected a mapping from names of groupings to valuations"),
    (lambda: report.render(VALUED_ROOTS, others={"x": 3}), "expected a valuation, got int"),
    (lambda: pipeline.write_payout("p.xlsx", payout.split(VALUED_ROOTS, 9)), "p.xlsx must end in .csv or .json"),
    (lambda: plots.values("v.json"), "expected a valuation, got str: fgsv.load(path) opens a saved one"),
    (lambda: plots.shares(VALUED_ROOTS, 3), "expected matplotlib axes as ax, got int"),
    (lambda: plots.convergence(3), "rounds must be those of fgsv.iterate, or the history of a result, got 3"),
    (lambda: plots.attack(VALUED_ROOTS), "expected the table of fgsv.audit.shell_companies, got Valuation"),
    (lambda: plots.prudence(ROOTS), "expected a diagnosis, got Game: fgsv.diagnose makes one"),
    (lambda: summary("run.db"), "expected an open ledger, got str"),
    (lambda: merge("all.db", "run.db"), "expected a list of ledgers to merge, got str"),
    (lambda: known(fgsv.Game(len, 2, fingerprint="x"), "run.db"), "expected a list of ledgers, got str"),
    (lambda: export("run.db", 3), "the file to export to must be given as a path, got int"),
    (lambda: forget("run.db", "abc"), "players must be a list of names, got the text 'abc'"),
    (lambda: forget("run.db", providers=[3]), "expected a list of names as providers, got int"),
    (lambda: VALUED_ROOTS.save(3), "a saved valuation must be given as a path, got int"),
    (lambda: odds_of_missing(3, forged="x"), "forged must be a fraction, from 0 to 1; got 'x'"),
    (lambda: fgsv.diagnose(games.Glove(3, 3), output="x"), "output must be a whole number, got 'x'"),
    (lambda: fgsv.plan(ROOTS, pilot=None), "pilot must be a whole number, got None"),
    (
        lambda: fgsv.KNNVote([[1.0]], [0], [[1.0]], [0], n_neighbors=1.5),
        "n_neighbors must be a whole number, got 1.5",
    ),
    (lambda: utility(min_size="x"), "min_size must be a whole number, got 'x'"),
    (lambda: utility(min_size=1_000), "min_size must be at most the number of rows, "),
    (
        lambda: utility(min_size=2, null=lambda *_: 3),
        "the null sampler must return rows and their labels, (X, y); got 3",
    ),
    (
        lambda: utility(X=[[1], [1, 2]]),
        "X must have as many columns in each row",
    ),
    (lambda: utility(y=[[1], [1, 2]]), "y must have one dimension"),
    (lambda: fgsv.Game(len, 2, outputs=3), "outputs must be a sequence with a name for each output, got 3"),
    (lambda: fgsv.Game(len, 2, frame="x", players=3), "players must be a list with an id for each player, got 3"),
    (lambda: fgsv.Game(len, 2, frame=3, players=["a", "b"]), "expected a text, or a mapping from parts to texts"),
    (lambda: fgsv.Game(len, 2, seconds="x"), "seconds of a game must be a number, 0 or more; got 'x'"),
    (lambda: games.Airport("x"), "a runway needs a list with the cost of each player"),
    (lambda: games.Glove("x", 1), "left must be a whole number, got 'x'"),
    (lambda: games.Glove(0, 0), "a game of gloves needs at least one player"),
    (lambda: games.WeightedMajority(3, "x"), "a vote needs whole-number weights"),
    (lambda: games.SumOfUnanimity("x"), "n must be a whole number, got 'x'"),
    (lambda: fgsv.value(ROOTS, confidence=10**400), "confidence must be between 0 and 1, such as 0.95"),
    (lambda: fgsv.value(ROOTS, max_seconds=np.zeros((2, 2))), "max_seconds must be a positive number"),
]


@pytest.mark.parametrize(("call", "words"), NAMED, ids=[words[:40] for _, words in NAMED])
def test_an_argument_that_is_named(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, WrongLedger)) as error:
        call()
    assert str(error.value).startswith(words)
    assert not list(tmp_path.iterdir())


def test_amounts_may_be_an_array():
    both = fgsv.Game(lambda masks: np.stack([masks.sum(axis=1), masks[:, 0]], axis=1), 2, outputs=("u", "v"))
    paid = payout.split(fgsv.exact(both), np.array([100, 50]))
    assert paid.payments == (100, 50)
