"""Many players and quick games: means by size, and what each player adds."""

import numpy as np
import pytest

import fgsv
from fgsv.games import SumOfUnanimity


@pytest.mark.parametrize("learn", ["players", "sizes"])
@pytest.mark.parametrize("n", [16, 60])
def test_values_are_unbiased_and_their_errors_right(learn, n):
    game = SumOfUnanimity(n, seed=2)
    groups = np.arange(n) % 4
    truth = np.bincount(groups, game.shapley)
    runs = [fgsv.value(game, groups, budget=500, seed=seed, learn=learn) for seed in range(60)]
    away = np.array([run.values - truth for run in runs])
    z = away.mean(axis=0) / (away.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    stated = np.sqrt(np.mean([run.stderr**2 for run in runs]))
    assert 0.8 < np.sqrt((away**2).mean()) / stated < 1.25
    held = np.mean([np.abs(each) <= run.half_width() for each, run in zip(away, runs, strict=True)])
    assert 0.9 < held <= 1


def test_what_each_player_adds_is_learned():
    """A sum over players, and noise: what remains after the regression is the noise."""
    rng = np.random.default_rng(0)
    worth = rng.normal(size=600)

    def game(masks):
        return masks @ worth + np.sin(1e3 * (masks @ rng.standard_normal(600)))

    rng = np.random.default_rng(1)
    errors = {}
    for learn in ("players", "sizes"):
        values = fgsv.value(fgsv.Game(game, 600), budget=4000, learn=learn).values
        errors[learn] = np.sqrt(np.mean((values - worth) ** 2))
    assert errors["players"] < 0.7 * errors["sizes"]


@pytest.mark.parametrize("semivalue", ["banzhaf", "beta(2, 1)"])
def test_semivalues(semivalue):
    game = fgsv.Game(SumOfUnanimity(12).__call__, 12)
    truth = fgsv.exact(game, semivalue=semivalue).values
    values = [fgsv.value(game, budget=1000, seed=s, semivalue=semivalue, learn="players") for s in range(6)]
    z = np.array([(run.values - truth) / run.stderr for run in values])
    assert 0.6 < np.sqrt((z**2).mean()) < 1.4


def test_a_million_players():
    """Sums of lists: an (m, n) array of booleans is never made at once."""
    n = 200_000

    class Lists:
        n_players = n

        def __call__(self, masks):
            raise AssertionError("asked for booleans")

        def evaluate_lists(self, coalitions):
            return np.log1p(coalitions.sizes)

    result = fgsv.value(Lists(), np.arange(n) % 4, budget=200)
    assert result.values.sum() == pytest.approx(np.log1p(n), rel=1e-9)
    assert (np.abs(result.values - np.log1p(n) / 4) < 5 * result.stderr + 1e-6).all()
    assert len(result.deviations) <= 64


def test_several_outputs_are_as_many_games():
    one, two = SumOfUnanimity(30, seed=0), SumOfUnanimity(30, seed=1)
    both = fgsv.Game(lambda masks: np.stack([one(masks), two(masks)], axis=1), 30)
    result = fgsv.value(both, budget=2000, learn="players")
    for output, game in enumerate((one, two)):
        z = (result.values[:, output] - game.shapley) / result.stderr[:, output]
        assert 0.6 < np.sqrt((z**2).mean()) < 1.5
