"""Strategies of Flower under the log: the same bits, FedAvg reproduced, shards as players."""

import logging
import random

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, FedMedian
from flwr.supercore.task_identity import TaskIdentity

from fgsv.federated import FlowerLog, RoundLog, value, weighted_mean
from fgsv.federated.log import LogError

logging.getLogger("flwr").setLevel(logging.ERROR)
TARGETS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
FREE_RIDER = 4


class InProcess(Grid):
    """A grid whose nodes are functions in this process."""

    run = None

    def __init__(self, nodes):
        self.nodes = nodes

    def set_run(self, run_id):
        pass

    def create_message(self, content, message_type, dst_node_id, group_id="", ttl=None):
        return Message(content=content, message_type=message_type, dst_node_id=dst_node_id, group_id=group_id)

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return []

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            try:
                yield Message(self.nodes[message.metadata.dst_node_id](message.content), reply_to=message)
            except RuntimeError as error:
                yield Message(Error(code=0, reason=str(error)), reply_to=message)


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Let messages be made outside a run of Flower's."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def record(w):
    return ArrayRecord({"w": Array(np.asarray(w, dtype=np.float32))})


def node(number):
    def train(content):
        w = content["arrays"]["w"].numpy()
        if number == 3 and content["config"]["server-round"] == 2:
            raise RuntimeError("out of memory")
        new = w if number == FREE_RIDER else w + 0.3 * (TARGETS[number] - w)
        return RecordDict({"arrays": record(new), "metrics": MetricRecord({"num-examples": 10 * (number + 1)})})

    return train


def cut_node(number):
    """Return a node that trains on three shards."""

    def train(content):
        w = content["arrays"]["w"].numpy()
        shards = {f"shard {k}": w + 0.1 * (k + 1) * (TARGETS[number] - w) for k in range(3)}
        metrics = MetricRecord(dict.fromkeys(shards, 10 + number))
        return RecordDict({name: record(new) for name, new in shards.items()} | {"metrics": metrics})

    return train


def started(strategy, make=node, n=5):
    random.seed(0)  # Flower asks the nodes in a random order
    grid = InProcess({number: make(number) for number in range(n)})
    return strategy.start(grid, record(np.zeros(3)), num_rounds=4).arrays["w"].numpy()


def options():
    return {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}


@pytest.mark.parametrize("kind", [FedAvg, FedAdam, FedMedian])
def test_the_training_has_the_same_bits(tmp_path, kind):
    plain = started(kind(**options()))
    assert (started(FlowerLog(kind(**options()), tmp_path)) == plain).all()
    assert RoundLog(tmp_path).rounds == [1, 2, 3, 4]
    if kind is not FedAvg:
        with pytest.raises(LogError, match=f"aggregated by '{kind.__name__}'"):
            value(tmp_path, lambda model: model["w"].sum())
        with pytest.raises(LogError, match="do not give the global model of round"):
            value(tmp_path, lambda model: model["w"].sum(), aggregate=weighted_mean)


def test_fedavg_is_reproduced_and_a_free_rider_has_exactly_zero(tmp_path):
    last = started(FlowerLog(FedAvg(**options()), tmp_path))
    log = RoundLog(tmp_path)
    rounds = [log.read(number) for number in log.rounds]
    made = [weighted_mean(this.before, this.updates, this.weights)["w"] for this in rounds]
    for found, expected in zip(made, [*(this.before["w"] for this in rounds[1:]), last], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    goal = TARGETS.mean(axis=0)

    def score(model):
        return -float(((model["w"] - goal) ** 2).sum())

    valued = value(log, score, budget=2**5)
    by_round = value(log, score, budget=2**5, by_round=True)
    assert valued[str(FREE_RIDER)].value == 0
    assert by_round["3"].value[1] == 0  # it failed in the second round
    assert valued.values.sum() == pytest.approx(score({"w": last}) - score({"w": np.zeros(3)}), abs=1e-6)


def test_shards_are_players_and_the_strategy_gets_their_mean(tmp_path):
    last = started(FlowerLog(FedAvg(**options()), tmp_path), cut_node, n=2)
    log = RoundLog(tmp_path)
    assert sorted(log.read(1).players) == sorted((str(n), f"shard {k}") for n in range(2) for k in range(3))
    this = log.read(4)
    np.testing.assert_allclose(weighted_mean(this.before, this.updates, this.weights)["w"], last, atol=1e-6)
    valued = value(log, lambda model: model["w"].sum(), budget=2**6)
    assert (valued.names, valued.partition.sizes.tolist()) == (("0", "1"), [3.0, 3.0])


def test_noise_is_refused(tmp_path):
    noisy = DifferentialPrivacyServerSideFixedClipping(FedAvg(**options()), 1.0, 1.0, 5)
    with pytest.raises(ValueError, match="cannot be valued"):
        FlowerLog(noisy, tmp_path)
