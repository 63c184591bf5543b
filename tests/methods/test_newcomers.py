"""Draws with newcomers that are made of draws of earlier runs."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.ledger import known
from fgsv.methods.covariance import beginning, newcomers
from fgsv.methods.covariance.clusters import Clusters
from fgsv.methods.covariance.correction import COUPLING, Fold, correct
from fgsv.methods.covariance.design import Cells, Law, Sampler
from fgsv.methods.covariance.newcomers import Bases, may_be_bases
from fgsv.methods.covariance.opening import Opening
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.proxy import Proxy
from fgsv.methods.covariance.target import Target
from fgsv.methods.method import Problem, Task
from fgsv.partition import Partition
from fgsv.running.verification import verify
from fgsv.semivalue import SHAPLEY, Beta

N = 7
EVERYTHING = (np.arange(2**N)[:, None] >> np.arange(N)) & 1 == 1
TWICE = Cells(np.array([2, 0, 0, 1, 0, 1, 0]))
"""Two players joined after four others, and another one later."""


def bases_of(masks, cells):
    rows = 2 + np.arange(len(masks))
    inverse, c = np.eye(len(masks)), np.ones(len(masks))
    return Bases(Process.default(N), masks, 0, inverse, rows, cells.of(masks), masks, c)


def test_a_draw_made_of_a_base_is_uniform_in_its_cell():
    cells = Cells(np.array([1, 0, 0, 0, 0, 0, 1]))
    rng, sampler, found = np.random.default_rng(0), Sampler(N), []
    wanted = np.where(np.arange(2 * (N + 1)) == N + 1 + 3, 1.0, 0.0)
    law = Law(cells, np.where(wanted > 0, 0, -1), wanted, np.ones(1), np.zeros(len(wanted), dtype=int), bases=True)
    for _ in range(500):
        old = [rng.permutation(5)[:size] + 1 for size in (1, 2)]  # a draw of each size that a base may have
        sampler.bases = np.array([np.isin(np.arange(N), each) for each in old])
        found.append(sampler.draw(law, np.zeros(1, dtype=int), 1, rng)[0])
        assert (cells.bases(found[-1][None]) == sampler.bases).all(axis=1).any()
    each, count = np.unique(found, axis=0, return_counts=True)
    assert (len(each), each.sum(axis=1).tolist()) == (25, [3] * 25)
    assert ((count - 20) ** 2 / 20).sum() < 51  # chi-squared with 24 degrees of freedom


def test_every_base_is_used_and_then_none():
    cells = Cells(np.array([1, 0, 0, 0, 0, 0, 0]))
    sampler = Sampler(N)
    sampler.bases = EVERYTHING[(EVERYTHING.sum(axis=1) == 2) & (cells.of(EVERYTHING) <= N)][:3]
    wanted = np.where(np.arange(2 * (N + 1)) == N + 1 + 3, 1.0, 0.0)
    law = Law(cells, np.where(wanted > 0, 0, -1), wanted, np.ones(1), np.zeros(len(wanted), dtype=int), bases=True)
    drawn = cells.bases(sampler.draw(law, np.zeros(1, dtype=int), 12, np.random.default_rng(0)))
    assert {row.tobytes() for row in drawn[:3]} == {row.tobytes() for row in sampler.bases}
    assert len(np.unique(drawn, axis=0)) == 12


@pytest.mark.parametrize("semivalue", [SHAPLEY, Beta(2.0, 3.0)], ids=str)
def test_what_is_added_is_the_mean_of_what_is_subtracted(semivalue):
    """Over all coalitions T, with each base that they may have, by enumeration."""
    rng, target = np.random.default_rng(1), Target.of(semivalue, N)
    old = EVERYTHING[rng.permutation(np.flatnonzero(TWICE.of(EVERYTHING) % (N + 1) > 0))[:30]]
    bases = bases_of(old[TWICE.of(old) < 2 * (N + 1)], TWICE)
    x, parts = rng.normal(size=(len(bases.rows), 2)), rng.random(len(TWICE.sizes)) * (TWICE.counts > 0)
    parts[: N + 1], parts[[N + 1 + N, 2 * (N + 1) + N]] = 0, 0
    larger = EVERYTHING[parts[TWICE.of(EVERYTHING)] > 0]
    weights = target.coefficients(larger)
    alone = np.full(len(larger), -1)
    each = bases.subtracted(x, larger, alone, weights, target.weights, TWICE)
    share = (parts / np.maximum(TWICE.counts, 1))[TWICE.of(larger)]
    expected = (share[:, None, None] * each).sum(axis=0)
    np.testing.assert_allclose(bases.added(parts, target.weights, TWICE).T @ x, expected, atol=1e-12)
    # the mean of draws that have a base
    i = int(np.flatnonzero(np.isin(TWICE.of(TWICE.bases(larger)), bases.cell))[7])
    rows = np.flatnonzero(bases.cell == TWICE.of(TWICE.bases(larger[i : i + 1]))[0])
    made = (larger[i] & ~TWICE.bases(larger[i : i + 1])[0]) | bases.masks[rows]
    with_base = bases.subtracted(x, made, rows, target.coefficients(made), target.weights, TWICE)
    np.testing.assert_allclose(with_base.mean(axis=0), each[i], atol=1e-12)


def test_a_cluster_is_left_out_together():
    """Against a process that never knew them."""
    rng, process = np.random.default_rng(2), Process.default(N)
    masks = EVERYTHING[rng.permutation(2**N)[:20]]
    values = rng.normal(size=(20, 2))
    solved = process.solve(masks, values)
    clusters = Clusters.linked(20, [(np.array([11, 8]), np.array([3, 17])), (np.array([14]), np.array([11]))])
    residuals, taken_out = clusters.left_out(solved, np.array([3, 5, 8]), np.array([[3, 14], [5, 5], [17, 8]]))
    expected = np.zeros((20, 2))
    for i, (rows, without) in enumerate((([3, 14], [3, 11, 14]), ([5, 5], [5]), ([17, 8], [8, 17]))):
        others = np.delete(np.arange(20), without)
        matrix = process.covariance(masks[others], masks[others]) + np.diag(solved.own[others])
        loads = np.linalg.solve(matrix, values[others])
        residual = values[rows] - process.covariance(masks[rows], masks[others]) @ loads
        np.testing.assert_allclose(residuals[i], residual, atol=1e-7)
        expected += solved.loads
        expected[others] -= loads
    np.testing.assert_allclose(taken_out, expected, atol=1e-6)


def test_parts_keep_companies_together_and_spread_the_last_draws():
    clusters = Clusters.linked(12, [(np.array([8, 9, 10]), np.array([0, 1, 11]))])
    parts = clusters.folds(np.array([11, 0, 1, 2, 3, 4, 5, 8, 9, 10]), np.arange(12) < 3, 2)
    assert [part.tolist() for part in parts] == [[1, 2, 3, 5, 9], [11, 0, 4, 8, 10]]


@pytest.fixture
def small(monkeypatch):
    """Cells of few coalitions have bases and partners too, and fits are quick."""
    monkeypatch.setattr(newcomers, "RARE", 0.2)
    monkeypatch.setattr(beginning, "PLENTY", 20)
    shorten_fits(monkeypatch)


UTILITIES = np.random.default_rng(0).exponential(size=2**12)


def market(players):
    """Return a game without structure whose players are some of twelve."""
    bits = 1 << np.array(players)
    names = [f"player {each}" for each in players]
    return fgsv.Game(lambda masks: UTILITIES[masks @ bits], len(bits), frame="market", players=names)


def begun(tmp_path, before, after):
    """Return the opening of a run, before its first draw, and the game."""
    march, game = tmp_path / "march.db", market(after)
    fgsv.value(market(before), budget=60, ledger=march, progress=False)
    ends = UTILITIES[[0, (1 << np.array(after)).sum()], None]
    problem = Problem(Task(len(after), Partition.of([0] * len(after))), ends, known=known(game, [march]))
    return Opening(problem, Proxy.nothing(len(after), 1), None, plug_in=False, most_known=4000), game


def opened(tmp_path, before=range(2, 12), after=range(12)):
    """Return the opening of a run where two joined, after two rounds."""
    found, game = begun(tmp_path, before, after)
    for number in range(2):
        draws = found.draw(np.random.default_rng(number))
        found.update(draws, game.function(draws.coalitions.masks())[:, None])
    return found


BOTH = {"before": range(1, 12), "after": range(11)}
"""Somebody leaves and somebody joins."""


def test_new_draws_are_made_of_old_ones_and_move_the_estimate_by_their_influence(tmp_path, small):
    """The estimate is linear in utilities, those of bases included, which count three times."""
    found, ends = opened(tmp_path), UTILITIES[[0, -1], None]
    old = found.masks[: 2 + found.n_known]
    base_of = found._bases.base_of(found.masks, found.epochs[0].first, found._cells)
    made = np.flatnonzero(base_of[len(old) :] >= 0) + len(old)
    assert len(made) > 8
    np.testing.assert_array_equal(found._cells.bases(found.masks[made]), found.masks[base_of[made]])
    assert may_be_bases(old[2:], found._cells)[base_of[made] - 2].all()
    values = found.estimate().values
    for fold in (each.draws for each in found._current.folds):
        assert np.isin(base_of[fold][base_of[fold] >= 0], fold).all()
    _what_a_fold_subtracts_depends_on_others(found, base_of)
    partition = Partition.of(np.arange(12) % 4)
    beyond = found._beyond(found.epochs[0].beta)[2:, 0]
    expected = found.influence(partition).T @ beyond + np.diff(ends, axis=0)[0, 0] * partition.sizes / 12
    np.testing.assert_allclose(partition.sums(values)[:, 0], expected, atol=1e-9)


def test_new_draws_are_made_of_old_ones_with_players_who_left(tmp_path, small):
    """Their clusters have an earlier draw, its partner and what a newcomer was added to."""
    found, n = opened(tmp_path, **BOTH), 11
    base_of = found._bases.base_of(found.masks, found.epochs[0].first, found._cells)
    made = np.flatnonzero(base_of >= found.n_evaluations)
    related = found._beginning.related[base_of[made] - found.n_evaluations]
    assert len(made) > 3
    assert related[:, n:].all()
    np.testing.assert_array_equal(found._cells.bases(found.masks[made]), related[:, :n])
    found.estimate()
    together = found._current.sample.clusters
    assert (together.members >= 0).sum(axis=1).max() == 3
    for fold in (each.draws for each in found._current.folds):
        assert np.isin(np.flatnonzero(np.isin(together.of, together.of[fold])), fold).all()


def test_before_any_draw_is_made_of_an_old_one(tmp_path, small):
    found = opened(tmp_path)
    rows = np.arange(2 + found.n_known)
    values = found._beyond(found.epochs[0].beta)[rows]
    [bases] = found._bases.in_folds(found.masks[rows], values, np.full(len(rows), -1), [rows[2:]])
    np.testing.assert_array_equal(bases.c, found._bases.c)


@pytest.mark.parametrize("players", [{}, BOTH], ids=["two join", "one leaves, one joins"])
def test_a_draw_and_its_base_are_one_term_of_the_error(tmp_path, small, players):
    """Variance to expect if utilities are white noise: what is stated, against how far each utility moves values."""
    found = opened(tmp_path, **players)
    found.estimate()
    rows, sample = found._current.rows, found._current.sample
    folds = [replace(each, bases=replace(each.bases, c=np.ones(len(each.bases.c)))) for each in found._current.folds]
    correction = correct(found._target, sample, np.eye(len(sample.everything))[:, 2:], folds)
    n = found.masks.shape[1]
    every = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1 == 1
    true, drawn = (
        found._target.coefficients(masks) / found._cells.of_size[found._cells.of(masks), None]
        for masks in (every, found.masks[rows[2:]])
    )
    drawn = np.pad(drawn, ((0, len(found._beginning.related)), (0, 0)))
    actual = ((correction.values.T - drawn) ** 2).sum() + (true**2).sum() - (drawn**2).sum()
    assert (correction.deviations**2).sum() / COUPLING**2 == pytest.approx(actual, rel=0.08)


@pytest.mark.parametrize(
    ("before", "after"), [(range(2, 12), range(12)), BOTH.values()], ids=["two join", "one leaves, one joins"]
)
def test_what_is_subtracted_and_added_has_the_mean_zero(tmp_path, small, before, after):
    """Over new draws, whatever the old ones are: what bases change in an estimate, again and again from one start."""
    start, game = begun(tmp_path, before, after)
    process, changes = start.epochs[0].process, []
    for seed in range(300):
        found = copy.copy(start)
        found._sampler = copy.deepcopy(start._sampler)
        draws = found.draw(np.random.default_rng(seed))
        found.update(draws, game.function(draws.coalitions.masks())[:, None])
        _, sample, values = found._sample(found.n_evaluations)
        draws = np.arange(sample.first, len(values))
        folds = [Fold(process, draws, bases) for bases in (found._bases, None)]
        each = [correct(found._target, sample, values, [fold]).values for fold in folds]
        changes.append((each[0] - each[1])[:, 0])
    mean, error = np.mean(changes, axis=0), np.std(changes, axis=0) / np.sqrt(300)
    assert (np.abs(mean) < 4 * error).all()


def _what_a_fold_subtracts_depends_on_others(found, base_of):
    """Utilities of its draws do not count for it, and what others are made of is not in its mean."""
    folds = [fold.draws for fold in found._current.folds]
    values, old = found._beyond(found.epochs[0].beta), 2 + found.n_known
    before = found._bases.in_folds(found.masks, values, base_of, folds)
    made = next(row for row in folds[0] if row >= old and base_of[row] >= 0)
    values[made] += 3
    after = found._bases.in_folds(found.masks, values, base_of, folds)
    kept = [np.array_equal(a.c, b.c) for a, b in zip(before, after, strict=True)]
    assert kept == [True] + [False] * (len(folds) - 1)
    others = np.concatenate(folds[1:])
    assert sorted(before[0].rows) == sorted(set(found._bases.rows) - set(base_of[others[others >= old]]))
    unused = next(row for row in found._bases.rows if row not in base_of)
    base_of[old - 1] = unused  # a draw of an earlier run was made of it
    assert not any(unused in each.rows for each in found._bases.in_folds(found.masks, values, base_of, folds))


def test_same_bits_again_and_verified_from_the_new_ledger_alone(tmp_path, small):
    march, april, after = tmp_path / "march.db", tmp_path / "april.db", market(range(12))
    fgsv.value(market(range(2, 12)), budget=60, ledger=march, progress=False)
    options = {"seed": 1, "start": march, "progress": False}
    found = fgsv.value(after, budget=40, ledger=april, **options)
    assert found.values.tolist() == fgsv.value(after, budget=40, **options).values.tolist()
    march.unlink()
    assert not verify(found, april)
