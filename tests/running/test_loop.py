"""The loop: what it yields is a snapshot, and users bring rules, methods and semivalues of their own."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from oracles import Binomial
from scipy.special import comb

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.running.stopping import MaxSeconds
from fgsv.valuation import End, Reason


def test_every_round_of_a_sample_that_ends_in_enumeration_keeps_its_state():
    game = Airport(np.arange(1.0, 9))
    kept = list(fgsv.iterate(game, stderr=1e-12, budget=2**10))
    assert kept[-1].exact
    assert not any(valuation.exact for valuation in kept[:-1])
    for valuation in kept[:-1:2]:
        alone = fgsv.value(game, budget=valuation.n_evaluations)
        assert alone.values.tobytes() == valuation.values.tobytes()


@dataclass
class Seen:
    """A rule that remembers what it was shown."""

    counts: list = field(default_factory=list)

    reason: ClassVar[Reason] = Reason.TIME

    def __call__(self, progress):
        assert progress.seconds >= progress.round_seconds >= 0
        assert progress.valuation.n_evaluations == progress.n_evaluations
        self.counts.append(progress.n_evaluations)
        return "three rounds" if len(self.counts) == 3 else None


def test_a_rule_of_ones_own_sees_every_round_and_names_its_reason():
    rule = Seen()
    result = fgsv.value(SumOfUnanimity(20), stop=rule)
    assert rule.counts == [16, 32, 48]
    assert result.end == End(Reason.TIME, "three rounds")
    same = fgsv.value(SumOfUnanimity(20), budget=48)
    assert same.values.tobytes() == result.values.tobytes()


def test_rules_stand_beside_the_built_in_ones():
    never, at_once = (lambda progress: None), (lambda progress: "at once")
    both = fgsv.value(SumOfUnanimity(20), stop=[never, at_once], max_seconds=1e-9)
    assert both.end == End(Reason.TARGET, "time limit of 1e-09 s reached; at once")
    assert fgsv.value(SumOfUnanimity(20), stop=never, budget=100).end.reason is Reason.BUDGET
    assert fgsv.value(SumOfUnanimity(20), stop=MaxSeconds(1e-9)).end.reason is Reason.TIME


@pytest.mark.parametrize(("confidence", "level"), [(0.95, "95%"), (0.975, "97.5%"), (0.999, "99.9%")])
def test_a_level_of_confidence_is_not_rounded(confidence, level):
    result = fgsv.value(SumOfUnanimity(20), ["one"] * 5 + ["many"] * 15, precision=0.3, confidence=confidence)
    assert str(result.end) == f"every share is within 0.3 at {level} confidence"
    assert f"at {level} confidence" in str(fgsv.results.verdict(result, confidence=confidence))
    assert f"at {level} confidence" in str(fgsv.plan(SumOfUnanimity(20), pilot=64, confidence=confidence))


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_rule_may_answer_with_true_or_false(kind):
    def forty(progress):
        return kind(progress.n_evaluations >= 40)

    result = fgsv.value(SumOfUnanimity(20), stop=forty)
    assert result.n_evaluations == 48
    assert result.end == End(Reason.TARGET, "the rule forty is met")


@pytest.mark.parametrize("answer", [0, 1, 0.5, "", " "])
def test_a_rule_that_answers_with_a_number_or_without_a_word_is_an_error(answer):
    def looked(progress):
        return answer

    with pytest.raises(TypeError, match=f"the rule looked must return text or True .* got {answer!r}"):
        fgsv.value(SumOfUnanimity(20), stop=looked, budget=100)


@pytest.mark.parametrize("stop", ["soon", 3, [lambda progress: None, 3]])
def test_a_rule_that_is_no_rule_is_refused_before_work_is_spent(stop):
    def game(masks):
        raise AssertionError("evaluated")

    with pytest.raises(TypeError, match="stop must be one or more callables"):
        fgsv.value(fgsv.Game(game, 5), stop=stop)


def test_a_semivalue_of_ones_own_plugs_in(random_game):
    game = fgsv.Game(random_game(6), 6)
    exact = fgsv.exact(game, semivalue=Binomial(0.3))
    masks = (np.arange(64)[:, None] >> np.arange(6)) & 1 == 1
    chances = np.where(masks, 0.3, 0.7)
    gains = game(masks | (np.arange(6) == 2)) - game(masks & (np.arange(6) != 2))
    expected = (np.delete(chances, 2, axis=1).prod(axis=1) * gains).sum() / 2  # each set of others stands twice
    assert exact.values[2] == pytest.approx(expected)
    options = {"semivalue": Binomial(0.3), "budget": 60, "unbiased": True}
    runs = [fgsv.value(game, seed=seed, **options).values for seed in range(80)]
    z = (np.mean(runs, axis=0) - exact.values) / (np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    assert not exact.efficient
    half = fgsv.exact(game, semivalue=Binomial(0.5)).values
    np.testing.assert_allclose(half, fgsv.exact(game, semivalue="banzhaf").values)


class Wrong:
    def __init__(self, weights):
        self.weights = weights

    def log_weights(self, n_players):
        return self.weights


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(5), "sum to 1"),
        (np.zeros(4), "shape"),
        (np.full(5, np.nan), "finite"),
        (np.log(np.array([2.0, 1, 1, 1, 1]) / 5 / comb(4, np.arange(5))), "sum to 1"),
    ],
)
def test_weights_that_are_no_semivalue_are_refused(weights, words):
    with pytest.raises(ValueError, match=words):
        fgsv.value(Airport([1, 2, 3, 4, 5]), semivalue=Wrong(weights))


def test_one_cost_may_hold_for_all_sizes_but_it_is_a_function():
    game = SumOfUnanimity(20)
    plain, same = fgsv.value(game, budget=100), fgsv.value(game, budget=100, cost=lambda sizes: 2.0)
    np.testing.assert_allclose(same.values, plain.values)
    with pytest.raises(TypeError, match="cost must be a function from an array of sizes to relative costs"):
        fgsv.value(game, budget=100, cost=2.0)
