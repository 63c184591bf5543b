"""A method decides by its task: what to learn, when to enumerate, how few evaluations will do."""

import numpy as np
import pytest

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.methods import GP, Enumeration, Task, for_task
from fgsv.methods.gp.gp import CHEAP, QUICK


def task(n, **facts):
    return Task(n, fgsv.Partition.of(np.arange(n)), **facts)


@pytest.mark.parametrize("method", fgsv.METHODS)
@pytest.mark.parametrize("budget", [100, 2**9])
@pytest.mark.parametrize("seconds", [None, CHEAP / 2, QUICK / 2])
def test_what_was_chosen_for_a_task_is_chosen_again(method, budget, seconds):
    """So the settings that a run records repeat it, where the time of an evaluation is no longer known."""
    chosen = for_task(fgsv.METHODS[method](), task(9, budget=budget, seconds=seconds))
    assert for_task(chosen, task(9, budget=budget)) == chosen
    assert isinstance(chosen, Enumeration) is (method == "gp" and budget == 2**9)


def test_only_a_budget_for_every_coalition_leads_to_an_enumeration():
    method = GP()
    assert isinstance(method.for_task(task(10, budget=2**10)), Enumeration)
    assert not isinstance(method.for_task(task(10, budget=2**10 - 1)), Enumeration)
    assert not isinstance(method.for_task(task(40, budget=2**40)), Enumeration)
    assert not isinstance(method.for_task(task(10, budget=2**12, may_stop_early=True)), Enumeration)


@pytest.mark.parametrize(("n_known", "least"), [(0, 8), (3, 5), (7, 3), (1000, 3)])
def test_a_run_that_knows_much_needs_few_new_evaluations(n_known, least):
    assert GP().least(task(20, n_known=n_known)) == least
    assert GP(unbiased=True).least(task(20, n_known=n_known)) == 22


def test_a_run_that_enumerates_is_recorded_and_repeated_as_one(tmp_path):
    game = fgsv.Game(SumOfUnanimity(8), 8, fingerprint="eight", seconds=1e-6)
    result = fgsv.value(game, budget=300, ledger=tmp_path / "run.db")
    assert (result.settings.method, result.settings.options, result.exact) == ("exact", {}, True)
    assert fgsv.verify(result, tmp_path / "run.db") == []
