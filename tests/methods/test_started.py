"""Runs that start from what is known: evaluations without those who left, and those with them, teach the process."""

import numpy as np
import pytest

import fgsv

N = 10
WEIGHTS = np.linspace(0.2, 2.0, N)
PAIRS = np.triu(np.random.default_rng(0).normal(scale=0.3, size=(N, N)), 1)


def utility(inside):
    return np.sqrt(inside @ WEIGHTS) + ((inside @ PAIRS) * inside).sum(axis=1)


def market(players):
    """Return a game whose players are some of ten, the same game each month."""
    columns = np.array(players)

    def function(masks):
        inside = np.zeros((len(masks), N))
        inside[:, columns] = masks
        return utility(inside)

    return fgsv.Game(function, len(columns), frame="market", players=[f"player {each}" for each in players])


ALL, ALL_BUT_ONE, ALL_BUT_ANOTHER = market(range(N)), market(range(1, N)), market(range(N - 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [(ALL, ALL_BUT_ONE), (ALL_BUT_ONE, ALL), (ALL_BUT_ANOTHER, ALL_BUT_ONE)],
    ids=["one leaves", "one joins", "both"],
)
def test_what_is_known_counts_and_intervals_hold(before, after, tmp_path):
    truth = fgsv.exact(after).values
    fresh, started, held = [], [], []
    for seed in range(6):
        path = tmp_path / f"{seed}.db"
        fgsv.value(before, budget=200, seed=seed, ledger=path, progress=False)
        options = {"budget": 24, "seed": 1000 + seed, "progress": False}
        fresh.append(fgsv.value(after, **options).values - truth)
        again = fgsv.value(after, start=path, **options)
        started.append(again.values - truth)
        held.append(np.abs(started[-1]) <= again.half_width(0.95))
        assert again.n_known > 50
    assert np.square(started).mean() < 0.25 * np.square(fresh).mean()
    assert np.mean(held) > 0.8


def test_nothing_known_is_evaluated_again(tmp_path):
    fgsv.value(ALL, budget=200, ledger=tmp_path / "march.db", progress=False)
    before = {tuple(row) for row in _evaluated(tmp_path / "march.db")}
    result = fgsv.value(ALL, start=tmp_path / "march.db", budget=50, ledger=tmp_path / "april.db", progress=False)
    assert result.n_evaluations == 50
    assert result.n_known == len(before)


def _evaluated(path):
    from fgsv.ledger import known

    return known(ALL, [path]).masks().tolist()


def test_known_evaluations_count_towards_the_least_budget(tmp_path):
    fgsv.value(ALL, budget=100, ledger=tmp_path / "march.db", progress=False)
    with pytest.raises(ValueError, match="at least 8"):
        fgsv.value(ALL_BUT_ONE, budget=5, progress=False)
    assert fgsv.value(ALL_BUT_ONE, budget=5, start=tmp_path / "march.db", progress=False).n_evaluations <= 5


def test_a_quick_game_of_many_players_learns_nothing_from_what_is_known(tmp_path):
    weights = np.linspace(0, 1, 80)

    def game(first):
        return fgsv.Game(
            lambda masks: np.sqrt(masks @ weights[first:]),
            80 - first,
            frame="roots",
            players=list(range(first, 80)),
            seconds=1e-6,
        )

    fgsv.value(game(0), budget=100, ledger=tmp_path / "march.db", progress=False)
    found = fgsv.value(game(1), budget=100, start=tmp_path / "march.db", progress=False)
    assert found.settings.options["learn"] == "sizes"
    assert found.n_evaluations == 100
