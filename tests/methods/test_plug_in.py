"""Values that are not corrected: coalitions chosen for what they tell, a smaller error, a bias that is asked for."""

from dataclasses import replace

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.ledger.earlier import known
from fgsv.methods.covariance import Covariance, choice, opening
from fgsv.methods.covariance.choice import _candidates, choose
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.proxy import Proxy
from fgsv.methods.covariance.target import Target
from fgsv.methods.method import OtherLaw, Problem, Task
from fgsv.partition import Partition
from fgsv.running.verification import verify
from fgsv.semivalue import SHAPLEY

WEIGHTS = np.linspace(0.2, 2.0, 12)
NOISE = np.random.default_rng(0).normal(scale=0.3, size=2**12)
GROUPS = np.arange(12) % 3
GAME = fgsv.Game(
    lambda masks: np.sqrt(masks @ WEIGHTS) + NOISE[masks @ (1 << np.arange(12))], 12, fingerprint="roots and noise"
)


@pytest.fixture
def quick(monkeypatch):
    """Short fits: nothing but the precision depends on them."""
    shorten_fits(monkeypatch)
    monkeypatch.setattr(opening, "STEPS_CHOOSING", 2)


def opened(n, budget, seed=0, look=False):
    """Return an opening after so many evaluations of a smooth game, and the laws of its rounds."""
    weights = np.linspace(0.2, 2.0, n)
    ends = np.sqrt([[0.0], [weights.sum()]])
    problem = Problem(Task(n, Partition.of(np.arange(n))), ends)
    run = opening.Opening(problem, Proxy.nothing(n, 1), None, plug_in=True, most_known=4000)
    laws = []
    while run.n_evaluations < budget:
        draws = run.draw(np.random.default_rng([seed, len(laws)])).within(budget - run.n_evaluations)
        run.update(draws, np.sqrt(draws.coalitions.masks() @ weights)[:, None])
        laws.append(draws.law)
        if look:
            run.estimate()
    return run, laws


def test_closer_with_honest_errors():
    truth = fgsv.exact(GAME).values
    corrected, predicted = (
        [fgsv.value(GAME, seed=seed, budget=64, plug_in=plug_in) for seed in range(5)] for plug_in in (False, True)
    )
    error, biased = (np.sqrt(np.mean([(run.values - truth) ** 2 for run in runs])) for runs in (corrected, predicted))
    assert biased < 0.9 * error
    assert np.mean([np.abs(run.values - truth) <= run.half_width(0.95) for run in predicted]) >= 0.95
    for plugged in predicted:
        assert plugged.values.sum() == pytest.approx(plugged.total)
        assert plugged.settings.options["plug_in"] is True


def test_errors_hold_the_difference_to_what_the_draws_correct(quick):
    run, _ = opened(12, 64)
    predicted = run.estimate()
    run._plug_in = False
    corrected = run.estimate()
    for group in np.eye(12)[:3] + np.eye(12)[3:6]:
        error, own = (((group @ each.deviations) ** 2).sum() for each in (predicted, corrected))
        assert error == pytest.approx(own + (group @ (predicted.values - corrected.values)).item() ** 2, rel=1e-4)


def test_additive_over_players_and_derived_from_its_ledger(tmp_path):
    found = fgsv.value(GAME, GROUPS, budget=64, plug_in=True, ledger=tmp_path / "run.db")
    np.testing.assert_allclose(found.values, np.bincount(GROUPS, found.player_values), rtol=1e-12)
    assert verify(found, tmp_path / "run.db") == []


def test_in_its_second_epoch_too(tmp_path, quick):
    found = fgsv.value(GAME, GROUPS, budget=100, plug_in=True, ledger=tmp_path / "run.db")
    assert verify(found, tmp_path / "run.db") == []


def test_whoever_looks_changes_nothing(monkeypatch, quick):
    monkeypatch.setattr(opening, "CHOSEN", (32, 80))
    (seen, laws), (unseen, same) = (opened(8, 112, look=look) for look in (True, False))
    assert laws == same
    np.testing.assert_array_equal(seen.masks, unseen.masks)
    np.testing.assert_array_equal(seen.estimate().values, unseen.estimate().values)


def test_nothing_is_predicted_where_everything_is_known():
    assert fgsv.value(GAME, budget=2**12, plug_in=True).exact


@pytest.mark.parametrize("seconds", [None, 1e-6])
def test_it_opens_with_hundreds_of_players_and_cheap_evaluations(seconds):
    unanimity = SumOfUnanimity(150, seed=1)
    game = fgsv.Game(unanimity, 150, seconds=seconds)
    corrected, predicted = (fgsv.value(game, budget=48, plug_in=each).values for each in (False, True))
    truth = unanimity.shapley
    assert np.square(predicted - truth).sum() < 0.25 * np.square(corrected - truth).sum()
    assert Covariance(plug_in=True).opens_with(Task(513, fgsv.Partition.of(np.arange(513)))) is None


# --- the choice


@pytest.mark.parametrize("everything", [6, 5])
def test_the_best_candidates_by_enumeration(monkeypatch, everything):
    """The first lowers the summed posterior variance most, and the second most of the rest."""
    monkeypatch.setattr(choice, "ALL", everything)
    monkeypatch.setattr(choice, "CANDIDATES", 24)
    n, rng = 6, np.random.default_rng(3)
    parameters = Process.default(n).parameters
    process = Process(n, parameters + 0.5 * rng.standard_normal(len(parameters)))
    target, cost = Target.of(SHAPLEY, n), np.linspace(1, 2, n + 1)
    seen = rng.permutation((np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1 == 1)[:12]
    masks, weights = _candidates(target, np.random.default_rng(5))

    def variance(*more):
        everything = np.concatenate([seen, *(masks[[each]] for each in more)])
        matrix = process.covariance(everything, everything)
        matrix[np.diag_indices(len(everything))] += process.own_variance(everything.sum(axis=1))
        between = process.covariance(masks, everything)
        left = process.covariance(masks, masks) - between @ np.linalg.solve(matrix, between.T)
        return np.trace(weights.T @ left @ weights)

    def best(*before):
        known = {row.tobytes() for row in np.concatenate([seen, masks[list(before)]])}
        gain = [
            -np.inf if row.tobytes() in known else (variance(*before) - variance(*before, place)) / cost[row.sum()]
            for place, row in enumerate(masks)
        ]
        return int(np.argmax(gain))

    found = choose(process, target, seen, 2, cost, np.random.default_rng(5))
    first = best()
    np.testing.assert_array_equal(found, masks[[first, best(first)]])


def test_with_few_players_the_candidates_are_all_coalitions():
    """So that their weights give values exactly, but for the ends."""
    masks, weights = _candidates(Target.of(SHAPLEY, 8), np.random.default_rng(0))
    game = SumOfUnanimity(8, seed=1)
    ends = (game(np.ones((1, 8), dtype=bool)) - game(np.zeros((1, 8), dtype=bool))) / 8
    assert len(np.unique(masks, axis=0)) == 2**8 - 2
    np.testing.assert_allclose(weights.T @ game(masks) + ends, game.shapley)


def test_half_of_the_evaluations_are_chosen_and_none_is_asked_for_twice(quick):
    run, laws = opened(9, 2**9)
    first, last = opening.CHOSEN
    assert run.complete.all()
    assert len(np.unique(run.masks, axis=0)) == 2**9
    assert run._chosen.sum() == (last - first) // 2
    assert sum(len((law or {}).get("chosen", ())) for law in laws) == run._chosen.sum()


def test_pairs_of_complements_stay_pairs_beside_what_is_chosen(quick):
    run, _ = opened(12, 64)
    law, drawn = run.epochs[0].law, run.masks[2:][~run._chosen[2:]]
    paired = drawn[law.stratum_of[law.cells.of(drawn)] == 0]
    paired = paired[: len(paired) // 2 * 2]
    assert run._chosen.any()
    np.testing.assert_array_equal(paired[::2], ~paired[1::2])


def test_a_recorded_choice_is_followed_if_it_is_as_good(quick):
    run, laws = opened(12, 48)
    rng = [0, len(laws)]
    draws = run.draw(np.random.default_rng(rng))
    again = draws.follow(draws.law, np.random.default_rng(rng))
    np.testing.assert_array_equal(again.coalitions.masks(), draws.coalitions.masks())
    for other in (draws.law["chosen"][::-1], ["0000"] * 8, draws.law["chosen"][:3]):
        with pytest.raises(OtherLaw, match="chosen"):
            draws.follow({"chosen": other}, np.random.default_rng(rng))


def test_what_was_chosen_is_known_to_a_later_run_but_not_as_drawn(tmp_path, quick):
    players = [f"player {each}" for each in range(12)]
    game = replace(GAME, frame="a frame", players=tuple(fgsv.game.player_digest(each) for each in players))
    for plug_in in (False, True):
        fgsv.value(game, budget=64, plug_in=plug_in, ledger=tmp_path / f"{plug_in}.db")
        found = known(game, [tmp_path / f"{plug_in}.db"])
        assert len(found) >= 62
        assert bool((found.run >= 0).any()) is not plug_in


@pytest.mark.parametrize(("n", "options"), [(513, {}), (12, {"opening": False}), (12, {"surrogate": False})])
def test_without_an_opening_it_is_refused_before_any_evaluation(n, options):
    def never(masks):
        raise AssertionError

    with pytest.raises(ValueError, match=f"plug_in=True .* this run has none: .* and {n} players"):
        fgsv.value(fgsv.Game(never, n), plug_in=True, **options)


def test_few_players_are_valued_exactly_with_it():
    assert fgsv.value(fgsv.Game(lambda masks: masks.sum(axis=1) ** 2.0, 3), plug_in=True).exact
