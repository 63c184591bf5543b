"""How much a draw counts in an estimate: against what happens to the estimate when its utility moves."""

from dataclasses import dataclass

import numpy as np
import pytest

import fgsv
from fgsv.methods import Covariance, Enumeration
from fgsv.methods.covariance import estimator, opening
from fgsv.methods.enumeration import SampleThenEnumerate
from fgsv.methods.method import Problem, Task
from fgsv.methods.steady import Steady
from fgsv.partition import Partition


def utility(n, seed=0):
    rng = np.random.default_rng(seed)
    weights, pairs = rng.normal(size=n), rng.normal(size=(n, n)) / n

    def game(masks):
        return np.tanh(masks @ weights / np.sqrt(n)) + ((masks @ pairs) * masks).sum(axis=1)

    return game


def estimated(n, budget, partition, *, moved=None, by=0.0, **options):
    """Return the groups' values after so many evaluations, the estimator, and the draws and rounds."""
    game = utility(n)
    ends = game(np.array([[False] * n, [True] * n]))[:, None]
    problem = Problem(Task(n, partition), ends, other_game=lambda proxy: lambda some: proxy(some.masks())[:, None])
    started = Steady(Covariance(**options), problem)
    number, count, last = 0, 2, 2
    while count < budget:
        draws = started.draw(np.random.default_rng([0, number]))
        if draws is None:
            break
        draws = draws.within(budget - count)
        values = game(draws.coalitions.masks())
        if moved is not None and count <= moved < count + len(values):
            values[moved - count] += by
        started.update(draws, values[:, None])
        number, last, count = number + 1, count, count + len(values)
    return partition.sums(started.estimate().values)[:, 0], started, last


CASES = {
    "epochs": (20, 1000, {"opening": False}),
    "nothing learned": (20, 1000, {"surrogate": False}),
    "sizes enumerated": (9, 300, {"opening": False}),
    "the opening": (12, 90, {}),
    "after the opening": (12, 400, {}),
    "every coalition, by the opening": (6, 64, {}),
    "every coalition": (6, 200, {"opening": False}),
}


@pytest.mark.parametrize(("n", "budget", "options"), CASES.values(), ids=CASES)
def test_a_draw_moves_the_estimate_by_its_influence(n, budget, options, monkeypatch):
    """A draw of the last round, after which nothing is learned anew, changes the estimate and little else.

    Only the weight of the opening depends on errors, to which the draw adds: it is fixed here.
    """
    monkeypatch.setattr(opening, "milestone", lambda _: 0)
    monkeypatch.setattr(estimator, "opening_share", lambda *_: np.array([0.4]))
    partition = Partition.of(np.arange(n) % 3)
    values, started, last = estimated(n, budget, partition, **options)
    influence = started.influence(partition)
    for moved in (last, last + 1):
        changed, *_ = estimated(n, budget, partition, moved=moved, by=1e-6, **options)
        found = (changed - values) / 1e-6
        assert np.allclose(found, influence[moved - 2], atol=0.01 * np.abs(influence).max()), moved


class Useless:
    """A proxy that explains nothing, so that its coefficients are zero in every epoch."""

    shapley = np.zeros(12)

    def __call__(self, masks):
        return np.zeros(len(masks))


@pytest.mark.parametrize("options", [{}, {"proxy": Useless()}], ids=["alone", "with a proxy"])
def test_the_opening_is_linear_in_what_it_has_drawn(options):
    """Its estimate, less the line between the ends, is the sum of influences times utilities beyond that line."""
    n, partition = 12, Partition.of(np.arange(12) % 4)
    values, units, _ = estimated(n, 90, partition, **options)
    first = units._estimator._opening
    beyond = first._beyond(first.epochs[-1].beta)[2:, 0]
    total = np.diff(first._ends, axis=0)[0, 0]
    assert np.allclose(first.influence(partition).T @ beyond + total * partition.sizes / n, values, atol=1e-9)


def test_methods_that_do_not_tell_say_nothing():
    ends = np.array([[0.0], [1.0]])
    for method in (Covariance(surrogate=False), fgsv.METHODS["permutation"]()):
        started = Steady(method, Problem(Task(1100, Partition.of(np.arange(1100) % 2)), ends))
        assert started.influence(Partition.of(np.arange(1100) % 2)) is None


def test_a_coalition_that_is_drawn_again_counts_with_all_its_draws():
    n, partition = 9, Partition.of(np.arange(9) % 3)
    game = utility(n)
    ends = game(np.array([[False] * n, [True] * n]))[:, None]
    problem, sampling = Problem(Task(n, partition), ends), Covariance(opening=False)
    once, every = SampleThenEnumerate(sampling.start(problem), 250, problem), sampling.start(problem)
    drawn, evaluated = [], []
    for number in range(3):
        new, draws = once.draw(np.random.default_rng([0, number])), every.draw(np.random.default_rng([0, number]))
        for estimator_, each, seen in ((once, new, evaluated), (every, draws, drawn)):
            seen.append(each.coalitions.masks())
            estimator_.update(each, game(seen[-1])[:, None])
    evaluated, drawn = np.concatenate(evaluated), np.concatenate(drawn)
    assert len(evaluated) == len(np.unique(drawn, axis=0)) < len(drawn)
    np.testing.assert_array_equal(once.estimate().values, every.estimate().values)
    same = (evaluated[:, None] == drawn).all(axis=2).astype(float)
    assert np.allclose(once.influence(partition), same @ every.influence(partition))


@dataclass
class Sampled:
    """Sample 40 coalitions, then enumerate."""

    sampling: Covariance
    anew: bool = False

    def start(self, problem):
        return SampleThenEnumerate(self.sampling.start(problem), 40, problem, self.anew)


METHODS = {
    "enumerate": Enumeration(),
    "sample first": Sampled(Covariance()),
    "with repetitions": Sampled(Covariance(opening=False)),
    "as in 0.1.0": Sampled(Covariance(), anew=True),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_coalition_counts_as_in_the_definition(method):
    n, partition = 6, Partition.of([0, 0, 1, 1, 1, 2])
    game = utility(n)
    ends = game(np.array([[False] * n, [True] * n]))[:, None]
    started = Steady(method, Problem(Task(n, partition), ends))
    values, number = [], 0
    while (draws := started.draw(np.random.default_rng([0, number]))) is not None:
        values.append(game(draws.coalitions.masks()))
        started.update(draws, values[-1][:, None])
        number += 1
    found = started.influence(partition).T @ np.concatenate(values) + (ends[1] - ends[0]) * partition.sizes / n
    assert np.allclose(found, fgsv.exact(fgsv.Game(game, n), partition).values)
