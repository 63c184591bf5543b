"""Runs that start from what is known: draws of an earlier run that avoid those who left correct the estimate too."""

import numpy as np
import pytest

import fgsv
from fgsv.estimators.covariance import opening
from fgsv.estimators.covariance.opening import Beginning
from fgsv.ledger import known

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
    monkeypatch.setattr(opening, "STEPS", (2, 2))
    monkeypatch.setattr(opening, "STEPS_AGAIN", (2, 2))


def test_draws_of_an_earlier_run_count_where_it_had_everybody(tmp_path):
    fgsv.value(MARCH, budget=200, ledger=tmp_path / "march.db", progress=False)
    left = Beginning.of(known(APRIL, [tmp_path / "march.db"]), 0)
    assert not left.masks.all(axis=1).any()
    assert left.n_memos < len(left.masks) / 2
    sizes = left.masks[left.n_memos :].sum(axis=1)
    assert np.bincount(sizes)[np.unique(sizes)].min() >= opening.OLD_DRAWS
    fgsv.value(APRIL, budget=100, ledger=tmp_path / "april.db", progress=False)
    joined = Beginning.of(known(MARCH, [tmp_path / "april.db"]), 0)
    assert joined.n_memos == len(joined.masks) > 90


def test_unbiased_over_old_and_new_draws(tmp_path, quick):
    truth = fgsv.exact(APRIL).values
    runs = []
    for seed in range(60):
        path = tmp_path / f"{seed}.db"
        fgsv.value(MARCH, budget=120, seed=seed, ledger=path, progress=False)
        runs.append(fgsv.value(APRIL, budget=24, seed=1000 + seed, start=path, progress=False).values)
    z = (np.mean(runs, axis=0) - truth) / (np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4


def test_what_is_known_counts(tmp_path, quick):
    """With as many new evaluations the error is a fraction of that of a fresh run, and the intervals hold."""
    truth = fgsv.exact(APRIL).values
    fresh, started, inside = [], [], []
    for seed in range(12):
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
