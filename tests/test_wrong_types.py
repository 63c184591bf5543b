"""Arguments of a wrong type: the error names the argument or what was expected, before anything is evaluated."""

import inspect
import re
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


def never(masks):
    raise RuntimeError("evaluated")


GAME = fgsv.Game(never, 6, fingerprint="never")
GROUPS = [0, 0, 0, 1, 1, 1]
VALUED = fgsv.exact(fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 4), ["a", "a", "b", "b"])
VALUED_SIX = fgsv.exact(games.Glove(3, 3), GROUPS)
RESULT = results.Result(VALUED)
PAID = payout.split(VALUED, 9)
ROWS = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) // 20, "provider": ["north", "south"] * 20})
TABLE = fgsv.open_table(ROWS, target="y", group="provider")
TEXTS = pd.DataFrame({"text": [f"word {number}" for number in range(20)], "provider": ["north", "south"] * 10})
FITTED = {"X": [[0.0], [1.0]], "y": [0, 1], "X_test": [[0.0], [1.0]], "y_test": [0, 1]}
THEOREM = {"epsilon": 0.1, "delta": 0.1, "upsilon": 1.0, "n": 10, "s0": 2}
CALLS = {
    fgsv.value: {"game": GAME},
    fgsv.exact: {"game": GAME},
    fgsv.plan: {"game": GAME},
    fgsv.diagnose: {"game": GAME},
    fgsv.grouped: {"game": GAME, "groups": GROUPS},
    fgsv.Game: {"function": never, "n_players": 2, "frame": "x", "players": ["a", "b"]},
    fgsv.open_table: {"path": ROWS, "target": "y", "group": "provider"},
    fgsv.open_text: {"path": TEXTS, "group": "provider"},
    fgsv.utility: {"model": LogisticRegression(), "min_size": 1, **FITTED},
    fgsv.KNNVote: {"n_neighbors": 1, **FITTED},
    fgsv.theorem3: THEOREM,
    fgsv.load: {},
    fgsv.fit_cost: {"ledger": "run.db"},
    fgsv.compare: {"first": VALUED, "second": VALUED},
    fgsv.verify: {"valuation": VALUED, "ledger": "run.db"},
    audit.audit: {"game": GAME, "valuation": VALUED_SIX},
    audit.shell_companies: {"game": GAME, "groups": GROUPS},
    audit.policy_gains: {"valuation": VALUED, "amount": 100},
    audit.find_copies: {"X": [[1.0], [2.0]], "y": [0, 1], "groups": ["a", "b"]},
    audit.find_passages: {"texts": ["a b", "c d"], "groups": ["a", "b"]},
    audit.with_precedence: {"game": GAME, "origin": range(6)},
    payout.split: {"valuation": VALUED, "amount": 100},
    payout.royalty_shares: {"valuation": VALUED},
    payout.settle: {"paid": PAID, "due": PAID},
    payout.differences: {"payout": PAID, "valuation": VALUED},
    payout.round_to: {"ideal": [1, 2], "whole": Decimal(3), "unit": Decimal("0.01")},
    pipeline.value_data: {"data": TABLE, "audit": True},
    pipeline.write_result: {"folder": "out", "result": RESULT},
    pipeline.write_payout: {"path": "payments.csv", "payout": PAID},
    pipeline.check_file: {"path": "new.json", "force": False},
    planning.plan_table: {"table": TABLE},
    planning.Limits: {},
    results.verdict: {"valuation": VALUED},
    results.seal_run: {"table": TABLE},
    results.compare_results: {"first": RESULT, "second": RESULT},
    results.sensitivity: {"result": RESULT},
    verify_records: {"ledger": "run.db", "game": GAME},
    odds_of_missing: {"sample": 3},
    Beta: {"a": 1, "b": 1},
    report.render: {"result": VALUED},
    plots.values: {"valuation": VALUED},
    plots.shares: {"valuation": VALUED},
    merge: {"into": "all.db", "sources": ["run.db"]},
    known: {"game": GAME, "ledgers": ["run.db"]},
    export: {"ledger": "run.db", "path": "run.csv"},
    forget: {"path": "run.db", "players": ["a"]},
    language.ngram: {"documents": ["a b", "c d"], "tests": {"test": ["a"]}},
    games.Airport: {"costs": [1, 2]},
    games.Glove: {"left": 1, "right": 1},
    games.WeightedMajority: {"weights": [1, 2], "quota": 2},
    games.SumOfUnanimity: {"n": 3},
}


UNCHECKED = {
    fgsv.utility: "seed weights",
    fgsv.Game: "function batch_size grouped_by weights",
    fgsv.open_table: "task group_missing target_missing",
    fgsv.open_text: "group_missing seed",
    fgsv.fit_cost: "fingerprint",
    fgsv.verify: "method semivalue stop proxy document",
    audit.find_copies: "test",
    payout.round_to: "ideal",
    pipeline.value_data: "command",
    pipeline.check_file: "kinds",
    pipeline.write_result: "texts",
    verify_records: "game",
    report.render: "title",
    known: "keys",
    forget: "keep",
}
"""Looked at later than the rest, or used without a look."""


class Wrong:
    """What no argument is meant to be."""


@pytest.mark.parametrize("wrong", [Wrong(), b"x"], ids=["object", "bytes"])
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__qualname__)
def test_an_argument_of_a_wrong_type(function, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, parameter in inspect.signature(function).parameters.items():
        skipped = parameter.kind is parameter.VAR_KEYWORD or str(parameter.annotation) == "bool"
        if skipped or name in UNCHECKED.get(function, "").split():
            continue
        with pytest.raises((TypeError, ValueError, WrongLedger)) as error:
            function(**CALLS[function] | {name: wrong})
        assert re.search(rf"\b({name}|expected|got)\b", str(error.value)), (name, str(error.value))
    assert not list(tmp_path.iterdir())


EXPECTED = {
    lambda: payout.split("x", 100): "expected a valuation, got str: fgsv.load(path) opens a saved one",
    lambda: results.seal_run("x"): "expected a table or texts, got str: fgsv.open_table or fgsv.open_text opens",
    lambda: results.sensitivity("x"): "expected a result, got str: fgsv.results.Result.load(path) opens a saved one",
    lambda: payout.settle("x", PAID): "expected two payouts, got str",
    lambda: pipeline.value_data(TABLE, payout=100): "expected terms of a payout, got int: fgsv.payout.Terms(",
    lambda: verification.check_proof("p.json", RESULT): "expected a proof, got str: fgsv.verification.Proof.load(",
    lambda: verification.verify_data("x", "run.db", ROWS): "expected a result, got str",
    lambda: verification.withdrawn_players("x", "run.db", ROWS, ROWS): "expected a result, got str",
    lambda: audit.audit_table("x", VALUED): "expected a table or texts, got str",
    lambda: pipeline.check_folder(3, force=False): "a folder must be given as a path, got int",
    lambda: VALUED.save(3): "a saved valuation must be given as a path, got int",
    lambda: summary("run.db"): "expected an open ledger, got str",
    lambda: plots.attack(VALUED): "expected the table of fgsv.audit.shell_companies, got Valuation",
    lambda: plots.prudence(GAME): "expected a diagnosis, got Game: fgsv.diagnose makes one",
    lambda: fgsv.value(fgsv.open_text(TEXTS, group="provider")): "game must be callable, from an (m, n) boolean",
    lambda: fgsv.value(GAME, ledger=True): "ledger must be given as a path, got bool",
    lambda: results.seal_run(TABLE, budget=100).seed(1.0854): "expected a text as public, got float: write the",
    lambda: report.render(VALUED, others={"x": 3}): "expected a valuation, got int",
    # a text is a list of letters, but no list of what is asked for
    lambda: audit.find_passages("text", ["a"]): "texts must be a list of texts, got the text 'text'",
    lambda: audit.shell_companies(GAME, GROUPS, ways="even"): "ways must be a list of kinds of splits, got the text",
    lambda: forget("run.db", "abc"): "players must be a list of names, got the text 'abc'",
    lambda: forget("run.db", providers=[3]): "expected a list of names as providers, got int",
    lambda: merge("all.db", "run.db"): "expected a list of ledgers to merge, got str",
    lambda: known(GAME, "run.db"): "expected a list of ledgers, got str",
    # of the right type, and no such thing
    lambda: fgsv.theorem3(**THEOREM | {"s0": 0}): "s0 must be at least 1, got 0",
    lambda: fgsv.theorem3(**THEOREM | {"delta": 1}): "theorem3 needs 0 < delta < 1 and s0 <= n, got delta=1, s0=2",
    lambda: fgsv.theorem3(**THEOREM | {"m1_constant": -1}): "m1_constant must be a positive number, got -1",
    lambda: fgsv.theorem3(**THEOREM | {"epsilon": 1e-200}): "epsilon=1e-200 would take more evaluations than a",
    lambda: payout.round_to([1, 2], Decimal("3.005"), Decimal("0.01")): "whole must be a multiple of unit, which is",
    lambda: payout.round_to("x", Decimal(3), Decimal("0.01")): "ideal must be a list of numbers, such as fractions",
    lambda: audit.find_copies([1.0, 2.0], [0, 1], ["a", "b"]): "X must have two dimensions, rows and columns, got",
    lambda: audit.find_copies([["x"], ["y"]], [0, 1], ["a", "b"]): "X must be an (n, p) array of numbers",
    lambda: audit.find_copies([[1], [2]], [1], ["a", "b"]): "y must have a target for each of the 2 rows, got shape",
    lambda: audit.find_copies([[1], [2]], [0, 1], ["a", "b"], tolerance=-1): "tolerance must be a number of standard",
    lambda: audit.shell_companies(GAME, GROUPS, classes=[0, 1]): "classes must have an entry for each of the 6",
    lambda: audit.shell_companies(GAME, GROUPS, player_values=[0]): "player_values must have an entry for each of",
    lambda: audit.policy_gains(VALUED, 100, groups=[2]): "groups must be positions of groups, from 0 to 1, got [2]",
    lambda: audit.policy_gains(VALUED, 100, parts=[1]): "parts must be numbers of companies, 2 or more, such as [2,",
    lambda: results.sensitivity(RESULT, RESULT, labels=["a", "b"]): "labels must have a name for each further result",
    lambda: pipeline.write_payout("p.xlsx", PAID): "p.xlsx must end in .csv or .json",
    lambda: fgsv.open_table(
        ROWS, target="y", group="provider", shared_units="own"
    ): "shared_units must be co-own or spl",
    lambda: fgsv.open_table(ROWS, target="y", group="provider", model=LogisticRegression): "model must be a name",
    lambda: fgsv.utility(LogisticRegression(), **FITTED, min_size=1_000): "min_size must be at most the number of",
    lambda: fgsv.utility(LogisticRegression(), **FITTED, min_size=2, null=lambda *_: 3): "the null sampler must retu",
    lambda: fgsv.utility(LogisticRegression(), **FITTED | {"X": [[1], [1, 2]]}): "X must have as many columns in",
    lambda: fgsv.utility(LogisticRegression(), **FITTED | {"y": [[1], [1, 2]]}): "y must have one dimension",
    lambda: games.Glove(0, 0): "a game of gloves needs at least one player",
    lambda: fgsv.value(GAME, confidence=10**400): "confidence must be between 0 and 1, such as 0.95",
    lambda: fgsv.value(GAME, max_seconds=np.zeros((2, 2))): "max_seconds must be a positive number",
}


@pytest.mark.parametrize(("call", "words"), EXPECTED.items(), ids=EXPECTED.values())
def test_the_words_of_an_error(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, WrongLedger)) as error:
        call()
    assert str(error.value).startswith(words)
    assert not list(tmp_path.iterdir())


def test_amounts_may_be_an_array():
    both = fgsv.Game(lambda masks: np.stack([masks.sum(axis=1), masks[:, 0]], axis=1), 2, outputs=("u", "v"))
    paid = payout.split(fgsv.exact(both), np.array([100, 50]))
    assert paid.payments == (100, 50)
