"""The statistics of a month: draws, royalties and their errors, against enumeration, closed forms and many draws."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fgsv.answers.month import FEW, Month, estimated

LIMIT = 4.0
"""Standard errors that a mean over many draws may be off."""


def made(n=60, publishers=4, *, seed=0, fees=None, strata=1, queries=None):
    """Return a month, and true shares that tokens say something about."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(20, 200, (n, publishers)) * (rng.random((n, publishers)) < 0.7)
    tokens[tokens.sum(axis=1) == 0, 0] = 50
    shares = tokens * rng.gamma(2.0, size=(n, publishers)) * np.arange(1, publishers + 1)
    shares = shares / shares.sum(axis=1, keepdims=True)
    month = Month(
        np.ones(n) if fees is None else fees,
        sparse.csr_matrix(tokens.astype(float)),
        np.arange(n) % strata,
        np.arange(n) if queries is None else queries,
    )
    return month, shares


def without_tokens(month):
    """Return the month in which tokens say nothing: the estimator is then the plain one."""
    return replace(month, tokens=sparse.csr_matrix(np.ones(month.tokens.shape)))


def drawn(month, n_draws, rng):
    half_of = rng.permutation(len(month.fees)) % 2
    return half_of, [month.draw(np.flatnonzero(half_of == half), n_draws // 2, rng) for half in (0, 1)]


def estimate(month, shares, n_draws, seed, noise=0.0, by_tokens=True):
    """Return the royalties of one sample, from shares with errors of known covariance."""
    if not by_tokens:
        month = without_tokens(month)
    rng = np.random.default_rng([3, seed])
    half_of, draws = drawn(month, n_draws, rng)
    k = shares.shape[1]
    apart = np.eye(k) - 1 / k
    valued = shares + noise * rng.standard_normal(shares.shape) @ apart
    own = [valued[each.answers] for each in draws]
    errors = [[(np.arange(k), noise**2 * apart)] * len(each.answers) for each in draws]
    return estimated(month, half_of, draws, own, errors)


UNEQUAL = np.random.default_rng(1).pareto(1.5, 60) + 0.2
REPEATED = np.minimum(np.arange(60) // 3, 12)
CASES = {
    "equal fees": {},
    "unequal fees": {"fees": UNEQUAL},
    "strata": {"fees": UNEQUAL, "strata": 3},
    "repeated queries": {"fees": UNEQUAL, "queries": REPEATED},
}


@pytest.mark.parametrize("case", CASES)
def test_answers_are_drawn_in_proportion_to_their_fees(case):
    month, _ = made(**CASES[case])
    found = []
    for seed in range(1500):
        _, draws = drawn(month, 24, np.random.default_rng(seed))
        found.append(sum(np.bincount(each.answers, each.steps, len(month.fees)) for each in draws))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert np.max(np.abs(mean - month.fees) / np.maximum(error, 1e-9)) < LIMIT


@pytest.mark.parametrize("by_tokens", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_royalties_are_unbiased_and_their_errors_are_right(case, by_tokens):
    month, shares = made(**CASES[case])
    truth = month.fees @ shares
    runs = [estimate(month, shares, 32, seed, noise=0.1, by_tokens=by_tokens) for seed in range(500)]
    values = np.array([run.values for run in runs])
    deviation = values.std(axis=0)
    assert np.max(np.abs(values.mean(axis=0) - truth) / deviation) * np.sqrt(len(runs)) < LIMIT
    stated = np.mean([run.covariance for run in runs], axis=0)
    ratio = np.sqrt(np.diag(stated)) / deviation
    assert np.abs(ratio - 1).max() < LIMIT / np.sqrt(2 * len(runs))
    off = np.cov(values.T)[0, 1:] / np.outer(deviation[:1], deviation[1:])[0]
    assert np.allclose(stated[0, 1:] / np.sqrt(stated[0, 0] * np.diag(stated)[1:]), off, atol=0.12)


def test_the_variance_of_equal_fees_is_that_of_a_simple_random_sample():
    month, shares = made(40)
    rng = np.random.default_rng(5)
    half_of, draws = drawn(month, 20, rng)
    own = [shares[each.answers] for each in draws]
    nothing = [(np.arange(4), np.zeros((4, 4)))] * 10
    found = estimated(without_tokens(month), half_of, draws, own, [nothing, nothing])
    sizes = np.bincount(half_of)
    expected = sum(sizes[half] ** 2 * (1 - 10 / sizes[half]) / 10 * np.cov(own[half].T, ddof=1) for half in (0, 1))
    assert np.allclose(found.covariance, expected)
    assert np.allclose(found.values, sum(sizes[half] * own[half].mean(axis=0) for half in (0, 1)))


def test_errors_of_evaluations_add_to_those_of_the_sample():
    """All answers are drawn: nothing is left but the errors of their values, with fees squared."""
    month, shares = made(30, fees=UNEQUAL[:30])
    found = estimate(month, shares, 60, 0, noise=0.2)
    k = shares.shape[1]
    expected = 0.04 * (UNEQUAL[:30] ** 2).sum() * (np.eye(k) - 1 / k)
    assert np.allclose(found.covariance, expected)
    assert np.allclose(found.within, np.diag(expected))
    exact = estimate(month, shares, 60, 0)
    assert np.allclose(exact.values, month.fees @ shares)
    assert np.allclose(exact.stderr, 0.0)


@pytest.mark.parametrize("every", [None, 4], ids=["all have something to share", "a fourth has nothing"])
def test_what_is_paid_in_all_is_right_on_average_and_exact_if_every_answer_shares(every):
    month, shares = made(**CASES["strata"])
    if every:
        shares[::every] = 0.0
    off = (
        np.array([estimate(month, shares, 32, seed).values.sum() for seed in range(300)])
        - (month.fees @ shares).sum()
    )
    assert abs(off.mean()) < LIMIT * off.std() / np.sqrt(len(off)) + 1e-9
    assert (np.abs(off).max() < 1e-9) == (every is None)


def test_tokens_make_intervals_narrower():
    month, shares = made(400, seed=2)
    widths = {
        by_tokens: np.mean([estimate(month, shares, 100, seed, by_tokens=by_tokens).stderr for seed in range(20)])
        for by_tokens in (True, False)
    }
    assert widths[True] < 0.7 * widths[False]


def test_a_rare_publisher_has_an_error_that_its_own_draws_cannot_tell():
    month, shares = made(400, seed=2)
    tokens = month.tokens.tolil()
    tokens[:, 3] = 0
    tokens[:6, 3] = 100
    tokens[:, 0] = 50
    shares[:, 3] = 0
    shares[:, 0] += 0.1
    shares[:6, 3] = np.random.default_rng(0).uniform(0.1, 0.9, 6)
    shares /= shares.sum(axis=1, keepdims=True)
    month = Month(month.fees, tokens.tocsr(), month.strata, month.queries)
    truth = (month.fees @ shares)[3]
    runs = [estimate(month, shares, 40, seed) for seed in range(400)]
    held = np.mean([abs(run.values[3] - truth) < 2 * run.stderr[3] for run in runs])
    assert held > 0.9
    assert FEW > 6


def test_it_says_how_many_answers_would_halve_the_interval():
    month, shares = made(3000, seed=4)
    found = estimate(month, shares, 300, 0, noise=0.2)
    more = found.draws_to_narrow(2.0)
    again = np.mean([estimate(month, shares, more, seed, noise=0.2).stderr.max() for seed in range(6)])
    assert 600 < more < 1200
    assert again == pytest.approx(found.stderr.max() / 2, rel=0.1)
    assert found.draws_to_narrow(1e6) is None


def test_a_query_that_is_asked_often_is_drawn_as_often_as_its_fees_say():
    queries = np.where(np.arange(60) < 33, 0, np.arange(60))
    month, shares = made(60, queries=queries)
    shares[:33] = shares[0]
    month = Month(month.fees, sparse.csr_matrix(np.ones((60, 4))), month.strata, queries)
    rows = np.arange(60)
    counts, errors, stated = [], [], []
    for seed in range(2000):
        draws = month.draw(rows, 12, np.random.default_rng(seed))
        counts.append(np.count_nonzero(queries[draws.answers] == 0))
        own = shares[draws.answers]
        errors.append(draws.steps @ own - month.fees @ shares)
        nothing = [(np.arange(4), np.zeros((4, 4)))] * 12
        stated.append(estimated(month, np.zeros(60), [draws, draws], [own, own], [nothing, nothing]).covariance / 2)
    assert set(counts) == {6, 7}
    assert np.mean(counts) == pytest.approx(6.6, abs=0.05)
    ratio = np.sqrt(np.diag(np.mean(stated, axis=0))) / np.std(errors, axis=0)
    assert np.abs(ratio - 1).max() < 0.12
