"""Contributions: what each client of a federated run added to the score of the global model, round by round."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.checks import as_list, check_type
from fgsv.federated.log import Arrays, LogError, Player, Round, RoundLog
from fgsv.game import Game
from fgsv.running import run
from fgsv.types import Floats, Masks
from fgsv.valuation import Valuation
from fgsv.words import some

Aggregate = Callable[[Arrays, Sequence[Arrays], Floats], Arrays]
"""From the global model, each player's change (zeros if absent) and weight to the next global model."""
MEANS = ("FedAvg", "FedProx")
"""Aggregations whose next global model is the weighted mean."""
ROUNDINGS = 32
"""How many times the rounding of a model a reproduced one may differ from it."""
OF_CHANGE = 2e-3
"""By how much of the largest change it may differ, which allows for changes in half precision."""
STACK_BYTES = 2**26
"""Bytes of the models that are made at a time."""


def weighted_mean(before: Arrays, changes: Sequence[Arrays], weights: Floats) -> Arrays:
    """Return the next global model of FedAvg: w + sum over k of (weight_k / sum of all weights) change_k.

    Args:
        before: The global model w: arrays by name.
        changes: The change of each client; zeros of one that is absent, whose weight still counts.
        weights: (k,) their weights.

    Examples:
        >>> import numpy as np
        >>> changes = [{"w": np.array([1.0, 0.0])}, {"w": np.array([0.0, 4.0])}]
        >>> weighted_mean({"w": np.zeros(2)}, changes, np.array([3, 1]))["w"].tolist()
        [0.75, 1.0]

    """
    parts = weights / weights.sum()
    return {
        name: array + sum(part * change[name] for part, change in zip(parts, changes, strict=True))
        for name, array in before.items()
    }


def value(
    log: RoundLog | str | Path,
    evaluate: Callable[[Arrays], Any],
    *,
    groups: Mapping[str, Any] | None = None,
    rounds: str | Sequence[int] = "all",
    by_round: bool = False,
    aggregate: Aggregate | None = None,
    stacked: bool = False,
    fingerprint: str | None = None,
    **options: Any,
) -> Valuation:
    """Return what each client, or each institution, contributed to a federated run, as the sum over its rounds.

        contribution(k) = sum over rounds r of the Shapley value of k in U_r

    with U_r of `game`. A round's game starts from the global model that the run really had, so nothing is trained
    again; it is not what training without a client would have given. An absent client has exactly 0 in a round, as
    has one that changed nothing, and the contributions of a round sum to the rise of the score. It costs one
    `evaluate` per round for each different coalition: 2^n in all for n players with a budget of 2^n, which is exact.

    Args:
        log: The log of the run, or its folder.
        evaluate: A function from a model (arrays by name) to its score on the server's data, higher is better. Take
            minus a loss: it changes with every update, which an accuracy does not.
        groups: The institution of each client, as a mapping; clients that it leaves out are their own. Default: each
            client is valued for itself. A client's shards are its players.
        rounds: Numbers of the rounds to value. Clients who were in none of them are left out. Default: all.
        by_round: Whether to return each round's contributions, as outputs of the valuation, rather than their sum.
        aggregate: How the run aggregated, if not by the weighted mean: see `weighted_mean` for arguments and result.
        stacked: Whether `evaluate` takes many models at once: arrays with one more axis, in front, to (m,) scores.
        fingerprint: What identifies `evaluate` and its data in a ledger, such as "log loss, test set 3".
        options: Other arguments of `fgsv.value`: budget, precision, seed, n_jobs, ledger, and so on.

    Returns:
        The valuation. Its intervals hold for the sums over rounds.

    Raises:
        LogError: The log is damaged, or the updates do not give the next global model.
        ValueError, TypeError: An argument is wrong; nothing was evaluated.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> log = RoundLog(tempfile.mkdtemp())
        >>> models = {"north": {"w": np.array([2.0])}, "south": {"w": np.array([0.0])}}
        >>> _ = log.write({"w": np.zeros(1)}, models, {"north": 30, "south": 10})
        >>> result = value(log, lambda model: 1 - (model["w"][0] - 2) ** 2, budget=4)
        >>> result.names, result.values.tolist()
        (('north', 'south'), [3.75, 0.0])

    """
    if "finite_difference" in (options.get("method"), getattr(options.get("method"), "name", None)):
        raise ValueError("contributions need the value of each player, which the method 'finite_difference' has not")
    played = game(
        log,
        evaluate,
        rounds=rounds,
        by_round=by_round,
        aggregate=aggregate,
        stacked=stacked,
        fingerprint=fingerprint,
    )
    scores = played.function
    assert isinstance(scores, _Scores)
    valuation = run.value(played, _owners(scores.players, groups), **options)
    return _with_exact_zeros(valuation, scores.active)


def game(
    log: RoundLog | str | Path,
    evaluate: Callable[[Arrays], Any],
    *,
    rounds: str | Sequence[int] = "all",
    by_round: bool = False,
    aggregate: Aggregate | None = None,
    stacked: bool = False,
    fingerprint: str | None = None,
) -> Game:
    """Return the game of a federated run, whose players are the clients, or their shards.

        U(S) = sum over rounds r of U_r(S)
        U_r(S) = score(w_r + sum over k in S of (weight_k / sum of all weights) change_k)

    An absent client counts as one that changed nothing: the weights are those of the whole round. Every file of the
    log is checked first, and that each round's updates give the next round's global model.

    Args:
        log: The log of the run, or its folder.
        evaluate: A function from a model (arrays by name) to its score, higher is better.
        rounds: Numbers of the rounds. Default: all.
        by_round: Whether U_r of each round is an output of its own, rather than their sum.
        aggregate: How the run aggregated, if not by the weighted mean: see `weighted_mean`.
        stacked: Whether `evaluate` takes many models at once: arrays with one more axis, in front, to (m,) scores.
        fingerprint: What identifies `evaluate` and its data in a ledger.

    Returns:
        The game; with a fingerprint, one that a ledger knows again.

    Raises:
        LogError: The log is damaged, or the updates do not give the next global model.
        TypeError: An argument is wrong; nothing was evaluated.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> log = RoundLog(tempfile.mkdtemp())
        >>> models = {"north": {"w": np.array([2.0])}, "south": {"w": np.array([1.0])}}
        >>> _ = log.write({"w": np.zeros(1)}, models, {"north": 30, "south": 10})
        >>> game(log, lambda model: model["w"][0])([[0, 0], [1, 0], [1, 1]]).ravel().tolist()
        [0.0, 1.5, 1.75]

    """
    log = log if isinstance(log, RoundLog) else RoundLog(log)
    for name, given in {"evaluate": evaluate, "aggregate": aggregate or weighted_mean}.items():
        if not callable(given):
            raise TypeError(f"{name} must be a function, got {type(given).__name__}")
    chosen = _chosen(log, rounds)
    active: dict[Player, list[bool]] = {}
    digest = hashlib.sha256(b"by round" if by_round else b"sum")
    for place, number in enumerate(chosen):
        this = log.read(number)
        digest.update(this.sha256.encode())
        if aggregate is None and this.aggregation not in MEANS:
            raise LogError(
                f"round {number} was aggregated by {this.aggregation!r:.100}: give aggregate=, a function that does "
                "the same; fgsv.federated.weighted_mean if it is the weighted mean"
            )
        for following in [later for later in log.rounds if later > number][:1]:
            _check_next(this, log.read(following), aggregate or weighted_mean)
        for player, change, weight in zip(this.players, this.updates, this.weights, strict=True):
            changes = (weight > 0 or aggregate is not None) and any(array.any() for array in change.values())
            active.setdefault(player, [False] * len(chosen))[place] = changes
    players = sorted(active)
    return Game(
        _Scores(
            log,
            chosen,
            players,
            np.array([active[player] if by_round else [any(active[player])] for player in players]),
            evaluate,
            aggregate,
            stacked,
            by_round,
        ),
        len(players),
        outputs=tuple(f"round {number}" for number in chosen) if by_round else None,
        weights=(1.0,) * len(chosen) if by_round else None,
        fingerprint=None
        if fingerprint is None
        else hashlib.sha256(digest.digest() + fingerprint.encode()).hexdigest(),
        independent_rows=not stacked,
    )


@dataclass(frozen=True, eq=False)
class _Scores:
    """The scores of the coalitions' models: (m, n) to (m,), or (m, R) by round. A round is in memory at a time."""

    log: RoundLog
    rounds: list[int]
    players: list[Player]
    active: Masks
    """(n, R), or (n, 1): whether a player changed something in a round, or in any."""
    evaluate: Callable[[Arrays], Any]
    aggregate: Aggregate | None
    stacked: bool
    by_round: bool

    def __call__(self, masks: Masks) -> Floats:
        scores = np.stack([self._round(self.log.read(number), masks) for number in self.rounds], axis=1)
        return scores if self.by_round else scores.sum(axis=1)

    def _round(self, this: Round, masks: Masks) -> Floats:
        """Return (m,) the scores in one round; coalitions that differ in absent players are scored once."""
        places = [self.players.index(player) for player in this.players]
        different, place = np.unique(masks[:, places], axis=0, return_inverse=True)
        step = max(1, STACK_BYTES // (8 * sum(array.size for array in this.before.values())))
        parts = [self._scored(this, different[start : start + step]) for start in range(0, len(different), step)]
        return np.concatenate(parts)[place.ravel()]

    def _scored(self, this: Round, masks: Masks) -> Floats:
        """Return the scores of these coalitions' models."""
        models = _means(this, masks) if self.aggregate is None else _aggregates(this, masks, self.aggregate)
        typed = {
            name: (np.rint(models[name]) if array.dtype.kind in "biu" else models[name]).astype(array.dtype)
            for name, array in this.before.items()
        }
        if self.stacked:
            return np.asarray(self.evaluate(typed), dtype=float).reshape(len(masks))
        each = ({name: array[row] for name, array in typed.items()} for row in range(len(masks)))
        return np.array([float(self.evaluate(model)) for model in each])


def _means(this: Round, masks: Masks) -> Arrays:
    """Return the models of coalitions, stacked; added player by player, so that a batch changes no bit."""
    models = {name: np.repeat(array.astype(float)[None], len(masks), axis=0) for name, array in this.before.items()}
    for inside, part, change in zip(masks.T, this.weights / this.weights.sum(), this.updates, strict=True):
        for name, stack in models.items():
            stack[inside] += part * change[name]
    return models


def _aggregates(this: Round, masks: Masks, aggregate: Aggregate) -> Arrays:
    """Return the models of coalitions, stacked, by the user's own rule."""
    nothing = {name: np.zeros(array.shape) for name, array in this.before.items()}
    models = [
        aggregate(
            this.before,
            [change if inside else nothing for inside, change in zip(mask, this.updates, strict=True)],
            this.weights,
        )
        for mask in masks
    ]
    return {name: np.stack([np.asarray(model[name]) for model in models]) for name in this.before}


def _chosen(log: RoundLog, rounds: str | Sequence[int]) -> list[int]:
    """Return the rounds to value."""
    found = log.rounds
    listed = (
        found if isinstance(rounds, str) and rounds == "all" else as_list(rounds, 'rounds must be "all" or a list')
    )
    if not listed or not {*listed} <= {*found}:
        raise LogError(
            f"rounds {some(listed) or 'to value'} are not all in {log.folder}: it has {some(found) or 'none'}"
        )
    return sorted({*listed})


def _check_next(this: Round, following: Round, aggregate: Aggregate) -> None:
    """Raise an error unless a round's updates give the next round's global model, but for rounding."""
    if following.run != this.run:
        raise LogError(f"rounds {this.number} and {following.number} are of different runs")
    made = aggregate(this.before, this.updates, this.weights)
    for name, array in {n: a for n, a in following.before.items() if a.dtype.kind == "f"}.items():
        gap = np.abs(made[name] - array.astype(float)).max(initial=0.0)
        largest = max(np.abs(change[name]).max(initial=0.0) for change in this.updates)
        if not gap <= ROUNDINGS * np.finfo(array.dtype).eps * np.abs(array).max(initial=0.0) + OF_CHANGE * largest:
            raise LogError(
                f"the updates of round {this.number} do not give the global model of round {following.number}: "
                f"{name!r:.100} differs by {gap:.2g}. The run aggregated in another way (give aggregate=), a round "
                "is missing, or secure aggregation, encryption or noise hides the updates, which cannot be valued"
            )


def _owners(players: Sequence[Player], groups: Mapping[str, Any] | None) -> list[Any]:
    """Return the group of each player."""
    check_type(groups or {}, Mapping, "a mapping from clients to institutions as groups")
    owners = {client: client for client, _ in players} | dict(groups or {})
    if unknown := owners.keys() - {client for client, _ in players}:
        raise ValueError(
            f"groups names {some(sorted(unknown))}, but the clients are {some(sorted(owners.keys() - unknown))}"
        )
    return [owners[client] for client, _ in players]


def _with_exact_zeros(valuation: Valuation, active: Masks) -> Valuation:
    """Return a valuation in which players who changed nothing in a round have exactly 0 in it.

    Their true values are 0, so what sampling gave them is an error: the others share it equally, in values and in
    deviations, which keeps sums, and errors right.
    """

    def corrected(values: Any) -> Any:
        misplaced = np.where(active, 0, values).sum(axis=-2, keepdims=True) / np.maximum(active.sum(axis=0), 1)
        return np.where(active, values + misplaced, 0).astype(values.dtype)

    estimate = valuation.estimate
    assert not estimate.of_groups
    deviations = None if estimate.deviations is None else corrected(estimate.deviations)
    return replace(
        valuation,
        estimate=replace(estimate, values=corrected(estimate.values), deviations=deviations, stderr=None),
    )
