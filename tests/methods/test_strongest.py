"""Games in which the strongest member decides: recognised, hardly sampled, and unbiased where they are not."""

import json

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.games import Airport
from fgsv.methods.covariance import opening, process
from fgsv.methods.covariance.opening_epoch import OpeningEpoch
from fgsv.methods.covariance.process import Process
from fgsv.methods.enumeration import semivalues
from fgsv.semivalue import SHAPLEY

COSTS = np.array([1.0, 4, 2, 2, 8, 5, 3])
AIRPORT = Airport(np.arange(1.0, 9) ** 2)


def all_masks(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def fitted(masks, utilities):
    return Process.default(masks.shape[1]).fitted(masks, utilities.reshape(len(masks), -1), 10)


def some_masks(n):
    """Return the ends, the sizes 1 and n - 1, and a third of the rest."""
    masks = all_masks(n)
    return masks[(masks.sum(axis=1) % (n - 1) < 2) | (np.random.default_rng(0).random(2**n) < 0.3)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("weakest", [False, True])
def test_ranks_are_found_whatever_the_sign_and_whichever_end_decides(sign, weakest):
    masks, ranks = some_masks(7), np.array([1, 4, 2, 2, 6, 5, 3])
    utilities = np.where(masks, COSTS, 9).min(axis=1) % 9 if weakest else Airport(COSTS)(masks)
    np.testing.assert_array_equal(fitted(masks, sign * utilities).ranks, 7 - ranks if weakest else ranks)


def test_no_ranks_where_players_add_up_or_one_of_them_is_not_known_alone():
    masks = some_masks(7)
    assert fitted(masks, np.sqrt(masks @ COSTS)).ranks is None
    lacking = masks[(masks.sum(axis=1) != 1) | ~masks[:, 0]]
    assert fitted(lacking, Airport(COSTS)(lacking)).ranks is None
    assert fitted(masks, (masks.sum(axis=1) > 3).astype(float)).ranks is None


def test_ranks_are_found_by_a_fit_to_some_of_the_utilities():
    """The values of single players order all players, also if some of them are not among those fitted to."""
    masks = all_masks(7)[np.random.default_rng(0).permutation(128)]
    found = Process.default(7).fitted(masks, Airport(COSTS)(masks)[:, None], 10, most=48)
    np.testing.assert_array_equal(found.ranks, [1, 4, 2, 2, 6, 5, 3])


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf"])
def test_few_evaluations_are_enough(semivalue):
    game = fgsv.Game(lambda masks: np.stack([AIRPORT(masks), -3 * AIRPORT(masks)], axis=1), 8, outputs=("u", "v"))
    truth = fgsv.exact(AIRPORT, semivalue=semivalue).values
    found = fgsv.value(game, semivalue=semivalue, budget=48)
    np.testing.assert_allclose(found.values, np.stack([truth, -3 * truth], axis=1), atol=1e-5)
    assert (found.stderr.max(axis=0) < [0.1, 0.3]).all()  # if one prediction failed, by the smallest step: 3 and 9


def test_ranks_are_recorded_and_followed(tmp_path):
    game = fgsv.Game(AIRPORT, 8, fingerprint="airport")
    stated = fgsv.value(game, budget=100, ledger=tmp_path / "run.db")
    assert fgsv.verify(stated, tmp_path / "run.db") == []
    law = opening.first_law(8, np.ones(7), 20)
    epoch = OpeningEpoch(2, 22, law, Process(8, Process.default(8).parameters, np.arange(1, 9)), np.zeros((0, 1)))
    read = OpeningEpoch.from_dict(json.loads(json.dumps(epoch.to_dict())))
    assert read.resembles(epoch)
    other = OpeningEpoch(2, 22, law, Process.default(8), np.zeros((0, 1)))
    assert not read.resembles(other)


@pytest.mark.parametrize(("before", "now"), [(range(9), range(1, 9)), (range(1, 9), range(9))])
def test_a_start_from_a_run_with_other_players(tmp_path, before, now):
    """The strongest has left, or joined."""
    costs = np.arange(9.0, 0, -1) ** 2
    airports = [Airport(costs[list(players)]) for players in (before, now)]
    first, second = (
        fgsv.Game(airport, airport.n_players, frame="airport", players=[f"airline {each}" for each in players])
        for airport, players in zip(airports, (before, now), strict=True)
    )
    fgsv.value(first, budget=64, ledger=tmp_path / "first.db")
    found = fgsv.value(second, budget=40, start=tmp_path / "first.db")
    np.testing.assert_allclose(found.values, airports[1].shapley, atol=1e-4)


def test_unbiased_with_ranks_that_mean_nothing(monkeypatch):
    """Heavy-tailed utilities without structure, two epochs."""
    monkeypatch.setattr(process, "_CONVINCING", -np.inf)
    shorten_fits(monkeypatch)
    monkeypatch.setattr(opening, "EPOCHS", (16, 32, 64, 128))
    n, n_runs = 5, 25
    utilities = np.random.default_rng(0).exponential(size=2**n) ** 2
    game = fgsv.Game(lambda masks: utilities[masks @ (1 << np.arange(n))], n)
    runs = np.array([fgsv.value(game, budget=20, seed=seed).values for seed in range(n_runs)])
    off = runs.mean(axis=0) - semivalues(utilities[:, None], SHAPLEY)[:, 0]
    assert np.abs(off / (runs.std(axis=0, ddof=1) / np.sqrt(n_runs))).max() < 3.9
