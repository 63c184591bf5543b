"""Parameters of the kernel that are learned from other answers: closer, without bias, and they change no draw."""

import numpy as np
import pytest

import fgsv
from fgsv.methods.gp import GP
from fgsv.methods.gp.fitting import fitted_together
from fgsv.methods.gp.kernel import COMMON

AT_PRIOR = (0.0,) * COMMON


def coverage(seed):
    """Return a game of eight documents: facts that they mention, each mention worth less than the one before."""
    rng = np.random.default_rng([5, seed])
    worth = rng.pareto(0.6, 12)
    mentions = np.stack([rng.multinomial(rng.integers(2, 7), rng.dirichlet(np.full(12, 0.3))) for _ in range(8)])
    return lambda masks: (1 - 0.3 ** (np.asarray(masks, dtype=float) @ mentions)) @ worth


def run(seed, parameters, budget=16):
    """Return the errors of the shares, and what was evaluated."""
    game = coverage(seed)
    asked = []

    def watched(masks):
        asked.append(np.array(masks))
        return game(masks)

    options = {"unbiased": True, "parameters": parameters, "progress": False}
    found = fgsv.value(fgsv.Game(watched, 8), budget=budget, seed=seed, **options)
    masks = np.concatenate(asked)
    exact = fgsv.exact(fgsv.Game(game, 8), progress=False)
    return (found.values - exact.values) / exact.total, found.stderr / exact.total, masks, game(masks)


@pytest.fixture(scope="module")
def learned():
    return fitted_together([run(seed, AT_PRIOR)[2:] for seed in range(40)])


def test_parameters_of_other_answers_make_values_closer_and_not_biased(learned):
    errors = {
        name: np.array([run(seed, parameters)[0] for seed in range(100, 220)])
        for name, parameters in {"prior": AT_PRIOR, "learned": learned}.items()
    }
    root = {name: np.sqrt((each**2).mean()) for name, each in errors.items()}
    assert root["learned"] < 0.85 * root["prior"]
    for each in errors.values():
        assert np.abs(each.mean(axis=0) / each.std(axis=0) * np.sqrt(len(each))).max() < 4


def test_stated_errors_are_right_with_learned_parameters(learned):
    runs = [run(seed, learned)[:2] for seed in range(100, 220)]
    errors, stated = (np.array(each) for each in zip(*runs, strict=True))
    assert np.sqrt((stated**2).mean()) == pytest.approx(np.sqrt((errors**2).mean()), rel=0.2)


def test_what_is_evaluated_does_not_depend_on_parameters(learned):
    for budget in (16, 47, 90):
        first, second = (run(1, parameters, budget)[2] for parameters in (AT_PRIOR, learned))
        assert np.array_equal(first, second)


def test_parameters_of_no_run_are_those_of_the_prior():
    constant = np.vstack([np.zeros(4), np.ones(4), np.eye(4)]).astype(bool)
    assert fitted_together([]) == AT_PRIOR
    assert fitted_together([(constant, constant.sum(axis=1) / 4)]) == AT_PRIOR


@pytest.mark.parametrize("given", [(1.0, 2.0), [np.nan] * COMMON, 3.0])
def test_wrong_parameters_are_an_error(given):
    with pytest.raises(ValueError, match=f"parameters must be {COMMON} finite numbers"):
        GP(parameters=given)
