"""The first evaluations: every one counts, each coalition once, unbiased, additive, honest about the error."""

import json
from dataclasses import replace

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.methods.covariance import opening
from fgsv.methods.covariance.correction import (
    COUPLING,
    Correction,
    Fold,
    correct,
    joint_freedom,
    smallest_step,
    with_opening,
)
from fgsv.methods.covariance.design import Cells, Law, Sampler, counts, first_law
from fgsv.methods.covariance.process import Process, _Between
from fgsv.methods.covariance.sample import Sample
from fgsv.methods.covariance.target import Target
from fgsv.methods.enumeration import semivalues
from fgsv.semivalue import SHAPLEY, Banzhaf, Beta


def all_masks(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def any_process(n, seed=0, rate=0.0):
    parameters = Process.default(n).parameters
    parameters = parameters + 0.5 * np.random.default_rng(seed).standard_normal(len(parameters))
    parameters[6] += rate
    return Process(n, parameters, np.random.default_rng(seed).integers(1, n, n))


def table_game(n, seed=0):
    """Return a game without structure, its heavy-tailed utilities, and its Shapley values."""
    values = np.random.default_rng(seed).exponential(size=2**n) ** 2
    return (
        fgsv.Game(lambda masks: values[masks @ (1 << np.arange(n))], n),
        values,
        semivalues(values[:, None], SHAPLEY),
    )


@pytest.fixture
def quick(monkeypatch):
    """Short fits and epochs: nothing but the precision depends on them."""
    shorten_fits(monkeypatch)
    monkeypatch.setattr(opening, "EPOCHS", (16, 32, 64, 128))


# --- the process


@pytest.mark.parametrize("semivalue", [SHAPLEY, Banzhaf(), Beta(4, 1)], ids=str)
@pytest.mark.parametrize(("n", "rate", "levels"), [(4, 0, 1), (7, 0, 3), (10, -2, 1), (10, 4, 2), (10, 6, 1)])
def test_player_values_of_the_process_against_enumeration(n, rate, levels, semivalue):
    """The values of sums of k(., T), also those of some cells alone, whatever the players weigh."""
    process, masks = any_process(n, rate=rate), all_masks(n)
    some = masks[np.random.default_rng(1).choice(2**n, 9, replace=False)]
    joined = np.zeros(n, dtype=int) if levels == 1 else np.arange(n) * levels // n
    cells = Cells(joined)
    parts = np.arange(len(cells.sizes)) % 3
    parts[cells.sizes % n == 0] = -1
    loads = np.random.default_rng(2).standard_normal((3, len(some), 2))
    found = process.player_values(some, loads, parts, semivalue.log_weights(n), cells)
    part = parts[cells.of(masks)]
    covariance = process.covariance(masks, some)
    games = np.einsum("sm,smq->sq", covariance, loads[part]) * (part >= 0)[:, None]
    scale = np.abs(covariance).max() * np.abs(loads).sum()
    np.testing.assert_allclose(found, semivalues(games, semivalue), atol=1e-12 * scale)


def test_the_closed_form_stays_stable_with_many_players():
    """Players that weigh the same have values that depend on membership alone, however many there are."""
    n = 150
    process = Process.default(n)
    masks = np.random.default_rng(0).random((6, n)) < np.linspace(0.02, 0.98, 6)[:, None]
    parts, cells = np.where(np.arange(n + 1) % n == 0, -1, 0), Cells(np.zeros(n, dtype=int))
    values = process.player_values(masks, np.eye(6)[None], parts, SHAPLEY.log_weights(n), cells).T
    assert np.abs(values.sum(axis=1)).max() < 1e-9 * np.abs(values).max()
    for row, mask in zip(values, masks, strict=True):
        assert np.ptp(row[mask]) + np.ptp(row[~mask]) < 1e-9 * np.abs(values).max()


def test_the_gradient_of_the_fit():
    n, rng = 7, np.random.default_rng(0)
    process = any_process(n)
    masks = all_masks(n)[rng.choice(2**n, 20, replace=False)]
    pairs, targets, step = _Between.of(masks, masks, n, process.ranks), rng.standard_normal((20, 2)), 1e-6
    _, gradient = process._cost(pairs, targets)
    costs = [
        [
            replace(process, parameters=process.parameters + sign * step * unit)._cost(pairs, targets)[0]
            for sign in (1, -1)
        ]
        for unit in np.eye(len(gradient))
    ]
    np.testing.assert_allclose(gradient, -np.diff(costs, axis=1)[:, 0] / (2 * step), atol=1e-4)


def test_the_variance_is_the_diagonal_of_the_covariance():
    process, masks = any_process(6), all_masks(6)
    own = process.own_variance(masks.sum(axis=1))
    diagonal = np.diag(process.covariance(masks, masks)) + own
    np.testing.assert_allclose(process.variance(masks), diagonal)


# --- draws


@pytest.mark.parametrize("n", [5, 12, 33])
def test_each_coalition_is_drawn_once(n):
    sampler, law = Sampler(n), first_law(n, np.ones(n - 1), 24)
    masks = sampler.draw(law, np.zeros(law.n_strata, dtype=int), 26, np.random.default_rng(0))
    assert len(np.unique(masks, axis=0)) == len(masks) == 26
    assert (masks.sum(axis=1) % n > 0).all()


def test_a_draw_given_the_others_is_uniform_over_what_they_leave():
    """The second draw of a size is any of its coalitions, equally often."""
    n = 5
    law = first_law(n, np.ones(n - 1), 12)
    second = []
    for seed in range(400):
        masks = Sampler(n).draw(law, np.zeros(law.n_strata, dtype=int), 12, np.random.default_rng(seed))
        second.append(masks[masks.sum(axis=1) == 2][1] @ (1 << np.arange(n)))
    seen = np.unique(second, return_counts=True)[1]
    assert len(seen) == counts(n)[2]
    assert ((seen - 40) ** 2 / 40).sum() < 27.9  # chance exceeds it once in a thousand


# --- the correction


@pytest.mark.parametrize("semivalue", [SHAPLEY, Beta(4, 1)], ids=str)
@pytest.mark.parametrize(("n", "first", "length"), [(6, 14, 30), (8, 2, 24)])
def test_leaving_one_out_is_what_the_formula_says(n, first, length, semivalue):
    """One inverse gives what fitting without each draw in turn gives; with 8 players draws come in pairs."""
    _, utilities, _ = table_game(n)
    law = first_law(n, np.ones(n - 1), length)
    ends = all_masks(n)[[0, -1]]
    sampler = Sampler(n)
    sampler.add(ends)
    drawn = sampler.draw(law, np.zeros(law.n_strata, dtype=int), length, np.random.default_rng(3))
    masks = np.concatenate([ends, drawn])
    values = utilities[masks @ (1 << np.arange(n))][:, None]
    process, target, everything = any_process(n), Target.of(semivalue, n), all_masks(n)
    found = correct(target, Sample(law, first, masks), values, [Fold(process, np.arange(first, len(masks)))])
    sizes, all_sizes = masks.sum(axis=1), everything.sum(axis=1)
    weights = target.coefficients(everything) / counts(n)[all_sizes][:, None]
    expected = np.zeros(n)
    known = {int(row) for row in masks @ (1 << np.arange(n))}
    for stratum in range(law.n_strata):
        here = law.stratum_of[all_sizes] == stratum
        draws = [j for j in range(first, len(masks)) if law.stratum_of[sizes[j]] == stratum]
        if all(index in known for index in np.flatnonzero(here)):
            expected += weights[here].T @ utilities[here]
            continue
        together = 2 if stratum == 0 else 1
        for unit in np.reshape(draws, (-1, together)):
            others = np.delete(np.arange(len(masks)), unit)
            matrix = process.covariance(masks[others], masks[others]) + np.diag(process.own_variance(sizes[others]))
            predicted = process.covariance(everything, masks[others]) @ np.linalg.solve(matrix, values[others, 0])
            indices = masks[unit] @ (1 << np.arange(n))
            is_known = np.isin(np.arange(2**n), list(known - set(indices.tolist())))
            filled = np.where(is_known, utilities, predicted)
            expected += together * weights[here].T @ filled[here] / len(draws)
            for index, size in zip(indices, sizes[unit], strict=True):
                unseen = (~is_known & (all_sizes == size)).sum()
                residual = utilities[index] - predicted[index]
                expected += weights[index] * residual * unseen / law.within[size] / len(draws)
    np.testing.assert_allclose(found.values[:, 0], expected, atol=1e-6 * np.abs(expected).max())


def test_where_every_prediction_holds_errors_are_those_of_one_failure():
    """Against the mean over the draws of what a failure of each would move, once."""
    n, first, length = 8, 2, 24
    law, process, target = first_law(n, np.ones(n - 1), length), any_process(n), Target.of(SHAPLEY, n)
    drawn = Sampler(n).draw(law, np.zeros(law.n_strata, dtype=int), length, np.random.default_rng(3))
    masks = np.concatenate([all_masks(n)[[0, -1]], drawn])
    sample, folds = Sample(law, first, masks), [Fold(process, np.arange(first, len(masks)))]

    def spread(values, step):
        found = correct(target, sample, values, folds, step)
        return (found.deviations**2).sum() / COUPLING**2

    expected, m, sizes = 0.0, 0, masks.sum(axis=1)
    for stratum in np.unique(law.stratum_of[sizes[first:]]):
        rows = first + np.flatnonzero(law.stratum_of[sizes[first:]] == stratum)
        drawn = np.bincount(sizes)[sizes[rows]]
        left = counts(n)[sizes[rows]] - drawn
        if not left.any():
            continue
        moves = np.sqrt(left * (left + drawn)) / counts(n)[sizes[rows]] / law.within[sizes[rows]] / len(rows)
        expected += 9 * ((moves[:, None] * target.coefficients(masks[rows])) ** 2).sum()
        m += len(rows)
    none = np.zeros((len(masks), 1))
    assert expected > 0
    assert spread(none, 3.0) == pytest.approx(expected / m)
    assert spread(none, 0.0) == 0
    many = np.random.default_rng(0).normal(size=none.shape)
    assert spread(many, 1e-3) == spread(many, 0.0)  # enough failed


def test_errors_are_those_of_a_finite_population_where_sizes_are_drawn_at_random():
    """Of 250 coalitions of three sizes in one stratum 60 are drawn, and predictions say nothing."""
    n, length, n_runs = 9, 60, 400
    some = np.isin(np.arange(n + 1), (3, 4, 6))
    law = Law(Cells(np.zeros(n, dtype=int)), np.where(some, 0, -1), some / 3, np.ones(1), np.zeros(n + 1, dtype=int))
    parameters = Process.default(n).parameters.copy()
    parameters[[0, 2, 3, 5]] = -12.0, -12.0, -12.0, 1.0
    process, target, everything = Process.of(parameters), Target.of(SHAPLEY, n), all_masks(n)
    utilities = np.random.default_rng(0).normal(size=2**n)
    sizes = everything.sum(axis=1)
    weights = some[sizes, None] * target.coefficients(everything) / counts(n)[sizes, None]
    errors, stated = [], []
    for seed in range(n_runs):
        masks = Sampler(n).draw(law, np.zeros(1, dtype=int), length, np.random.default_rng(seed))
        values = utilities[masks @ (1 << np.arange(n))][:, None]
        found = correct(target, Sample(law, 0, masks), values, [Fold(process, np.arange(length))])
        errors.append(found.values[:, 0] - weights.T @ utilities)
        stated.append((found.deviations**2).sum() / COUPLING**2)
    squares = (np.array(errors) ** 2).sum(axis=1)
    assert abs(squares.mean() - np.mean(stated)) < 3 * squares.std() / np.sqrt(n_runs)
    assert np.mean(stated) / n_runs > (np.mean(errors, axis=0) ** 2).sum() / 3  # no bias


def test_the_smallest_step_between_utilities():
    values = np.array([[0.0, 1.0, 5.0], [0.5, 1.0, 5.0 + 1e-12], [2.0, 1.0, 9.0], [0.5, 1.0, 8.0]])
    np.testing.assert_array_equal(smallest_step(values), [0.5, 0.0, 1.0])


@pytest.mark.parametrize("seed", [11, 12, 15, 17, 29])
def test_no_interval_is_empty_because_a_vote_showed_no_exception(seed):
    """All that these runs evaluate agrees with a rule by size alone, which is not the vote's."""
    weights = np.array([5, 4, 4, 3, 3, 2, 2, 2, 1, 1, 1, 1])
    vote = fgsv.Game(lambda masks: (masks @ weights > weights.sum() / 2) * 1.0, 12)
    found = fgsv.value(vote, budget=48, seed=seed, progress=False)
    assert (np.abs(found.values - fgsv.exact(vote).values) <= found.half_width(0.95)).all()


# --- the estimate


@pytest.mark.parametrize(("n", "budget", "n_runs"), [(5, 24, 50), (8, 16, 100), (9, 47, 50)])
def test_unbiased(quick, n, budget, n_runs):
    """On a game that no process fits: two epochs; pairs, the last one without its partner; epochs after pairs."""
    game, _, truth = table_game(n)
    runs = np.array([fgsv.value(game, budget=budget, seed=seed).values for seed in range(n_runs)])
    z = (runs.mean(axis=0) - truth[:, 0]) / (runs.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 3.9


def test_exact_when_everything_is_enumerated(quick):
    n = 6
    _, utilities, truth = table_game(n)
    estimator = fgsv.methods.Covariance().start(
        fgsv.methods.Problem(fgsv.methods.Task(n, fgsv.Partition.of(np.arange(n))), utilities[[0, -1], None])
    )
    number = 0
    while (draws := estimator.draw(np.random.default_rng([0, number]))) is not None:
        estimator.update(draws, utilities[draws.coalitions.masks() @ (1 << np.arange(n)), None])
        number += 1
    found = estimator.estimate()
    assert found.exact
    np.testing.assert_allclose(found.values, truth, atol=1e-12)


@pytest.mark.parametrize("n", [5, 9, 40])
def test_every_evaluation_of_the_budget_is_used(n, quick):
    game = SumOfUnanimity(n)
    for budget in (16, 17, 31, 47, 63):
        if budget < 2**n:
            assert fgsv.value(game, budget=budget).n_evaluations == budget


def test_a_shorter_run_is_a_prefix_of_a_longer_one(quick):
    asked = {}
    for budget in (20, 45, 90):
        rows = asked[budget] = []

        def game(masks, rows=rows):
            rows.extend(np.packbits(masks, axis=1).tobytes() for masks in masks[:, None])
            return np.sqrt(masks @ np.arange(1.0, 11))

        fgsv.value(fgsv.Game(game, 10), budget=budget, batch_size=1)
    assert asked[90][:45] == asked[45]
    assert asked[45][:20] == asked[20]
    assert len(set(asked[90])) == 90


def test_efficient_and_additive_to_the_bit(quick):
    game = SumOfUnanimity(14)
    alone = fgsv.value(game, budget=100)
    assert alone.values.sum() == pytest.approx(float(alone.total), rel=1e-13)
    grouped = fgsv.value(game, np.arange(14) % 3, budget=100)
    np.testing.assert_array_equal(grouped.player_values, alone.player_values)


def test_a_budget_beyond_the_opening_keeps_what_was_evaluated(quick, monkeypatch):
    monkeypatch.setattr(opening, "HAND_OVER", ((20, 64),))
    game = SumOfUnanimity(12)
    before, after = (fgsv.value(game, budget=budget) for budget in (64, 128))
    assert after.n_evaluations == 128
    np.testing.assert_allclose(after.values, game.shapley, atol=5 * after.stderr.max())
    assert after.stderr.mean() < 1.5 * before.stderr.mean()
    long = fgsv.value(game, budget=1500)
    assert long.stderr.mean() < 0.3 * before.stderr.mean()
    assert long.degrees_of_freedom > before.degrees_of_freedom  # as the opening counts for little
    np.testing.assert_allclose(long.values, game.shapley, atol=5 * long.stderr.max())


def test_degrees_of_freedom_of_a_sum_match_the_spread_of_its_variance():
    variances, freedom, rng = np.array([3.0, 1.0]), np.array([5.0, 40.0]), np.random.default_rng(0)
    found = rng.chisquare(freedom, (100_000, 2)) / freedom @ variances
    deviations = np.sqrt(variances)[:, None, None, None]
    assert joint_freedom(deviations, freedom) == pytest.approx(2 * found.mean() ** 2 / found.var(), rel=0.05)
    assert joint_freedom(0 * deviations, freedom) == 40


def test_degrees_of_freedom_do_not_depend_on_the_units_of_an_output():
    """The output with the fewest counts, large or small, and one that does not vary does not."""
    first, second = SumOfUnanimity(24, seed=1), SumOfUnanimity(24, seed=2)

    def freedom(unit):
        game = fgsv.Game(lambda masks: np.stack([first(masks), unit * second(masks), 0 * first(masks)], axis=1), 24)
        return fgsv.value(game, budget=200).degrees_of_freedom

    assert freedom(1e6) == pytest.approx(freedom(1.0), rel=1e-3)
    assert freedom(1e-6) == pytest.approx(freedom(1.0), rel=1e-3)


def test_an_opening_of_few_draws_does_not_limit_what_is_known_without_it():
    """A run that started so once never met its target."""
    rng = np.random.default_rng(0)
    theirs, ours = rng.normal(size=(64, 3, 2)).astype(np.float32), rng.normal(size=(8, 3, 2))
    opened = Correction(np.zeros((3, 2)), ours, freedom=1.5, squares=np.zeros((2, 2)))
    deviations, freedom = with_opening(np.array([0.0, 0.01]), opened, theirs, 56.0)
    assert freedom == pytest.approx(56, rel=0.01)
    np.testing.assert_allclose(deviations[:64], theirs * np.array([1.0, 0.99]), rtol=1e-6)
    np.testing.assert_allclose(deviations[64:], ours * np.array([0.0, 0.01]), rtol=1e-6)
    assert with_opening(np.ones(2), opened, theirs, 56.0)[1] == pytest.approx(1.5)


def test_several_outputs_semivalues_costs_and_a_proxy(quick):
    game = SumOfUnanimity(10)
    two = fgsv.Game(
        lambda masks: np.stack([game(masks), masks.sum(axis=1) ** 1.5], axis=1), 10, outputs=("u", "size")
    )
    both = fgsv.value(two, budget=200)
    assert (np.abs(both.values[:, 0] - game.shapley) < 5 * both.stderr[:, 0]).all()
    np.testing.assert_allclose(both.values[:, 1], 10**0.5, atol=1e-2)
    for semivalue in ("banzhaf", "beta(4, 1)"):
        truth = fgsv.exact(game, semivalue=semivalue).values
        found = fgsv.value(game, semivalue=semivalue, budget=200)
        assert (np.abs(found.values - truth) < 6 * found.stderr).all()
    cheap = fgsv.value(game, budget=200, cost=lambda sizes: sizes**2.0)
    assert (np.abs(cheap.values - game.shapley) < 6 * cheap.stderr).all()
    same = fgsv.value(game, budget=100, proxy=lambda masks: game(masks))
    assert (np.abs(same.values - game.shapley) < 6 * same.stderr + 1e-9).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_constant_additive_and_noisy_games(n, quick):
    """No warnings (they are errors here), and intervals that hold the truth."""
    noise = np.random.default_rng(0).normal(size=2**n)
    games = {
        "constant": (lambda masks: np.full(len(masks), 3.0), np.zeros(n)),
        "additive": (lambda masks: masks @ np.arange(1.0, n + 1), np.arange(1.0, n + 1)),
        "noise": (lambda masks: noise[masks @ (1 << np.arange(n))], semivalues(noise[:, None], SHAPLEY)[:, 0]),
    }
    for name, (game, truth) in games.items():
        found = fgsv.value(fgsv.Game(game, n), budget=min(2**n, 40))
        reach = 0.0 if found.exact else 5 * found.stderr
        assert (np.abs(found.values - truth) <= reach + 1e-6).all(), name
        if name == "constant":
            np.testing.assert_allclose(found.values, truth, atol=1e-12)
            assert found.stderr.max() < 1e-9


def test_laws_are_plain_data(quick):
    game = SumOfUnanimity(8)
    ends = game(all_masks(8)[[0, -1]])[:, None]
    estimator = fgsv.methods.Covariance().start(
        fgsv.methods.Problem(fgsv.methods.Task(8, fgsv.Partition.of(np.arange(8))), ends)
    )
    laws = []
    for number in range(6):
        draws = estimator.draw(np.random.default_rng([0, number]))
        laws += [] if draws.law is None else [json.loads(json.dumps(draws.law))]
        estimator.update(draws, game(draws.coalitions.masks())[:, None])
    assert [(epoch["first"], epoch["end"]) for epoch in laws] == [(2, 16), (2, 32), (32, 64), (64, 128), (128, 256)]
    assert len(laws[0]["process"]) == len(Process.default(8).parameters)


@pytest.mark.parametrize("seed", [11, 16])
def test_where_all_but_one_are_worth_the_same_nothing_is_steep(seed):
    """As long as the one that decides was in all of them: the first epoch was too short to learn who it is."""
    airport = fgsv.games.Airport(np.arange(1.0, 9) ** 2)
    found = fgsv.value(airport, budget=64, seed=seed, opening=True)
    np.testing.assert_allclose(found.values, airport.shapley, rtol=1e-6)


def test_many_players_most_of_whom_add_nothing():
    """As the features of a prediction: what twenty of eighty add is found sooner than by permutations."""
    n, rng = 80, np.random.default_rng(0)
    terms = [*([i] for i in range(20)), *([i, i + 1] for i in range(0, 20, 2)), [0, 5, 9], [3, 8, 14], [2, 11, 17]]
    worth, truth = rng.normal(size=len(terms)), np.zeros(n)
    for members, each in zip(terms, worth, strict=True):
        truth[members] += each / len(members)
    game = fgsv.Game(lambda masks: np.stack([masks[:, term].all(axis=1) for term in terms], axis=1) @ worth, n)
    ours, theirs = (
        [fgsv.value(game, method=method, budget=642, seed=seed).values - truth for seed in range(2)]
        for method in ("covariance", "permutation")
    )
    assert np.square(ours).mean() < 0.3**2 * np.square(theirs).mean()
