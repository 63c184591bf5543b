"""Verification follows the laws that were recorded, and says where they cannot be those of the run."""

import os
import subprocess
import sys

import numpy as np
import pytest

import fgsv
from fgsv.evaluation.recording import laws_of_draws
from fgsv.files import encode
from fgsv.games import SumOfUnanimity
from fgsv.ledger import Ledger
from fgsv.methods.gp import fits
from fgsv.methods.gp.kernel import Kernel

GAME = fgsv.Game(SumOfUnanimity(12), 12, fingerprint="sum of unanimity")


def run(ledger):
    return fgsv.value(GAME, np.arange(12) % 3, budget=150, ledger=ledger, progress=False)


def alter(monkeypatch, change):
    """Let all parameters be found a little differently, as by another processor."""
    fitted = fits.fitted

    def differently(kernel, *data):
        found = fitted(kernel, *data)
        return found if found is kernel else Kernel(found.target, found.theta + change)

    monkeypatch.setattr(fits, "fitted", differently)


def test_a_processor_that_rounds_differently_follows_the_recorded_laws(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 1e-9)
    other = fgsv.value(GAME, np.arange(12) % 3, budget=150, progress=False)
    assert not np.array_equal(other.values, stated.values)
    assert fgsv.verify(stated, path) == []


def test_a_law_that_the_utilities_do_not_lead_to_is_a_difference(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 0.5)
    [difference] = fgsv.verify(stated, path)
    assert difference.where == "law of the draws"


def test_a_resumed_run_follows_the_laws_of_the_first(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 1e-9)
    again = run(path)
    np.testing.assert_allclose(again.values, stated.values, rtol=1e-6)
    with Ledger(path, read_only=True) as ledger:
        laws = [ledger.laws(each.id) for each in ledger.runs()]
    assert laws[0] == laws[1]


@pytest.mark.parametrize("n", [12, 80])
def test_recorded_parameters_are_those_that_the_run_used(tmp_path, n):
    game = fgsv.Game(SumOfUnanimity(n), n, fingerprint="sum")
    fgsv.value(game, budget=200, ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        [laws] = [ledger.laws(each.id) for each in ledger.runs()]
    parameters = [law["parameters"] for law in laws.values()]
    assert len(parameters) > 5
    assert all(np.isfinite(each).all() for each in parameters)
    assert any(law["chosen"] for law in laws.values()) is (n <= 64)


@pytest.mark.parametrize(("n", "budget"), [(20, 300), (90, 300)])
def test_another_processor_verifies_what_was_learned(tmp_path, n, budget):
    """Other instructions for products of matrices round differently, and learning amplifies that."""
    code = (
        "import sys, numpy as np, fgsv\n"
        f"game = fgsv.Game(fgsv.games.SumOfUnanimity({n}), {n}, fingerprint='sum')\n"
        "if sys.argv[1] == 'make':\n"
        f"    found = fgsv.value(game, np.arange({n}) % 4, budget={budget}, ledger='run.db').save('run.json')\n"
        "else:\n"
        "    found = fgsv.verify(fgsv.load('run.json'), 'run.db')\n"
        "    print(len(found), found.to_the_bit)\n"
    )
    printed = []
    for processor, what in (("", "make"), ("", "verify"), ("Prescott", "verify")):
        environment = {**os.environ, "OPENBLAS_CORETYPE": processor}
        command = [sys.executable, "-c", code, what]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        printed.append(done.stdout.strip())
    assert printed[1] == "0 True"
    assert printed[2] in ("0 False", "0 True")  # if there is no such choice of instructions


def test_laws_are_those_of_the_same_game_drawn_in_the_same_way(tmp_path):
    """Not those of another run in the ledger that merely has the same seed."""
    games = [fgsv.Game(SumOfUnanimity(20, seed=each), 20, fingerprint=str(each)) for each in (1, 2)]
    other, *found = [fgsv.value(game, budget=128, ledger=tmp_path / "run.db") for game in (*games, games[1])]
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        of_other, own, again = (ledger.laws(run.id) for run in ledger.runs())
        laws = [laws_of_draws(ledger, encode(each.settings)) for each in (other, *found)]
        assert laws == [[of_other], [own, again], [own, again]]
    assert own == again != of_other


WORTH = np.random.default_rng(0).random(24)
ROOTS = fgsv.Game(lambda masks: np.sqrt(masks @ WORTH) + masks[:, 0] * masks[:, 1], 24, fingerprint="roots")
PROXIES = [
    lambda masks: np.sqrt(masks @ WORTH),
    lambda masks: masks @ WORTH**2,
    lambda masks: np.sqrt(masks @ WORTH) * (1 + 1e-5 * masks[:, 0]),  # its laws are nearly those of the first
]


def two_runs(path, first, second):
    """Return two results from one seed with one ledger, the second checked against a run without a ledger."""
    found = [fgsv.value(ROOTS, np.arange(24) % 4, budget=200, ledger=path, **each) for each in (first, second)]
    alone = fgsv.value(ROOTS, np.arange(24) % 4, budget=200, **second)
    np.testing.assert_array_equal(found[1].values, alone.values)
    return found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"proxy": PROXIES[0]}),
        ({"proxy": PROXIES[0]}, {}),
        ({"proxy": PROXIES[0]}, {"proxy": PROXIES[1]}),
        ({"proxy": PROXIES[0]}, {"proxy": PROXIES[2]}),
    ],
    ids=["no proxy before", "a proxy before", "another proxy before", "one like it before"],
)
def test_a_run_with_another_proxy_draws_by_its_own_law(tmp_path, first, second):
    results = two_runs(tmp_path / "run.db", first, second)
    for given, result in zip((first, second), results, strict=True):
        assert not fgsv.verify(result, tmp_path / "run.db", **given)


def test_a_run_in_the_ledger_of_an_earlier_version_draws_by_its_own_law(tmp_path, monkeypatch):
    fgsv.value(ROOTS, budget=200, ledger=tmp_path / "run.db")
    monkeypatch.setattr(fits, "FRESH", 128)  # as a later version may have it
    result, again = two_runs(tmp_path / "run.db", {}, {})
    assert not fgsv.verify(result, tmp_path / "run.db")
    assert not fgsv.verify(again, tmp_path / "run.db")


def test_failures_that_count_otherwise_lead_to_other_laws(tmp_path):
    def fails(masks):
        utilities = np.sqrt(masks @ WORTH)
        utilities[(masks.sum(axis=1) < 8) & masks[:, 0]] = np.nan
        return utilities

    game = fgsv.Game(fails, 24, fingerprint="fails", independent_rows=True)
    results = [fgsv.value(game, budget=200, ledger=tmp_path / "run.db", on_error=each) for each in (0.0, -20.0)]
    assert not any(fgsv.verify(each, tmp_path / "run.db") for each in results)
