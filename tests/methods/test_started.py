"""Runs that start from what is known: draws of an earlier run that avoid those who left correct the estimate too."""

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.ledger import known
from fgsv.methods.covariance import beginning
from fgsv.methods.covariance.beginning import Beginning
from fgsv.methods.covariance.design import Cells, Sampler, divided

pytestmark = pytest.mark.slow

N = 9
UTILITIES = np.random.default_rng(0).exponential(size=2**N) ** 2


def market(players):
    """Return a game without structure whose players are some of nine, and the game of all of them as a table."""
    columns = np.array(players)
    return fgsv.Game(
        lambda masks: UTILITIES[(masks * (1 << columns)).sum(axis=1)],
        len(columns),
        frame="market",
        players=[f"player {each}" for each in players],
    )


MARCH, APRIL = market(range(N)), market(range(1, N))


@pytest.fixture
def quick(monkeypatch):
    shorten_fits(monkeypatch)


def test_draws_of_an_earlier_run_count_where_it_had_everybody(tmp_path):
    fgsv.value(MARCH, budget=200, ledger=tmp_path / "march.db", progress=False)
    left = Beginning.of(known(APRIL, [tmp_path / "march.db"]), 0)
    assert not left.masks.all(axis=1).any()
    assert left.n_memos < len(left.masks) / 2
    sizes = left.masks[left.n_memos :].sum(axis=1)
    assert np.bincount(sizes)[np.unique(sizes)].min() >= beginning.OLD_DRAWS
    fgsv.value(APRIL, budget=100, ledger=tmp_path / "april.db", progress=False)
    joined = Beginning.of(known(MARCH, [tmp_path / "april.db"]), 0)
    assert joined.cells.joined.tolist() == [1] + [0] * 8
    assert joined.n_memos < 5 < 90 < len(joined.masks)


def test_as_many_are_learned_from_as_was_said_and_more_are_better(tmp_path, quick):
    """A sum over pairs of 24 players, one of whom left; the rest is known in closed form."""
    n, weights = 24, np.random.default_rng(0).normal(size=(24, 24))
    weights = np.triu(weights, 1)

    def market(first):
        def function(masks):
            inside = np.pad(masks, ((0, 0), (first, 0))).astype(float)
            return np.einsum("mi,ij,mj->m", inside, weights, inside)

        return fgsv.Game(function, n - first, frame="pairs", players=list(range(first, n)))

    truth = ((weights + weights.T)[1:, 1:]).sum(axis=1) / 2
    errors = []
    for seed in range(3):
        path = tmp_path / f"{seed}.db"
        fgsv.value(market(0), budget=900, seed=seed, ledger=path, progress=False)
        options = {"start": path, "budget": 32, "seed": seed, "progress": False}
        runs = [fgsv.value(market(1), most_known=most, **options) for most in (100, 4000)]
        assert runs[0].n_known <= 102 < runs[1].n_known  # both ends may be known too
        errors.append([np.square(run.values - truth).mean() for run in runs])
    few, many = np.sqrt(np.mean(errors, axis=0))
    assert many < 0.5 * few
    with pytest.raises(ValueError, match="most_known must be at least 4 and whole, got 0"):
        fgsv.value(market(1), most_known=0)


def test_cells_have_all_coalitions_and_are_drawn_from():
    """Each coalition is in the cell of its size and its latest member, and is drawn once until none is left."""
    n, cells = 6, Cells(np.array([2, 0, 0, 1, 0, 1]))
    everything = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    np.testing.assert_array_equal(cells.known(everything), cells.counts)
    ends = everything[[0, -1]]
    sampler = Sampler(n)
    sampler.add(ends)
    law = divided(cells, cells.counts / cells.of_size, cells.known(ends), 50)
    drawn = sampler.draw(law, np.zeros(law.n_strata, dtype=int), 100, np.random.default_rng(0))
    assert len(np.unique(drawn, axis=0)) == len(drawn) == 2**n - 2
    assert (law.stratum_of[cells.of(drawn)] >= 0).all()


def test_who_joined_when(tmp_path):
    """April drew among the players of March and others; May has still others, so that there are three levels."""
    fgsv.value(market(range(2, 7)), budget=20, ledger=tmp_path / "march.db", progress=False)
    options = {"start": tmp_path / "march.db", "ledger": tmp_path / "april.db", "progress": False}
    fgsv.value(market(range(1, 8)), budget=60, **options)
    found = Beginning.of(known(MARCH, [tmp_path / "april.db"]), 0)
    assert found.cells.joined.tolist() == [2, 1, 0, 0, 0, 0, 0, 1, 2]
    levels = found.cells.of(found.masks[found.n_memos :]) // (N + 1)
    assert set(levels) == {0, 1}


@pytest.mark.parametrize(
    ("before", "after"), [(range(9), range(1, 9)), (range(1, 9), range(9)), (range(8), range(1, 9))]
)
def test_unbiased_over_old_and_new_draws(before, after, tmp_path, quick):
    """One of nine players leaves, joins, or both."""
    before, after = market(before), market(after)
    truth = fgsv.exact(after).values
    runs = []
    for seed in range(16):
        path = tmp_path / f"{seed}.db"
        fgsv.value(before, budget=64, seed=seed, ledger=path, progress=False)
        runs.append(fgsv.value(after, budget=24, seed=1000 + seed, start=path, progress=False).values)
    z = (np.mean(runs, axis=0) - truth) / (np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4


def test_what_is_known_counts(tmp_path, quick):
    """With as many new evaluations the error is a fraction of that of a fresh run, and the intervals hold."""
    truth = fgsv.exact(APRIL).values
    fresh, started, inside = [], [], []
    for seed in range(8):
        path = tmp_path / f"{seed}.db"
        fgsv.value(MARCH, budget=300, seed=seed, ledger=path, progress=False)
        options = {"budget": 32, "seed": 1000 + seed, "progress": False}
        fresh.append(fgsv.value(APRIL, **options).values - truth)
        again = fgsv.value(APRIL, start=path, **options)
        started.append(again.values - truth)
        inside.append(np.abs(started[-1]) <= again.half_width(0.95))
        assert again.n_known > 100
    assert np.square(started).mean() < 0.2 * np.square(fresh).mean()
    assert np.mean(inside) > 0.85


def test_known_evaluations_count_towards_the_least_budget(tmp_path, quick):
    fgsv.value(MARCH, budget=200, ledger=tmp_path / "march.db", progress=False)
    with pytest.raises(ValueError, match="at least 16"):
        fgsv.value(APRIL, budget=10, progress=False)
    truth = fgsv.exact(APRIL).values
    found = fgsv.value(APRIL, budget=10, start=tmp_path / "march.db", progress=False)
    assert found.n_evaluations == 10
    assert np.isfinite(found.stderr).all()
    # where a stratum has no draw yet, the process predicts
    few = fgsv.value(APRIL, budget=3, start=tmp_path / "march.db", progress=False)
    equal = np.full(N - 1, truth.mean())
    assert np.square(few.values - truth).sum() < np.square(equal - truth).sum()


def test_more_players_than_an_opening_has(tmp_path):
    """In a game of 140 players old draws of the default method correct too, and the error is known."""
    worth = np.random.default_rng(3).exponential(size=140)

    def game(players):
        names = [f"player {each}" for each in players]
        return fgsv.Game(lambda masks: (masks @ worth[players]) ** 2, len(players), frame="squares", players=names)

    fgsv.value(game(np.arange(140)), budget=200, ledger=tmp_path / "old.db", progress=False)
    after, truth = game(np.arange(2, 140)), worth[2:] * worth[2:].sum()
    options = {"budget": 40, "progress": False}
    fresh = fgsv.value(after, **options).values - truth
    started = fgsv.value(after, start=tmp_path / "old.db", **options)
    assert started.n_known > 40
    assert np.square(started.values - truth).sum() < 0.5 * np.square(fresh).sum()
    assert np.mean(np.abs(started.values - truth) <= started.half_width(0.95)) > 0.8
