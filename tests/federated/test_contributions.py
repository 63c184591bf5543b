"""Contributions: closed forms and conservation laws, with rounds made by hand."""

from itertools import permutations

import numpy as np
import pytest

import fgsv
from fgsv.federated import RoundLog, shards, value, weighted_mean
from fgsv.federated.log import LogError

WEIGHTS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 5}
RATE = np.array([0.2, -0.1, 0.3, 0.1, 0.4, 0.0])
"""How far each client goes towards its own optimum: f sends back what it received."""


def curved(model):
    """Return a curved score of one model."""
    return -float(((model["w"] - 1) ** 4).sum() + np.sin(3 * model["w"]).prod() + model["b"] ** 2)


def curved_stacks(models):
    w = models["w"]
    return -(((w - 1) ** 4).sum(axis=-1) + np.sin(3 * w).prod(axis=-1) + models["b"] ** 2)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Four rounds of six clients, of whom c is absent in the second and e from the third on."""
    log = RoundLog(tmp_path_factory.mktemp("log") / "rounds")
    rng = np.random.default_rng(0)
    model = {"w": np.zeros(3, dtype=np.float32), "b": np.float32(1)}
    optima = {client: rng.normal(1, 0.5, 3) for client in WEIGHTS}
    for number in range(1, 5):
        present = [c for c in WEIGHTS if (c, number) not in {("c", 2), ("e", 3), ("e", 4)}]
        updates = {
            client: {
                "w": (model["w"] + rate * (optima[client] - model["w"])).astype(np.float32),
                "b": np.float32(model["b"] * (1 - rate)),
            }
            for client, rate in zip(WEIGHTS, RATE, strict=True)
            if client in present
        }
        log.write(model, updates, WEIGHTS)
        total = sum(WEIGHTS[client] for client in present)
        model = {
            name: np.sum([WEIGHTS[c] * updates[c][name] for c in present], axis=0, dtype=np.float32)
            / np.float32(total)
            for name in model
        }
    return log


def by_permutations(log, score, number, clients):
    """Return the Shapley values of one round as averages over all orders: an oracle that shares no code."""
    this = log.read(number)
    players = [client for client, _ in this.players]
    values = dict.fromkeys(clients, 0.0)
    orders = list(permutations(range(len(players))))
    parts = this.weights / this.weights.sum()
    worth = {}
    for order in orders:
        inside = frozenset()
        for k in (None, *order):
            before = inside
            inside = inside if k is None else inside | {k}
            if inside not in worth:
                model = {
                    name: (array + sum(parts[j] * this.updates[j][name] for j in sorted(inside))).astype(array.dtype)
                    for name, array in this.before.items()
                }
                worth[inside] = score(model)
            if k is not None:
                values[players[k]] += (worth[inside] - worth[before]) / len(orders)
    return values


def test_exact_values_are_those_of_all_orders_and_sum_to_the_rise(log):
    rounds = value(log, curved, by_round=True, budget=2**6)
    for number in log.rounds:
        expected = by_permutations(log, curved, number, WEIGHTS)
        np.testing.assert_allclose(rounds.values[:, number - 1], [expected[c] for c in rounds.names], atol=1e-7)
    whole = value(log.folder, curved, budget=2**6)
    np.testing.assert_allclose(whole.values, rounds.values.sum(axis=1), atol=1e-12)
    after = [weighted_mean(this.before, this.updates, this.weights) for this in map(log.read, log.rounds)]
    rise = sum(
        curved(model) - curved(log.read(number).before) for number, model in zip(log.rounds, after, strict=True)
    )
    assert whole.values.sum() == pytest.approx(rise, abs=1e-6)
    assert whole.exact
    assert (whole.stderr == 0).all()


@pytest.mark.parametrize("options", [{"budget": 2**6}, {"budget": 40}, {"budget": 202, "method": "permutation"}])
def test_who_changed_nothing_has_exactly_zero(log, options):
    rounds = value(log, curved, by_round=True, **options)
    whole = value(log, curved, **options)
    assert whole["f"].value == 0
    assert whole["f"].stderr == 0
    assert rounds["f"].value.tolist() == [0.0] * 4
    assert rounds["c"].value[1] == 0
    assert rounds["e"].value[2:].tolist() == [0.0, 0.0]
    assert (rounds.values != 0).sum() == 4 * 6 - 4 - 3
    np.testing.assert_allclose(whole.values.sum(), whole.total, rtol=1e-9)
    np.testing.assert_allclose(rounds.values.sum(axis=0), rounds.total, rtol=1e-9)


def test_stacked_and_batched_scores_are_those_one_by_one(log):
    masks = np.random.default_rng(1).random((20, 6)) < 0.5
    one = fgsv.federated.game(log, curved)
    stack = fgsv.federated.game(log, curved_stacks, stacked=True)
    np.testing.assert_allclose(stack(masks), one(masks), rtol=1e-5)
    assert (one(masks) == np.concatenate([one(mask[None]) for mask in masks])).all()
    typed = []
    fgsv.federated.game(log, lambda model: typed.append({k: a.dtype for k, a in model.items()}) or 0.0)(masks[:1])
    assert typed[0] == {"w": np.float32, "b": np.float32}


def test_each_different_model_is_scored_once_in_a_batch(log):
    calls = []
    played = fgsv.federated.game(log, lambda model: float(len(calls)) if calls.append(1) else 0.0, rounds=[1, 3])
    played(np.array([[1, 0, 0, 0, e, 0] for e in (0, 1)], dtype=bool))  # e is absent in round 3
    assert len(calls) == 3


def test_institutions_own_clients_and_a_ledger_knows_the_run(log, tmp_path):
    options = {"fingerprint": "curved", "ledger": tmp_path / "ledger.db", "budget": 2**6}
    each = value(log, curved, **options)
    owned = value(log, curved, groups={"a": "north", "b": "north"}, **options)
    assert owned.names == ("north", "c", "d", "e", "f")
    assert owned["north"].value == pytest.approx(each["a"].value + each["b"].value)
    calls = []
    value(log, lambda model: calls.append(1), **options)
    assert calls == []
    value(log, lambda model: calls.append(1) or 0.0, rounds=[1, 2], **options)
    assert calls  # other rounds are another game


def test_few_evaluations_are_near_the_exact_values(log):
    exact = value(log, curved, budget=2**6).values
    active = slice(0, 5)
    errors = []
    for seed in range(12):
        estimate = value(log, curved, budget=40, seed=seed, unbiased=True)
        errors.append((estimate.values - exact)[active] / estimate.stderr[active])
    assert np.abs(errors).mean() < 1.5  # 0.8 if errors are normal
    assert np.abs(np.mean(errors, axis=0)).max() < 4 / np.sqrt(12) * 1.5


def test_another_aggregation_needs_its_function(tmp_path):
    def median(before, changes, weights):
        return {name: array + np.median([c[name] for c in changes], axis=0) for name, array in before.items()}

    log = RoundLog(tmp_path, aggregation="FedMedian")
    model = {"w": np.zeros(2)}
    for _ in range(2):
        updates = {c: {"w": model["w"] + k} for k, c in enumerate("abc")}
        log.write(model, updates, dict.fromkeys("abc", 1))
        model = {"w": model["w"] + 1}
    with pytest.raises(LogError, match="aggregated by 'FedMedian': give aggregate="):
        value(log, curved)
    with pytest.raises(LogError, match="do not give the global model of round 2: 'w' differs by"):
        value(log, curved, aggregate=lambda before, changes, weights: before)
    valued = value(log, lambda model: model["w"].sum(), aggregate=median, budget=8)
    # a never changes anything; with both b and c the median is that of 0, 1 and 2, else of two zeros: 0
    np.testing.assert_allclose(valued.values, [0, 2, 2])


def test_noise_and_missing_rounds_are_noticed(tmp_path):
    log = RoundLog(tmp_path)
    model = {"w": np.zeros(2)}
    for number in (1, 2, 4):
        log.write({"w": model["w"] + number}, {"a": {"w": model["w"] + number + 1}}, {"a": 1}, number=number)
    with pytest.raises(LogError, match="round 2 do not give the global model of round 4") as error:
        value(log, curved)
    assert "noise hides the updates" in str(error.value)
    value(log, lambda model: model["w"].sum(), rounds=[1, 4], budget=2)


def test_half_precision_gives_nearly_the_same_values(log, tmp_path):
    half = RoundLog(tmp_path, float16=True)
    for number in log.rounds:
        this = log.read(number)
        updates = dict(zip(this.players, this.updates, strict=True))
        half.write(this.before, updates, dict(zip(this.players, this.weights, strict=True)), difference=True)
    exact = value(log, curved, budget=2**6)
    np.testing.assert_allclose(value(half, curved, budget=2**6).values, exact.values, atol=2e-3)


def test_rounds_of_another_run_and_bad_arguments_are_named(log, tmp_path):
    first = RoundLog(tmp_path / "first")
    second = RoundLog(tmp_path / "second")
    for each in (first, second):
        each.write({"w": np.zeros(1)}, {"a": {"w": np.ones(1)}}, {"a": 1}, number=1 + (each is second))
    (tmp_path / "second" / "round-0002").rename(tmp_path / "first" / "round-0002")
    evaluated = []
    for given, options, error, message in (
        (first, {}, LogError, "rounds 1 and 2 are of different runs"),
        (tmp_path / "none", {}, LogError, "it has none"),
        (log, {"rounds": [9]}, LogError, "rounds 9 are not all in"),
        (log, {"rounds": []}, LogError, "rounds to value are not all in"),
        (log, {"rounds": "last"}, TypeError, 'rounds must be "all" or a list'),
        (log, {"groups": {"z": "north"}}, ValueError, "groups names z, but the clients are a, b"),
        (
            log,
            {"groups": ["north"] * 6},
            TypeError,
            "expected a mapping from clients to institutions as groups, got list",
        ),
        (log, {"method": "finite_difference"}, ValueError, "value of each player"),
        (log, {"aggregate": "mean"}, TypeError, "aggregate must be a function, got str"),
    ):
        with pytest.raises(error, match=message):
            value(given, evaluated.append, **options)
    with pytest.raises(TypeError, match="evaluate must be a function, got float"):
        value(log, 1.0)
    assert evaluated == []


def test_shards_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(107, 3))
    key = rng.bytes(16)
    parts = shards(rows, size=10, key=key)
    contents = [sorted(map(tuple, rows[part])) for part in parts]
    assert [len(part) for part in parts] == [10] * 10 + [7]
    assert sorted(np.concatenate(parts).tolist()) == list(range(107))
    mine = np.concatenate([parts[k] for k in (7, 0, 10)])  # in any order
    theirs = np.setdiff1d(np.arange(107), mine)
    again = [
        sorted(map(tuple, half[part]))
        for half in (rows[mine], rows[theirs])
        for part in shards(half, size=10, key=key)
    ]
    assert sorted(again) == sorted(contents)
    other = shards(rows, size=10, key=rng.bytes(16))
    assert sorted(sorted(map(tuple, rows[part])) for part in other) != sorted(contents)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"size": 0}, ValueError, "size must be at least 1"),
        ({"key": b"short"}, ValueError, "key must have 16 to 64 bytes, got 5"),
        ({"key": 3}, TypeError, "expected bytes as key"),
        ({"rows": [None]}, TypeError, "numbers, texts or bytes"),
    ],
)
def test_bad_shards_are_named(change, error, message):
    with pytest.raises(error, match=message):
        shards(**({"rows": ["a"], "size": 1, "key": bytes(16)} | change))
