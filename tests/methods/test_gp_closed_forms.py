"""The closed forms of the default method, against sums over all coalitions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fgsv.methods.enumeration import semivalues
from fgsv.methods.gp.choice import candidates, choose, posterior
from fgsv.methods.gp.fitting import cost, prior
from fgsv.methods.gp.kernel import COMMON, NUGGET, Kernel
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.smoother import coefficients, exact, precision, sparse
from fgsv.methods.gp.trend import Saturating, saturating, trust
from fgsv.methods.target import Target
from fgsv.semivalue import SHAPLEY, Banzhaf, Beta

N = 6
SEMIVALUES = [SHAPLEY, Banzhaf(), Beta(4.0, 1.0)]


def every(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def kernel_of(semivalue=SHAPLEY, n=N, left=0, seed=0):
    """Return a kernel with parameters drawn about their prior means."""
    rng = np.random.default_rng(seed)
    return Kernel(Target(n, semivalue), prior(n + left)[0] + 0.3 * rng.standard_normal(COMMON + n + left))


def some_of(n, count, seed=1):
    masks = every(n)[1:-1]
    return masks[np.random.default_rng(seed).choice(len(masks), count, replace=False)]


def weights_of(target):
    """Return (2^n, n): how much each coalition counts for each player, the ends included."""
    return np.stack([semivalues(row[:, None], target.semivalue)[:, 0] for row in np.eye(2**target.n)])


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=str)
def test_coefficients_are_those_of_the_semivalue(semivalue):
    target = Target(N, semivalue)
    found = target.coefficients(every(N))
    np.testing.assert_allclose(found[1:-1], weights_of(target)[1:-1], atol=1e-12)


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=str)
def test_player_values_of_the_kernel_are_sums_over_all_coalitions(semivalue, left):
    kernel = kernel_of(semivalue, left=left)
    some = some_of(N + left, 12)
    present = np.pad(every(N), ((0, 0), (0, left)))
    expected = kernel(some, present) @ kernel.target.coefficients(every(N))
    np.testing.assert_allclose(kernel.player_values(some), expected, atol=1e-12)


def test_the_gradient_of_the_likelihood_is_its_derivative():
    kernel, some = kernel_of(), some_of(N, 14)
    values = np.random.default_rng(2).standard_normal((14, 2))
    theta, step = kernel.theta, 1e-5
    _, gradient = cost(theta, kernel.target, some, values)
    numeric = [
        (
            cost(theta + step * e, kernel.target, some, values)[0]
            - cost(theta - step * e, kernel.target, some, values)[0]
        )
        / (2 * step)
        for e in np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=str)
def test_predictions_are_sums_over_coalitions_with_known_utilities_in_their_place(semivalue):
    kernel, some = kernel_of(semivalue), some_of(N, 14)
    values = np.random.default_rng(3).standard_normal((14, 2))
    found = exact(kernel, some, values)
    predicted = kernel(every(N), some) @ precision(kernel, some) @ values
    predicted[some @ (1 << np.arange(N))] = values
    np.testing.assert_allclose(found.prediction, kernel.target.coefficients(every(N)).T @ predicted, atol=1e-10)
    np.testing.assert_allclose(found.influences.T @ values, found.prediction, atol=1e-10)


def test_leaving_one_out_moves_predictions_by_influence_times_residual():
    kernel, some = kernel_of(), some_of(N, 14)
    values = np.random.default_rng(4).standard_normal((14, 1))
    found = exact(kernel, some, values)
    for j in range(14):
        others = np.arange(14) != j
        without = exact(kernel, some[others], values[others])
        moved = found.prediction - without.prediction
        np.testing.assert_allclose(moved[:, 0], found.influences[j] * found.residuals[j], atol=1e-10)


def test_a_basis_of_all_evaluations_interpolates_them():
    kernel, some = kernel_of(), some_of(N, 14)
    values = np.random.default_rng(4).standard_normal((14, 1))
    found, expected = sparse(kernel, some, values, 14), exact(kernel, some, values)
    for name in ("prediction", "residuals", "influences"):  # the basis has a millionth of its variance besides
        right = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), right, atol=2e-3 * np.abs(right).max())


def test_predictions_from_a_basis_are_linear_in_the_utilities(monkeypatch):
    kernel, some = kernel_of(), some_of(N, 40)
    values = np.random.default_rng(5).standard_normal((40, 1))
    monkeypatch.setattr("fgsv.methods.gp.smoother.LEARNED", 25)
    found = sparse(kernel, some, values, 10)
    np.testing.assert_allclose(found.influences.T @ values, found.prediction, atol=1e-8)


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=str)
def test_the_posterior_covariance_is_that_of_the_sum_over_unknown_coalitions(semivalue):
    kernel, some = kernel_of(semivalue), some_of(N, 14)
    target, inner = kernel.target, every(N)[1:-1]
    influences = exact(kernel, some, np.zeros((14, 1))).influences
    is_free = ~(inner[:, None] == some).all(axis=2).any(axis=1)
    unknown = np.bincount(inner[is_free].sum(axis=1), minlength=N + 1).astype(float)
    full = kernel(inner, inner) + np.diag(kernel.own(inner.sum(axis=1)))
    across = kernel(inner, some) + np.where((inner[:, None] == some).all(axis=2), kernel.own(some.sum(axis=1)), 0.0)
    left = full - across @ precision(kernel, some) @ across.T
    weights = target.coefficients(inner)
    everything, stand_for = candidates(target, 2**N, np.random.default_rng(0))
    free = np.isin(everything @ (1 << np.arange(N)), inner[is_free] @ (1 << np.arange(N)))
    found = posterior(kernel, free, everything, stand_for, some, influences, unknown)
    scale = np.abs(weights.T @ left @ weights).max()
    # the utilities' own parts count as if each size were known evenly
    np.testing.assert_allclose(found, weights.T @ left @ weights, atol=0.02 * scale)


def test_what_is_chosen_lowers_the_variance_of_the_values_most():
    kernel, known, inner = kernel_of(), some_of(N, 14), every(N)[1:-1]
    kernel.theta[NUGGET] = 0.0  # what only an evaluation tells counts, too
    weights, full = kernel.target.coefficients(inner), kernel(inner, inner) + np.diag(kernel.own(inner.sum(axis=1)))
    sampler = Sampler(kernel.target)
    sampler.take(np.concatenate([every(N)[[0, -1]], known]))

    def variance(masks):
        rows = np.flatnonzero((inner[:, None] == masks).all(axis=2).any(axis=1))
        across = full[:, rows]
        return np.trace(weights.T @ (full - across @ np.linalg.solve(full[np.ix_(rows, rows)], across.T)) @ weights)

    free = inner[sampler.is_free(inner)]
    for each in choose(kernel, sampler, known, 3, np.random.default_rng(0), np.ones(N + 1)):
        best = min(variance(np.concatenate([known, one[None]])) for one in free)
        known = np.concatenate([known, each[None]])
        assert variance(known) == pytest.approx(best, rel=1e-6)


def test_values_of_a_saturating_trend_are_those_of_its_game():
    trend = Saturating.of(np.array([0.6, 0.5, 0.4, 0.1, 0.0]), 1.0)
    table = trend(every(5))
    assert table[0] == 0
    np.testing.assert_allclose(table[-1], 1.0, rtol=1e-9)
    np.testing.assert_allclose(trend.player_values(), semivalues(table[:, None], SHAPLEY)[:, 0], atol=1e-12)


def test_weights_of_coalitions_with_players_who_have_left_are_zero():
    kernel = kernel_of(left=2)
    some = some_of(N + 2, 30)
    found = coefficients(kernel, some)
    gone = some[:, N:].any(axis=1)
    assert not found[gone].any()
    np.testing.assert_array_equal(found[~gone], kernel.target.coefficients(some[~gone, :N]))


def test_a_trend_is_trusted_by_the_odds_of_larger_coalitions_given_the_others():
    rng = np.random.default_rng(3)
    n = 8
    masks = np.concatenate([np.eye(n + 2, n, k=-1, dtype=bool), rng.random((12, n)) < 0.5])
    masks[n + 1] = True
    sizes = masks.sum(axis=1)
    inner = (sizes > 1) & (sizes < n)
    alone = rng.uniform(0.1, 0.9, n)
    steep = 1 - np.where(masks, 1 - alone, 1.0).prod(axis=1) + 0.1 * rng.standard_normal(len(masks)) * inner
    found = saturating(masks, steep, steep[n + 1])
    rough = np.where(np.arange(COMMON + n) == NUGGET, 1.0, 0.0)  # a large part of its own for each utility
    beside, without = (
        Kernel(Target(n, SHAPLEY), kernel_of(n=n, seed=seed).theta * (1 - rough) + rough) for seed in (1, 2)
    )

    def conditional(kernel, values):
        scale = values.std()
        matrix = scale**2 * (kernel(masks, masks) + np.diag(kernel.own(sizes)))
        by_others = matrix[np.ix_(inner, ~inner)] @ np.linalg.inv(matrix[np.ix_(~inner, ~inner)])
        mean = values.mean() + by_others @ (values[~inner] - values.mean())
        return multivariate_normal(
            mean, matrix[np.ix_(inner, inner)] - by_others @ matrix[np.ix_(~inner, inner)]
        ).logpdf(values[inner])

    rest = steep - found(masks)
    odds = conditional(beside, rest) - conditional(without, steep)
    assert trust(beside, rest, without, steep, masks) == pytest.approx(1 / (1 + np.exp(-odds / 4)), rel=1e-6)
    assert abs(odds) < 20
    few = np.arange(len(masks)) < 2 + 1.5 * n
    assert trust(beside, rest[few], without, steep[few], masks[few]) == 1.0
