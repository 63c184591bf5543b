"""Flower: a strategy that wraps another and logs what it sees; the training does not change."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.federated.log import Arrays, LogError, Player, RoundLog


class FlowerLog:
    """Wrap a strategy of Flower's message API (`flwr.serverapp.strategy`), and log every round of its run.

    It keeps the global model of `configure_train` and the replies of `aggregate_train`, and leaves everything to the
    strategy, so a run has the same bits as without it. A round that cannot be logged gives a warning, and the
    training goes on. A reply may have several array records, one for each shard, and their weights in its metric
    record, by the names of these: then the strategy gets their weighted mean.

    Args:
        strategy: Any strategy.
        folder: Folder of the log.
        names: A function from a reply to the client's name. Default: the node's id, which Flower has checked; a name
            that the client sends is a claim.
        options: Options of `RoundLog`: run, layers, float16.

    Raises:
        ValueError, TypeError: An argument is wrong, the strategy hides the updates, or the folder has another run.

    Examples:
        In a ServerApp:

            strategy = FlowerLog(FedAvg(), "rounds")
            strategy.start(grid, initial_arrays, num_rounds=15)

    """

    def __init__(
        self, strategy: Any, folder: str | Path, *, names: Callable[[Any], str] | None = None, **options: Any
    ) -> None:
        self.strategy = strategy
        self.log = RoundLog(
            folder,
            aggregation=type(strategy).__name__,
            settings={name: each for name, each in vars(strategy).items() if isinstance(each, str | int | float)},
            **options,
        )
        self.log.check_run()
        self._names = names or (lambda reply: str(reply.metadata.src_node_id))
        self._weighted_by = getattr(strategy, "weighted_by_key", "num-examples")
        self._earlier = max(self.log.rounds, default=0)  # of a run that continues
        self._global: Arrays = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["strategy"], name)

    def start(self, *arguments: Any, **options: Any) -> Any:
        """Run the rounds as the strategy does."""
        return type(self.strategy).start(self, *arguments, **options)

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Keep the global model, then do what the strategy does.

        Args:
            server_round: The number of the round, from 1.
            arrays: The global model, an `ArrayRecord`.
            config: The configuration that clients are sent.
            grid: The grid of the run.

        Returns:
            The strategy's messages to the clients.

        """
        self._global = _arrays_of(arrays)
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Do what the strategy does, and log the replies if they were aggregated."""
        replies = list(replies)
        answers = [reply for reply in replies if not reply.has_error()]
        received: dict[Player, tuple[Arrays, float]] = {}
        with _reported(self._earlier + server_round):
            received = self._received(answers)  # before the strategy, which may change them
        for reply in answers:
            if len(reply.content.array_records) > 1:
                _merge(reply, self._weighted_by)
        result = self.strategy.aggregate_train(server_round, replies)
        if result[0] is not None and received:
            with _reported(self._earlier + server_round):
                self.log.write(
                    self._global,
                    {player: arrays for player, (arrays, _) in received.items()},
                    {player: weight for player, (_, weight) in received.items()},
                    number=self._earlier + server_round,
                )
        return result

    def _received(self, answers: list[Any]) -> dict[Player, tuple[Arrays, float]]:
        """Return the arrays and the weight of each reply, or of each of its shards."""
        received: dict[Player, tuple[Arrays, float]] = {}
        for reply in answers:
            for shard, (arrays, weight) in _shards_of(reply.content, self._weighted_by).items():
                player = (self._names(reply), shard)
                if player in received:
                    raise LogError(f"two replies are of client {player[0]!r:.100}")
                received[player] = _arrays_of(arrays), weight
        return received


@contextmanager
def _reported(number: int) -> Iterator[None]:
    """Warn of an error in the block: a round that is not logged does not end the training."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"round {number} was not logged: {error}", RuntimeWarning, stacklevel=4)


def _arrays_of(record: Any) -> Arrays:
    """Return the arrays of a record of Flower's, as a copy."""
    return {name: array.numpy().copy() for name, array in record.items()}


def _shards_of(content: Any, weighted_by: str) -> dict[str, tuple[Any, float]]:
    """Return the arrays and the weight of each shard in a reply; of a client that is not cut, there is one."""
    metrics = next(iter(content.metric_records.values()))
    if len(content.array_records) == 1:
        return {"": (*content.array_records.values(), metrics[weighted_by])}
    return {shard: (arrays, metrics[shard]) for shard, arrays in content.array_records.items()}


def _merge(reply: Any, weighted_by: str) -> None:
    """Give a reply of several shards the form that strategies expect: the weighted mean, and the sum of weights."""
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    parts = [(weight, _arrays_of(arrays)) for arrays, weight in _shards_of(reply.content, weighted_by).values()]
    total = sum(weight for weight, _ in parts)
    mean = {
        name: Array(np.sum([weight / total * arrays[name] for weight, arrays in parts], axis=0).astype(first.dtype))
        for name, first in parts[0][1].items()
    }
    reply.content = RecordDict({"arrays": ArrayRecord(mean), "metrics": MetricRecord({weighted_by: total})})
