"""Draws of earlier runs with players who have left, and their partners."""

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.ledger import known
from fgsv.methods.covariance import beginning
from fgsv.methods.covariance.beginning import Beginning, _resembling, _used
from fgsv.methods.covariance.design import Cells, divided
from fgsv.methods.covariance.prediction import predict
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import widened
from fgsv.methods.covariance.target import Target
from fgsv.running.verification import verify
from fgsv.semivalue import SHAPLEY

N = 9
UTILITIES = np.random.default_rng(0).exponential(size=2**N)


def market(players):
    """Return a game without structure whose players are some of nine."""
    bits = 1 << np.array(players)
    names = [f"player {each}" for each in players]
    return fgsv.Game(lambda masks: UTILITIES[masks @ bits], len(bits), frame="market", players=names)


@pytest.fixture
def small(monkeypatch):
    """Cells of few coalitions have partners too, and fits are quick."""
    monkeypatch.setattr(beginning, "PLENTY", 20)
    shorten_fits(monkeypatch)


def test_a_partner_is_uniform_in_its_cell_and_has_most_of_a_draw():
    """For draws that are uniform themselves."""
    rng, there, found = np.random.default_rng(0), np.arange(7) < 6, []
    for _ in range(1500):
        mask = np.zeros(7, dtype=bool)
        mask[rng.permutation(6)[: rng.integers(1, 6)]] = True
        found.append(_resembling(mask, there, 4, rng))
        assert (found[-1] & mask).sum() == min(4, mask.sum())
    each, count = np.unique(found, axis=0, return_counts=True)
    assert (len(each), each.sum(axis=1).tolist(), each[:, 6].any()) == (15, [4] * 15, False)
    assert ((count - 100) ** 2 / 100).sum() < 42  # chi-squared with 14 degrees of freedom


def test_values_of_what_is_predicted_from_coalitions_with_players_who_left():
    """They are the Shapley values of the posterior mean among the others, by enumeration."""
    n, rng = 5, np.random.default_rng(1)
    everything = (np.arange(2**7)[:, None] >> np.arange(7)) & 1 == 1
    process = Process(7, Process.default(7).parameters + 0.1 * rng.normal(size=len(Process.default(7).parameters)))
    chosen = rng.permutation(np.flatnonzero(everything[:, n:].any(axis=1)))[:30]
    related = everything[chosen]
    masks = everything[[0, 31, 3, 12, 21]][:, :n]
    values = rng.normal(size=(35, 1))
    values[:2] = 0
    found = predict(Target.of(SHAPLEY, n), Cells(np.zeros(n, dtype=int)), masks, values, process, related)
    taught = widened(masks, related)
    matrix = process.covariance(taught, taught) + np.diag(process.own_variance(taught.sum(axis=1)))
    utilities = process.covariance(everything[:32], taught) @ np.linalg.solve(matrix, values)
    utilities[masks @ (1 << np.arange(n))] = values[:5]
    expected = fgsv.exact(fgsv.Game(lambda each: utilities[each @ (1 << np.arange(n)), 0], n)).values
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-8)


def test_what_has_partners(tmp_path, small):
    """Where most old draws have somebody who left; each partner is in its bin, and new or the draw itself."""
    fgsv.value(market(range(N)), budget=150, ledger=tmp_path / "march.db", progress=False)
    found = known(market(range(2, N)), [tmp_path / "march.db"])
    assert found.related.n_players == N
    assert found.related.masks()[:, N - 2 :].any(axis=1).all()
    bits = np.append(np.arange(2, N), [0, 1] if _first_left_is_zero() else [1, 0])
    np.testing.assert_array_equal(found.related.values[:, 0], UTILITIES[found.related.masks() @ (1 << bits)])
    start = Beginning.of(found, 0)
    cells = start.cells
    assert start.bins
    assert min(cells.sizes[np.concatenate(start.bins)]) > 1
    wanted = np.ones(len(cells.sizes))
    law = divided(cells, wanted, cells.known(start.masks), 100, bins=start.bins)
    partners = start.partners(law, before=2)
    assert law.is_bin(law.stratum_of[cells.of(partners.masks)]).all()
    here = np.concatenate([start.masks, start.related[:, : N - 2]])[np.where(partners.rows < 0, 0, partners.rows - 2)]
    assert (here == partners.masks).all(axis=1)[partners.same].all()
    old = {row.tobytes() for row in start.masks}
    assert not any(row.tobytes() in old for row in partners.masks[~partners.same])


def test_coalitions_with_newcomers_have_no_partners(tmp_path, small):
    """All that is known of them comes from new draws: one more or less would bias the others."""
    fgsv.value(market(range(8)), budget=100, ledger=tmp_path / "march.db", progress=False)
    start = Beginning.of(known(market(range(1, N)), [tmp_path / "march.db"]), 0)
    assert start.cells.n_levels == 2
    assert len(start.bins)
    assert np.concatenate(start.bins).max() < N  # cells of the first level


def _first_left_is_zero():
    digests = market([0, 1]).player_digests()
    return digests[:16] < digests[16:]


@pytest.mark.parametrize(("before", "after"), [(range(9), range(2, 9)), (range(8), range(1, 9))])
def test_unbiased_over_old_and_new_draws(before, after, tmp_path, small):
    """Two of nine players leave; or one leaves and one joins."""
    before, after = market(before), market(after)
    truth = fgsv.exact(after).values
    errors, inside = [], []
    for seed in range(6):
        path = tmp_path / f"{seed}.db"
        fgsv.value(before, budget=80, seed=seed, ledger=path, progress=False)
        found = fgsv.value(after, budget=24, seed=1000 + seed, start=path, progress=False)
        errors.append(found.values - truth)
        inside.append(np.abs(errors[-1]) <= found.half_width(0.95))
    z = np.mean(errors, axis=0) / (np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors)))
    assert np.abs(z).max() < 7  # of Student's distribution with 5 degrees of freedom
    assert np.mean(inside) > 0.8


def test_a_start_is_better_than_none_where_many_leave_and_join(tmp_path, monkeypatch):
    """A coalition without newcomers stands for few of its size."""
    monkeypatch.setattr(beginning, "PLENTY", 20)
    weights, pairs = np.random.default_rng(0).uniform(0.2, 2, size=20), np.random.default_rng(1).normal(size=(20, 20))

    def game(players):
        def function(masks):
            inside = np.zeros((len(masks), 20))
            inside[:, players] = masks
            of_two = ((inside @ pairs) * inside).sum(axis=1)
            return np.sqrt(inside @ weights) + 0.1 * np.sin(of_two / 5)

        return fgsv.Game(function, len(players), frame="roots", players=players)

    before, after = game(range(16)), game(range(4, 20))
    truth, errors = fgsv.exact(after).values, []
    for seed in range(3):
        path = tmp_path / f"{seed}.db"
        fgsv.value(before, budget=300, seed=seed, ledger=path)
        found = [fgsv.value(after, budget=50, seed=seed, start=start).values for start in (None, path)]
        errors.append([np.square(values - truth).mean() for values in found])
    fresh, started = np.sqrt(np.mean(errors, axis=0))
    assert started < 0.7 * fresh


def test_what_is_used_of_more_than_can_be():
    """Whole cells; then of each size as large a part, valid draws before related ones; memos last."""
    sizes = np.repeat([1, 2, 3, 4], [5, 40, 5, 10])
    drawn, whole, of_related = sizes < 4, sizes == 1, np.repeat([2, 3], [10, 45])
    used, related = _used(sizes, drawn, whole, of_related, most=25)
    assert np.bincount(sizes[used], minlength=5).tolist() == [0, 5, 10, 5, 0]  # ten of fifty draws of each size
    assert of_related[related].tolist() == [3] * 5
    used, related = _used(sizes, drawn, whole, of_related, most=1000)
    assert (len(used), len(related)) == (60, 55)


def test_what_was_forgotten_does_not_count(tmp_path, small):
    from fgsv.ledger.forgetting import forget

    path = tmp_path / "march.db"
    fgsv.value(market(range(N)), budget=150, ledger=path, progress=False)
    assert known(market(range(2, N)), [path]).related is not None
    forget(path, ["player 0"])
    related = known(market(range(2, N)), [path]).related
    assert related.n_players == N - 1
    forget(path, ["player 1"])
    assert known(market(range(2, N)), [path]).related is None


def test_same_bits_again_and_verified_from_the_new_ledger_alone(tmp_path, small):
    march, april, after = tmp_path / "march.db", tmp_path / "april.db", market(range(2, N))
    fgsv.value(market(range(N)), budget=80, ledger=march, progress=False)
    options = {"seed": 1, "start": march, "progress": False}
    found = fgsv.value(after, budget=40, ledger=april, **options)
    assert found.values.tolist() == fgsv.value(after, budget=40, **options).values.tolist()
    march.unlink()
    assert not verify(found, april)
