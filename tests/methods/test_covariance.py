"""The default method: unbiased, honest about its error, blind to the partition."""

import numpy as np
import pytest
from oracles import GAMES

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.methods.covariance import epochs

pytestmark = pytest.mark.slow


def noise(n, seed=0):
    """Return a game without any structure: every coalition has its own random number."""
    table = np.random.default_rng(seed).normal(size=2**n)
    return fgsv.Game(lambda masks: table[masks @ (1 << np.arange(n))], n)


SAMPLED = {
    "airport": Airport(np.linspace(1, 3, 16) ** 3),
    "unanimity": SumOfUnanimity(16, seed=3),
    "noise": noise(14),
}


@pytest.mark.parametrize("surrogate", [True, False])
@pytest.mark.parametrize("game", SAMPLED.values(), ids=SAMPLED.keys())
def test_unbiased_with_honest_intervals(game, surrogate):
    """Over 32 runs: mean errors within what chance allows, 95% intervals that hold the truth in 88.5 to 99.5%."""
    n = game.n_players
    truth = game.shapley if hasattr(game, "shapley") else fgsv.exact(game).values
    labels = np.arange(n) % 4
    true_groups = np.bincount(labels, truth)
    runs = [fgsv.value(game, labels, budget=258, seed=seed, surrogate=surrogate, opening=False) for seed in range(32)]
    errors = np.array([run.player_values - truth for run in runs])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4.2
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / (n - 1))
    covered = [(np.abs(run.values - true_groups) <= run.half_width(0.95)).mean() for run in runs]
    assert 0.885 <= np.mean(covered) <= 0.995


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_it_converges_on_every_closed_form(game):
    result = fgsv.value(game, budget=200, seed=1)  # fewer than 2^10
    assert result.method == "covariance"
    assert (np.abs(result.values - game.shapley) <= 5 * result.stderr + 1e-9).all()


def test_the_surrogate_pays():
    """On a game of low order the learned surrogate leaves a small part of the error."""
    game = SumOfUnanimity(48, seed=1)
    labels = np.arange(48) % 4
    plain = fgsv.value(game, labels, budget=4000, surrogate=False)
    learned = fgsv.value(game, labels, budget=4000, opening=False)
    assert learned.stderr.mean() < 0.6 * plain.stderr.mean()


@pytest.mark.parametrize("semivalue", ["banzhaf", "beta(4, 1)", "beta(1, 3)"])
@pytest.mark.parametrize("surrogate", [True, False])
def test_semivalues_against_enumeration(semivalue, surrogate):
    game = fgsv.Game(lambda masks: np.sqrt(masks @ np.arange(1.0, 13)) + masks[:, 0] * masks[:, 5], 12)
    truth = fgsv.exact(game, semivalue=semivalue).values
    options = {"semivalue": semivalue, "surrogate": surrogate, "opening": False}
    runs = [fgsv.value(game, budget=300, seed=seed, **options).values for seed in range(16)]
    z = (np.mean(runs, axis=0) - truth) / (np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    assert np.std(runs, axis=0).max() < 0.5


def test_only_shapley_values_add_up():
    game = SAMPLED["unanimity"]
    for semivalue, adds_up in (("shapley", True), ("banzhaf", False)):
        result = fgsv.value(game, semivalue=semivalue, budget=100)
        assert (abs(result.values.sum() - result.total) < 1e-9 * result.total) == adds_up


def test_nothing_looks_at_the_partition():
    """Two runs with different groups ask for the same coalitions and have the same player values."""
    asked = []

    def game(masks):
        asked.append(np.packbits(masks, axis=1).tobytes())
        return np.sqrt(masks.sum(axis=1))

    one = fgsv.value(game, np.arange(30) % 2, budget=200)
    first, asked = asked, []
    two = fgsv.value(game, np.arange(30), budget=200)
    assert first == asked
    np.testing.assert_array_equal(one.player_values, two.player_values)


def test_sizes_worth_it_are_enumerated():
    """The ends of a small game become exact: each of their coalitions is asked for once as a round of its own."""
    seen = []

    def game(masks):
        seen.append(masks.sum(axis=1))
        return masks @ np.linspace(0, 1, 20)

    fgsv.value(game, np.arange(20) % 2, budget=2000, batch_size=100_000, opening=False)
    rounds = [sizes for sizes in seen if len(set(sizes.tolist())) <= 4 and len(sizes) % 20 == 0]
    assert any(set(sizes.tolist()) & {1, 19} for sizes in rounds)


def test_large_rounds_are_not_forgotten():
    """Epochs are counted in draws: with large rounds the estimate rests on as many draws as with small ones."""
    game = noise(16)
    small = fgsv.value(game, budget=1100, surrogate=False)
    large = fgsv.value(game, budget=1100, surrogate=False, round_size=256)
    assert large.stderr.mean() < 1.25 * small.stderr.mean()


def test_many_outputs_share_the_draws():
    game = SumOfUnanimity(20)
    both = fgsv.value(
        fgsv.Game(lambda masks: np.stack([game(masks), masks.sum(axis=1) ** 1.5], axis=1), 20, outputs=("u", "size")),
        np.arange(20) % 2,
        budget=3000,
        opening=False,
    )
    truth = np.bincount(np.arange(20) % 2, game.shapley)
    assert (np.abs(both.values[:, 0] - truth) < 5 * both.stderr[:, 0]).all()
    np.testing.assert_allclose(both.values[:, 1], 20**1.5 / 2, atol=1e-2)


def test_a_cost_moves_draws_to_cheap_sizes():
    sizes = []

    def game(masks):
        sizes.append(masks.sum(axis=1))
        return np.sqrt(masks.sum(axis=1)) + masks[:, 0]

    fgsv.value(game, np.arange(40) % 2, budget=3000, surrogate=False)
    blind, sizes = np.concatenate(sizes).mean(), []
    fgsv.value(game, np.arange(40) % 2, budget=3000, surrogate=False, cost=lambda s: s**3.0)
    assert np.concatenate(sizes).mean() < 0.6 * blind


@pytest.mark.parametrize("budget", [34, 38, 54, 130, 174])
def test_a_young_epoch_does_not_hide_the_error_of_the_one_before(budget):
    result = fgsv.value(SumOfUnanimity(20), budget=budget, round_size=4, opening=False)
    assert np.isfinite(result.stderr).all()


@pytest.mark.parametrize("n", [5, 11, 46, 130])
def test_every_evaluation_of_a_cheap_game_is_used(n):
    game = fgsv.Game(lambda masks: np.sqrt(masks @ np.linspace(0.2, 1.7, n)), n, seconds=1e-6)
    for budget in (16, 33, 61, 150):
        if budget < 2**n:
            result = fgsv.value(game, budget=budget)
            assert result.n_evaluations == budget
            assert np.isfinite(result.stderr).all()


def test_a_small_difference_of_large_ends_is_kept():
    result = fgsv.value(fgsv.Game(lambda masks: 1e9 + 1e-3 * masks.sum(axis=1) ** 2, 20), budget=500)
    assert result.player_values.sum() == pytest.approx(float(result.total), rel=1e-12)


def test_a_million_players():
    """Sums of lists, no booleans: the estimator never makes an (m, n) array."""
    n = 200_000

    class Lists:
        n_players = n

        def __call__(self, masks):
            raise AssertionError("asked for booleans")

        def evaluate_lists(self, coalitions):
            return np.log1p(coalitions.sizes)

    result = fgsv.value(Lists(), np.arange(n) % 4, budget=300)
    assert result.values.sum() == pytest.approx(np.log1p(n), rel=1e-9)
    assert (np.abs(result.values - np.log1p(n) / 4) < 5 * result.stderr + 1e-9).all()
    assert len(result.deviations) == epochs.PARTS


@pytest.mark.parametrize("n", [3, 4, 20])
def test_errors_are_honest_from_the_first_round(n):
    """Replicates that got nothing do not count as replicates without error."""
    game = noise(n)
    truth = fgsv.exact(game).values if n < 20 else None
    for round_size in (4, 8, 32):
        budget = min(2 + round_size, 2**n - 1)
        if budget < 2 + round_size:
            continue
        options = {"budget": budget, "round_size": round_size, "opening": False}
        runs = [fgsv.value(game, seed=seed, **options) for seed in range(50)]
        stderrs = np.array([run.stderr for run in runs])
        assert not (stderrs == 0).any()
        if truth is not None and np.isfinite(stderrs).all():
            errors = np.array([run.values for run in runs]) - truth
            assert np.sqrt((errors**2).mean()) < 1.5 * np.sqrt((stderrs**2).mean())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_estimate_that_is_not_finite_is_an_error():
    game = fgsv.Game(lambda masks: 1e308 * np.where(masks[:, 0], 1.0, -1.0), 20)
    with pytest.raises(FloatingPointError, match="the estimate is not finite"):
        fgsv.value(game, budget=200, surrogate=False)


def test_a_cost_must_be_positive():
    for cost in (lambda sizes: 0 * sizes, lambda sizes: np.where(sizes == 3, np.nan, 1.0)):
        with pytest.raises(ValueError, match="cost must give a positive number"):
            fgsv.value(SumOfUnanimity(20), cost=cost)


def test_what_is_enumerated_does_not_depend_on_the_draws_it_is_weighed_against():
    """A rare large value, if drawn, makes its size worth to be enumerated, and must not count more by that."""
    n, budget = 12, 250
    noise = np.random.default_rng(0).normal(scale=0.02, size=2**n)

    def game(masks):
        index = masks @ (1 << np.arange(n))
        return noise[index] + (index == 3)

    truth = fgsv.exact(fgsv.Game(game, n)).values
    runs = np.array(
        [fgsv.value(fgsv.Game(game, n), budget=budget, seed=seed, surrogate=False).values for seed in range(160)]
    )
    error = (runs - truth)[:, :2].mean(axis=1)
    assert abs(error.mean()) < 3.5 * error.std() / np.sqrt(len(error))
