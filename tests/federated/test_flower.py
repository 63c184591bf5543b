"""Flower: the log of a strategy, with replies made by hand; `make federated` runs Flower itself."""

from types import SimpleNamespace

import numpy as np
import pytest

from fgsv.federated import FlowerLog, RoundLog, value, weighted_mean
from fgsv.federated.log import LogError

MODEL = {"w": np.zeros(2, dtype=np.float32)}


class FedAvg:
    """What a strategy of Flower's has, as far as the log uses it."""

    def __init__(self):
        self.fraction_train = 1.0
        self.weighted_by_key = "rows"
        self.seen = []

    def configure_train(self, number, arrays, config, grid):
        return ["message"]

    def aggregate_train(self, number, replies):
        self.seen.append(replies)
        contents = [reply.content for reply in replies if not reply.has_error()]
        if not contents:
            return None, None
        weights = [next(iter(c.metric_records.values()))["rows"] for c in contents]
        parts = [
            weight / sum(weights) * next(iter(c.array_records.values()))["w"].numpy()
            for weight, c in zip(weights, contents, strict=True)
        ]
        return record({"w": np.sum(parts, axis=0)}), {}

    def start(self, rounds):
        """Run rounds as Flower does: with the strategy that it is called on."""
        arrays = record(MODEL)
        for number, replies in enumerate(rounds, 1):
            assert self.configure_train(number, arrays, {}, None) == ["message"]
            arrays = self.aggregate_train(number, iter(replies))[0] or arrays
        return arrays


def record(arrays):
    return {name: SimpleNamespace(numpy=lambda array=array: array) for name, array in arrays.items()}


def reply(node, w, rows=1, error=False):
    arrays = {"arrays": record({"w": np.asarray(w, dtype=np.float32)})}
    content = SimpleNamespace(array_records=arrays, metric_records={"metrics": {"rows": rows}})
    return SimpleNamespace(content=content, metadata=SimpleNamespace(src_node_id=node), has_error=lambda: error)


ROUNDS = [
    [reply(7, [1, 0], 3), reply(8, [0, 1]), reply(9, [5, 5], error=True)],
    [reply(7, [0, 0], error=True)],
    [reply(8, [1, 1]), reply(9, [0.75, 0.25])],
]


def test_a_strategy_is_logged_and_not_changed(tmp_path):
    plain = FedAvg().start(ROUNDS)
    strategy = FlowerLog(FedAvg(), tmp_path / "rounds", run="one")
    logged = strategy.start(ROUNDS)
    assert (logged["w"].numpy() == plain["w"].numpy()).all()
    assert strategy.seen == ROUNDS
    assert strategy.fraction_train == 1.0
    log = RoundLog(tmp_path / "rounds")
    assert log.rounds == [1, 3]  # nothing was aggregated in the second
    first, last = map(log.read, log.rounds)
    assert (first.run, first.aggregation) == ("one", "FedAvg")
    assert first.players == (("7", ""), ("8", ""))
    assert first.weights.tolist() == [3, 1]
    assert last.players == (("8", ""), ("9", ""))
    made = weighted_mean(last.before, last.updates, last.weights)
    np.testing.assert_allclose(made["w"], logged["w"].numpy(), atol=1e-6)
    valued = value(log, lambda model: model["w"].sum(), budget=8)
    assert valued.names == ("7", "8", "9")
    np.testing.assert_allclose(valued.values, [0.75, 0.25 + 0.5, 0])


def test_a_run_continues_and_another_is_refused_before_it_trains(tmp_path):
    FlowerLog(FedAvg(), tmp_path, run="one").start(ROUNDS[:1])
    with pytest.raises(LogError, match="log of another run, 'one'"):
        FlowerLog(FedAvg(), tmp_path)
    FlowerLog(FedAvg(), tmp_path, run="one").start(ROUNDS[:1])
    assert RoundLog(tmp_path).rounds == [1, 2]


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        ([reply(7, [1, 0]), reply(7, [1, 0])], "round 1 was not logged: two replies are of client '7'"),
        ([reply(7, [np.inf, 0])], "round 1 was not logged: round 1, client .*no finite number"),
    ],
)
def test_a_round_that_cannot_be_logged_gives_a_warning_and_the_training_goes_on(tmp_path, replies, message):
    with pytest.warns(RuntimeWarning, match=message):
        FlowerLog(FedAvg(), tmp_path).start([replies])
    assert RoundLog(tmp_path).rounds == []


def test_a_round_that_the_strategy_does_not_aggregate_is_not_logged(tmp_path):
    undecided = type("FedAvg", (FedAvg,), {"aggregate_train": lambda self, number, replies: (None, None)})
    FlowerLog(undecided(), tmp_path).start(ROUNDS)
    assert RoundLog(tmp_path).rounds == []


def test_names_may_come_from_replies(tmp_path):
    FlowerLog(FedAvg(), tmp_path, names=lambda each: f"clinic {each.metadata.src_node_id}").start(ROUNDS[:1])
    assert RoundLog(tmp_path).read(1).players == (("clinic 7", ""), ("clinic 8", ""))
