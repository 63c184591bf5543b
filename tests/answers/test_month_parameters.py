"""Parameters of the kernel that are learned from other answers: closer, without bias, and they change no draw."""

import numpy as np
import pytest

import fgsv
from benchmarks.answers import coverage
from fgsv.methods.gp import GP
from fgsv.methods.gp.fitting import fitted_together
from fgsv.methods.gp.kernel import COMMON

AT_PRIOR = (0.0,) * COMMON


def run(seed, parameters, budget=16):
    """Return the errors of the shares of eight documents, the stated ones, and what was evaluated."""
    game = coverage(8, seed)
    asked = []
    watched = fgsv.Game(lambda masks: asked.append(np.array(masks)) or game(masks), 8)
    options = {"unbiased": True, "parameters": parameters, "progress": False}
    found = fgsv.value(watched, budget=budget, seed=seed, **options)
    masks = np.concatenate(asked)
    return found.values - game.shapley(), found.stderr, masks, game(masks)


@pytest.fixture(scope="module")
def runs():
    """Return errors and stated errors (runs, documents) at the prior, and with parameters of other answers."""
    learned = fitted_together([run(seed, AT_PRIOR)[2:] for seed in range(40)])
    found = {}
    for name, parameters in {"prior": AT_PRIOR, "learned": learned}.items():
        found[name] = np.array([run(seed, parameters)[:2] for seed in range(100, 220)]).swapaxes(0, 1)
    return found


def test_parameters_of_other_answers_make_values_closer_and_not_biased(runs):
    root = {name: np.sqrt((errors**2).mean()) for name, (errors, _) in runs.items()}
    assert root["learned"] < 0.85 * root["prior"]
    for errors, _ in runs.values():
        assert np.abs(errors.mean(axis=0) / errors.std(axis=0) * np.sqrt(len(errors))).max() < 4


def test_stated_errors_are_right_with_learned_parameters(runs):
    errors, stated = runs["learned"]
    assert np.sqrt((stated**2).mean()) == pytest.approx(np.sqrt((errors**2).mean()), rel=0.2)


@pytest.mark.parametrize("budget", [16, 47, 90])
def test_what_is_evaluated_does_not_depend_on_parameters(budget):
    first, second = (run(1, parameters, budget)[2] for parameters in (AT_PRIOR, (0.5,) * COMMON))
    assert np.array_equal(first, second)


def test_parameters_of_no_run_are_those_of_the_prior():
    constant = np.vstack([np.zeros(4), np.ones(4), np.eye(4)]).astype(bool)
    assert fitted_together([]) == AT_PRIOR
    assert fitted_together([(constant, constant.sum(axis=1) / 4)]) == AT_PRIOR


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"parameters": (1.0, 2.0)}, f"parameters must be {COMMON} finite numbers"),
        ({"parameters": [np.nan] * COMMON}, f"parameters must be {COMMON} finite numbers"),
        ({"parameters": 3.0}, f"parameters must be {COMMON} finite numbers"),
        ({"parameters": AT_PRIOR, "learn": "players"}, "need learn='kernel', or none; got 'players'"),
        ({"singles_first": True, "learn": "sizes"}, "need learn='kernel', or none; got 'sizes'"),
    ],
)
def test_parameters_that_are_wrong_or_would_be_ignored_are_an_error(given, error):
    with pytest.raises(ValueError, match=error):
        GP(**given)
