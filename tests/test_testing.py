"""fgsv.testing: each check finds what is broken, and says so."""

import os
import secrets
from dataclasses import dataclass, replace
from typing import ClassVar

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend
from oracles import Binomial

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.evaluation import batch
from fgsv.methods import Draws
from fgsv.testing import check_backend, check_game, check_method, check_semivalue
from fgsv.valuation import Estimate


def sums(masks):
    return masks @ np.arange(1.0, 7)


class Own:
    """A game of six players, with a fault."""

    n_players = 6

    def __init__(self, fault="", **stated):
        self.fault, self.n_calls = fault, 0
        vars(self).update(stated)

    def __call__(self, masks):
        self.n_calls += 1
        return sums(masks) + getattr(self, self.fault or "none")(masks)

    def none(self, masks):
        return 0.0

    def later(self, masks):
        return 1e-12 * self.n_calls

    def of_the_batch(self, masks):
        return masks.mean()

    def of_the_copy(self, masks):
        return float(getattr(self, "is_copy", False))

    def __getstate__(self):
        return vars(self) | {"is_copy": True}


class Elsewhere(Own):
    """A game that is another one in another process than its own."""

    def __call__(self, masks):
        return sums(masks) + (os.getpid() != self.process)


class Named(Own):
    """A game whose fingerprint is another one in every process."""

    @property
    def fingerprint(self):
        return str(hash("six players"))


def in_order(coalitions):
    return sums(coalitions.masks()) + coalitions.inverted


LATER = Own("later")
GAMES = {
    "the second time, U is": Own("later"),
    "in batches of 1, U is": Own("of_the_batch"),
    "as masks and not as lists, U is": Own(evaluate_lists=in_order),
    "after pickling, U is": Own("of_the_copy"),
    "1 outputs, expected 2": Own(outputs=("one", "two")),
    "cost must give positive numbers": Own(cost=lambda sizes: sizes - 1),
    "unfitted must return": Own(unfitted=lambda coalitions, values: np.zeros(3)),
    "retrain.1. has the same values": Own(retrain=lambda k: sums),
    "trained with the same other seed": Own(retrain=lambda k: LATER),
    "players must have different ids": Own(frame="six", players=list("aabcde")),
}


@pytest.mark.parametrize(("words", "game"), GAMES.items(), ids=GAMES)
def test_a_broken_game_is_told(words, game):
    with pytest.raises((AssertionError, ValueError, fgsv.GameError), match=words):
        check_game(game, n_jobs=1)


def test_a_game_that_is_another_in_other_processes_is_told():
    with pytest.raises(AssertionError, match="in other processes, U is"):
        check_game(Elsewhere(process=os.getpid()))
    with pytest.raises(AssertionError, match="its fingerprint is another one in other processes"):
        check_game(Named())


def test_a_game_that_says_all_of_itself_passes():
    check_game(
        Own(
            outputs=("sum",),
            independent_rows=True,
            cost=lambda sizes: sizes,
            unfitted=lambda coalitions, values: coalitions.sizes == 0,
            retrain=lambda k: lambda masks: sums(masks) + k,
            evaluate_lists=lambda coalitions: sums(coalitions.masks()),
        ),
        n_jobs=1,
    )


class Inconsistent:
    """Beta(n, 1): weights for each n, but not those of one semivalue."""

    def log_weights(self, n_players):
        return fgsv.semivalue.Beta(n_players, 1).log_weights(n_players)


class Unnormed:
    def log_weights(self, n_players):
        return np.zeros(n_players)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "beta(0.5, 3)", "beta(16, 1)", Binomial(0.3)], ids=str)
def test_semivalues_pass(semivalue):
    check_semivalue(semivalue)


def test_a_broken_semivalue_is_told():
    with pytest.raises(AssertionError, match="for 2 players are not those for 3"):
        check_semivalue(Inconsistent())
    with pytest.raises(ValueError, match="must sum to 1"):
        check_semivalue(Unnormed())


@dataclass(frozen=True)
class Permutations:
    """Plain Monte Carlo by permutations, with a fault."""

    fault: str = ""

    name: ClassVar[str] = "permutations"

    def least(self, task):
        return 2 + 10 * (task.n_players - 1)

    def start(self, problem):
        return Running(self.fault, problem)


class Running:
    def __init__(self, fault, problem):
        self.fault, self.problem, self.sums, self.count = fault, problem, None, 0

    def draw(self, rng):
        n = self.problem.n_players
        if self.fault == "its own seed":
            rng = np.random.default_rng(self.count)
        if self.fault == "no seed":
            rng = np.random.default_rng(secrets.randbits(32))
        orders = rng.permuted(np.tile(np.arange(n), (10, 1)), axis=1)
        if self.fault == "groups first":
            orders = np.take_along_axis(orders, self.problem.task.partition.codes[orders].argsort(axis=1), axis=1)
        last = n + 1 if self.fault == "the whole" else n
        masks = np.argsort(orders, axis=1)[:, None, :] < np.arange(1, last)[:, None]
        return Draws(Coalitions.from_masks(masks.reshape(-1, n)), orders)

    def update(self, draws, values):
        orders, n = draws.plan, self.problem.n_players
        empty, full = (np.full((len(orders), 1), end[0]) for end in self.problem.ends)
        along = np.concatenate([empty, values.reshape(len(orders), -1)[:, : n - 1], full], axis=1)
        gains = np.empty((len(orders), n))
        np.put_along_axis(gains, orders, np.diff(along, axis=1), axis=1)
        if self.sums is None:
            self.sums = np.zeros(n)
        self.sums += gains.sum(axis=0)
        self.count += len(orders)

    def estimate(self):
        values = self.sums / self.count
        if self.fault == "one buffer":
            self.buffer = getattr(self, "buffer", values)
            self.buffer[:] = values
            values = self.buffer
        if self.fault == "biased":
            values = values + 0.1 * (values - values.mean())
        if self.fault == "absolute":
            values = values + self.problem.ends[0] / 100
        values = 1.01 * values if self.fault == "not efficient" else values
        return Estimate(values[:, None], efficient=True)


METHODS = {
    "biased": "the mean of 12 runs is off by",
    "not efficient": "off by|sum to U.N. - U.0.",
    "groups first": "off by|depends on the groups",
    "its own seed": "off by|the seed changes nothing",
    "no seed": "a run that is watched has other values|depends on the groups|changes with the next",
    "the whole": "were evaluated 5. times in all|were evaluated .* times",
    "one buffer": "changes with the next one",
    "absolute": "a constant added to the game changes values",
}


@pytest.mark.parametrize(("fault", "words"), METHODS.items(), ids=METHODS)
def test_a_broken_method_is_told(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_method(Permutations(fault), budget=1000)


def test_a_method_of_ones_own_passes():
    check_method(Permutations(), budget=1000)
    result = fgsv.value(fgsv.games.Airport([1.0, 2.0, 4.0]), method=Permutations(), budget=100)
    assert (result.method, result.settings.options) == ("permutations", {"fault": ""})
    with pytest.raises(ValueError, match="needs a budget of at least"):
        check_method(Permutations(), budget=100)


class Altered(ThreadingBackend):
    """A back end whose workers alter what they were asked for."""

    def submit(self, func, callback=None):
        return super().submit(lambda: self.change(func()), callback)


class OtherBits(Altered):
    def change(self, outcome):
        return replace(outcome, values=outcome.values + 1e-14)


class NoFailures(Altered):
    def change(self, outcome):
        return (
            replace(outcome, values=np.zeros((len(outcome.values), 1)), failures={}) if outcome.failures else outcome
        )


class Forgetful(ThreadingBackend):
    """A back end whose workers get the game with every batch."""

    supports_sharedmem = False

    def submit(self, func, callback=None):
        return super().submit(lambda: (batch._games.clear(), func())[1], callback)


BACK_ENDS = {
    "other bits than in this process": OtherBits,
    "does not count as on_error says": NoFailures,
    "sent the game more than once": Forgetful,
}


@pytest.mark.parametrize(("words", "broken"), BACK_ENDS.items(), ids=BACK_ENDS)
def test_a_broken_back_end_is_told(words, broken):
    joblib.register_parallel_backend("broken", broken)
    with joblib.parallel_config(backend="broken", n_jobs=2), pytest.raises(AssertionError, match=words):
        check_backend()
