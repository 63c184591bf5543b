"""Flower: a strategy that wraps another and logs what it sees; the training does not change."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fgsv.federated.log import Arrays, LogError, Player, RoundLog

WEIGHT = "num-examples"
"""The metric by which Flower weighs clients unless the strategy names another."""


class FlowerLog:
    """Wrap a strategy of Flower's message API (`flwr.serverapp.strategy`), and log every round of its run.

    It keeps the global model of `configure_train` and the replies of `aggregate_train`, and leaves everything to the
    strategy, so a run has the same bits as without it. A round that cannot be logged gives a warning, and the
    training goes on. A reply may have several array records, one per shard, and a metric record of the same name for
    each: then the strategy gets their weighted mean.

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
        settings = {name: each for name, each in vars(strategy).items() if isinstance(each, str | int | float)}
        kind = type(strategy).__name__
        self.strategy = strategy
        self.log = RoundLog(folder, **({"aggregation": kind, "settings": settings} | options))
        self.log.check_run()
        self._names = names or (lambda reply: str(reply.metadata.src_node_id))
        self._earlier = max(self.log.rounds, default=0)  # of a run that continues
        self._global: Arrays = {}

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":  # not yet there, as in an unpickled copy
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def start(self, *arguments: Any, **options: Any) -> Any:
        """Run the rounds as the strategy does."""
        return type(self.strategy).start(self, *arguments, **options)

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Keep the global model, then do what the strategy does."""
        self._global = _arrays_of(arrays)
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Log the replies, once the strategy has aggregated them."""
        replies = list(replies)
        number = self._earlier + server_round
        received = None
        try:
            received = self._received(replies)  # before the strategy, which may change them
        except Exception as error:
            _warn(number, error)
        for reply in replies:
            if not reply.has_error() and len(reply.content.array_records) > 1:
                _merge(reply, self._weighted_by)
        result = self.strategy.aggregate_train(server_round, replies)
        if result[0] is not None and received is not None:
            try:
                self.log.write(self._global, *received, number=number)
            except Exception as error:
                _warn(number, error)
        return result

    @property
    def _weighted_by(self) -> str:
        return getattr(self.strategy, "weighted_by_key", WEIGHT)

    def _received(self, replies: list[Any]) -> tuple[dict[Player, Arrays], dict[Player, float]]:
        """Return the arrays and the weight of each reply, or of each of its shards."""
        updates, weights = {}, {}
        for reply in replies:
            if reply.has_error():
                continue
            client, metrics = self._names(reply), reply.content.metric_records
            several = len(reply.content.array_records) > 1
            for key, arrays in reply.content.array_records.items():
                player = (client, key if several else "")
                if player in updates:
                    raise LogError(f"two replies are of client {client!r:.100}")
                updates[player] = _arrays_of(arrays)
                weights[player] = (metrics[key] if several else next(iter(metrics.values())))[self._weighted_by]
        return updates, weights


def _arrays_of(record: Any) -> Arrays:
    """Return the arrays of a record of Flower's, as a copy."""
    return {name: array.numpy().copy() for name, array in record.items()}


def _merge(reply: Any, weighted_by: str) -> None:
    """Give a reply of several shards the form that strategies expect: the weighted mean, and the sum of weights."""
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    weights = {key: reply.content.metric_records[key][weighted_by] for key in reply.content.array_records}
    total = sum(weights.values())
    parts = [(weights[key] / total, _arrays_of(record)) for key, record in reply.content.array_records.items()]
    mean = {name: sum(part * arrays[name].astype(float) for part, arrays in parts) for name in parts[0][1]}
    record = ArrayRecord({name: Array(each.astype(parts[0][1][name].dtype)) for name, each in mean.items()})
    reply.content = RecordDict({"arrays": record, "metrics": MetricRecord({weighted_by: total})})


def _warn(number: int, error: Exception) -> None:
    warnings.warn(f"round {number} was not logged: {error}", RuntimeWarning, stacklevel=3)
