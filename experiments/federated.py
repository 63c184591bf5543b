"""Ten hospitals train a network together: what each contributed, and how that compares with retraining.

One hospital has wrong labels, one sends back what it received, and one takes part as two clients.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

import fgsv
from experiments.records import save, say
from fgsv.federated import RoundLog, shards, weighted_mean
from fgsv.federated.log import Arrays
from fgsv.types import Floats, Masks

ROUNDS = 10
HIDDEN = 24
RATE = 0.3
BATCH = 15
TEST_ROWS = 400
SHARD_ROWS = 40
FREE_RIDER = "hospital 9"
MISLABELLED = "hospital 8"
SPLIT = "hospital 3"
AMOUNT = 100_000

Rows = tuple[np.ndarray, np.ndarray]
Client = Callable[[Arrays], Arrays]
"""From the global model, or a stack of models, to what the client makes of it."""
Consortium = dict[tuple[str, str], tuple[Client, int]]
"""The training and the number of rows of each client, or of each of its shards."""


def run(
    out: Path = Path("bench-out/federated"),
    *,
    seeds: int = 100,
    budget: int = 200,
    seed: int = 0,
    retrain: bool = True,
) -> pd.DataFrame:
    """Value ten hospitals that train together, under Flower's simulation where it is installed: about a minute.

    Estimates of `budget` evaluations with many `seeds` are compared with the exact values, and these, with `retrain`,
    with federations that are run anew for each coalition.
    """
    hospitals, test = ten_hospitals(seed)
    consortium = unsharded(hospitals)
    owners = {name: SPLIT for name, _ in consortium if name.startswith(SPLIT)}
    score = score_on(test)
    model = first_model(seed)
    with tempfile.TemporaryDirectory() as folder:
        log = RoundLog(Path(folder) / "rounds")
        federated = federate_with_flower if importlib.util.find_spec("flwr") else federate
        last = federated(consortium, log, model)
        say(f"{ROUNDS} rounds of {len(consortium)} clients, by {federated.__name__}")
        known: dict[str, Any] = {
            "groups": owners,
            "stacked": True,
            "ledger": Path(folder) / "ledger.db",
            "fingerprint": "log loss",
        }
        exact = fgsv.federated.value(log, score, budget=2 ** len(consortium), **known)
        by_round = fgsv.federated.value(log, score, budget=2 ** len(consortium), by_round=True, **known)
        say(f"exact contributions: {exact.n_evaluations:,} coalitions")
        estimates = compared(exact, log, score, known, seeds, budget)
        this = log.read(ROUNDS)
    made = weighted_mean(this.before, this.updates, this.weights)
    rise = float(score(last) - score(model))
    payments = fgsv.payout.split(exact, AMOUNT, "EUR").payments
    table = pd.DataFrame({"hospital": exact.names, "rows": rows_of(hospitals, owners, exact.names)})
    table["contribution"], table["share"], table["payment"] = exact.values, exact.shares(), list(map(str, payments))
    record = {
        "rise": rise,
        "sum_minus_rise": float(exact.values.sum()) - rise,
        "free_rider": float(exact[FREE_RIDER].value),
        "fedavg_reproduced_to": max(float(np.abs(made[name] - last[name]).max()) for name in last),
        "estimates": estimates,
        "splitting": splitting(seed),
    }
    if retrain:
        again = fgsv.exact(retraining(consortium, model, score), [owners.get(name, name) for name, _ in consortium])
        table["retraining"], table["retraining_share"] = again.values, again.shares()
        record["beside_retraining"] = {
            "contributions": distance(exact.values, again.values),
            "numbers of rows": distance(table["rows"].to_numpy(), again.values),
        }
        say(f"{again.n_evaluations:,} federations run anew")
    say(f"\n{table.round(4).to_string(index=False)}")
    for name, found in record.items():
        say(f"{name}: {found}")
    save(out, "federated", table, {"federated": figure(by_round)}, **record)
    return table


def ten_hospitals(seed: int) -> tuple[dict[str, Rows], Rows]:
    """Return each client's rows of the digits, one hospital in two parts, and the server's test rows."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), y[order]
    sizes = rng.multinomial(len(X) - TEST_ROWS, rng.dirichlet(np.full(10, 4.0)))
    parts = np.split(np.arange(TEST_ROWS, len(X)), np.cumsum(sizes)[:-1])
    hospitals = {f"hospital {number}": (X[part], y[part]) for number, part in enumerate(parts)}
    X_wrong, y_wrong = hospitals[MISLABELLED]
    hospitals[MISLABELLED] = X_wrong, (y_wrong + rng.integers(1, 10, len(y_wrong))) % 10
    hospitals |= halves(SPLIT, *hospitals.pop(SPLIT))
    return dict(sorted(hospitals.items())), (X[:TEST_ROWS], y[:TEST_ROWS])


def halves(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Rows]:
    """Return the rows of a hospital as those of two clients."""
    middle = len(y) // 2
    return {f"{name}, A": (X[:middle], y[:middle]), f"{name}, B": (X[middle:], y[middle:])}


def rows_of(hospitals: Mapping[str, Rows], owners: Mapping[str, str], names: tuple[Any, ...]) -> list[int]:
    """Return the number of rows of each hospital."""
    return [sum(len(y) for name, (_, y) in hospitals.items() if owners.get(name, name) == each) for each in names]


def first_model(seed: int) -> Arrays:
    """Return a network of one hidden layer."""
    rng = np.random.default_rng(seed)
    shapes = {"w1": (64, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 10), "b2": (10,)}
    return {name: (rng.normal(size=shape) / 8).astype(np.float32) for name, shape in shapes.items()}


def forward(model: Arrays, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (..., n, h) hidden units and (..., n, 10) probabilities, of a network or a stack of them."""
    hidden = np.maximum(X @ model["w1"] + model["b1"][..., None, :], 0)
    logits = hidden @ model["w2"] + model["b2"][..., None, :]
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return hidden, exponentials / exponentials.sum(axis=-1, keepdims=True)


def trained(model: Arrays, X: np.ndarray, y: np.ndarray) -> Arrays:
    """Return a network, or a stack of them, after one pass through the rows."""
    for start in range(0, len(y), BATCH):
        rows, labels = X[start : start + BATCH], y[start : start + BATCH]
        hidden, probabilities = forward(model, rows)
        slope = (probabilities - np.eye(10, dtype=np.float32)[labels]) / len(labels)
        back = slope @ model["w2"].swapaxes(-1, -2) * (hidden > 0)
        steps = {
            "w1": rows.T @ back,
            "b1": back.sum(axis=-2),
            "w2": hidden.swapaxes(-1, -2) @ slope,
            "b2": slope.sum(axis=-2),
        }
        model = {name: array - np.float32(RATE) * steps[name] for name, array in model.items()}
    return model


def score_on(test: Rows) -> Callable[[Arrays], Floats]:
    """Return the function from a network, or a stack of them, to minus its log loss on test rows."""
    X, y = test

    def score(model: Arrays) -> Floats:
        return np.log(forward(model, X)[1][..., np.arange(len(y)), y].astype(float) + 1e-12).mean(axis=-1)

    return score


def unsharded(hospitals: Mapping[str, Rows]) -> Consortium:
    """Return clients that train on all their rows, but for the free-rider."""
    return {
        (name, ""): ((lambda model: model) if name == FREE_RIDER else trains_on(*rows), len(rows[1]))
        for name, rows in hospitals.items()
    }


def sharded(hospitals: Mapping[str, Rows], key: bytes) -> Consortium:
    """Return clients that train on each of their shards."""
    return {
        (name, str(number)): (trains_on(X[part], y[part]), len(part))
        for name, (X, y) in hospitals.items()
        for number, part in enumerate(shards(np.column_stack([X, y]), size=SHARD_ROWS, key=key))
    }


def trains_on(X: np.ndarray, y: np.ndarray) -> Client:
    """Return the training on these rows."""
    return lambda model: trained(model, X, y)


def federate(consortium: Consortium, log: RoundLog, model: Arrays) -> Arrays:
    """Run FedAvg in this process, and log it; return the last global model."""
    weights = {player: rows for player, (_, rows) in consortium.items()}
    total = sum(weights.values())
    for _ in range(ROUNDS):
        sent = {player: train(model) for player, (train, _) in consortium.items()}
        log.write(model, sent, weights)
        model = {
            name: np.sum([np.float32(weights[player] / total) * new[name] for player, new in sent.items()], axis=0)
            for name in model
        }
    return model


def federate_with_flower(consortium: Consortium, log: RoundLog, model: Arrays) -> Arrays:
    """Run FedAvg under Flower's simulation, a node for each client, and log it; return the last global model."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    clients = list(consortium.items())
    client_app, server_app = ClientApp(), ServerApp()
    last: Arrays = {}

    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        _, (train, rows) = clients[number]
        new = train({name: array.numpy() for name, array in message.content["arrays"].items()})
        metrics = MetricRecord({"num-examples": rows, "number": number})
        content = RecordDict({"arrays": ArrayRecord(arrays_of(new)), "metrics": metrics})
        return Message(content, reply_to=message)

    def name_of(reply: Message) -> str:
        return clients[int(reply.content["metrics"]["number"])][0][0]

    def main(grid: Grid, context: Context) -> None:
        n = len(clients)
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=n, min_available_nodes=n)
        logged = fgsv.federated.FlowerLog(strategy, log.folder, names=name_of)
        result = logged.start(grid, ArrayRecord(arrays_of(model)), num_rounds=ROUNDS)
        last.update({name: array.numpy() for name, array in result.arrays.items()})

    def arrays_of(model: Arrays) -> Any:
        from flwr.app import Array

        return {name: Array(array) for name, array in model.items()}

    client_app.train()(train)
    server_app.main()(main)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=len(clients), backend_config=resources)
    return last


def compared(
    exact: fgsv.Valuation, log: RoundLog, score: Any, known: Mapping[str, Any], seeds: int, budget: int
) -> dict[str, float]:
    """Return how many 95% intervals of estimates hold the exact value, and how large their errors are."""
    held, errors = [], []
    for seed in range(seeds):
        estimate = fgsv.federated.value(log, score, budget=budget, seed=seed, unbiased=True, **known)
        low, high = estimate.interval().T
        inside = (low <= exact.values) & (exact.values <= high)
        held.append(inside[estimate.stderr > 0].mean())  # the free-rider's is exact
        errors.append(np.abs(estimate.values - exact.values).max() / exact.total)
    error = float(np.std(held) / np.sqrt(seeds))
    return {"coverage": float(np.mean(held)), "its_error": error, "largest_error_of_a_share": float(np.mean(errors))}


def retraining(consortium: Consortium, model: Arrays, score: Any) -> fgsv.Game:
    """Return the game in which a coalition of clients is worth the score of a federation of its own."""
    rows = np.array([rows for _, rows in consortium.values()], dtype=np.float32)

    def function(masks: Masks) -> Floats:
        models = {name: np.repeat(array[None], len(masks), axis=0) for name, array in model.items()}
        parts = masks * rows / np.maximum(masks @ rows, 1)[:, None]
        for _ in range(ROUNDS):
            steps = {name: np.zeros_like(array) for name, array in models.items()}
            for (train, _), inside, part in zip(consortium.values(), masks.T, parts.T, strict=True):
                old = {name: array[inside] for name, array in models.items()}
                for name, new in train(old).items():
                    weight = part[inside].reshape(-1, *[1] * (new.ndim - 1))
                    steps[name][inside] += weight.astype(np.float32) * (new - old[name])
            models = {name: array + steps[name] for name, array in models.items()}
        return score(models)

    return fgsv.Game(function, len(consortium), batch_size=256)


def distance(given: Floats, true: Floats) -> dict[str, float]:
    """Return the rank correlation, and the part of the money that goes elsewhere."""
    apart = np.abs(given / given.sum() - true / true.sum()).sum() / 2
    return {"rank_correlation": float(spearmanr(given, true).statistic), "share_elsewhere": float(apart)}


def splitting(seed: int) -> dict[str, dict[str, float]]:
    """Return what a split of one hospital among four changes, with clients and with shards as players."""
    rng = np.random.default_rng(seed)
    hospitals, test = ten_hospitals(seed)
    X, y = (np.concatenate(parts) for parts in zip(*hospitals.values(), strict=True))
    parts = rng.permutation(len(y))[: 4 * 3 * SHARD_ROWS].reshape(4, -1)
    whole = {f"hospital {number}": (X[part], y[part]) for number, part in enumerate(parts)}
    others = {name: rows for name, rows in whole.items() if name != SPLIT}
    key = rng.bytes(16)
    cut = shards(np.column_stack(whole[SPLIT]), size=SHARD_ROWS, key=key)
    along = {
        f"{SPLIT}, {each}": tuple(part[rows] for part in whole[SPLIT])
        for each, rows in zip("AB", (cut[0], np.r_[cut[1], cut[2]]), strict=True)
    }
    across = others | halves(SPLIT, *whole[SPLIT])
    cases = {
        "clients": (unsharded(whole), unsharded(across)),
        "shards, split along them": (sharded(whole, key), sharded(others | along, key)),
        "shards, split elsewhere": (sharded(whole, key), sharded(across, key)),
    }
    return {name: moved(*case, first_model(seed), score_on(test)) for name, case in cases.items()}


def moved(before: Consortium, after: Consortium, model: Arrays, score: Any) -> dict[str, float]:
    """Return the share of a hospital before and after it splits, and the largest change of another's."""
    found = []
    for consortium in (before, after):
        owners = {name: SPLIT for name, _ in consortium if name.startswith(SPLIT)}
        with tempfile.TemporaryDirectory() as folder:
            log = RoundLog(folder)
            federate(consortium, log, model)
            valuation = fgsv.federated.value(log, score, groups=owners, budget=2 ** len(consortium), stacked=True)
        found.append(dict(zip(valuation.names, valuation.shares().tolist(), strict=True)))
    whole, split = found
    others = max(abs(split[name] - whole[name]) for name in whole if name != SPLIT)
    return {"whole": whole[SPLIT], "split": split[SPLIT], "largest_change_of_others": others}


def figure(by_round: fgsv.Valuation) -> Any:
    """Draw the contributions of each hospital, round by round."""
    drawn, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    numbers = np.arange(1, by_round.values.shape[1] + 1)
    special = {FREE_RIDER: " (free-rider)", MISLABELLED: " (wrong labels)", SPLIT: " (two clients)"}
    for name, values in zip(by_round.names, by_round.values, strict=True):
        style = "--" if name in special else "-"
        axes.plot(numbers, values, style, marker=".", label=f"{name}{special.get(str(name), '')}")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set(xlabel="round", ylabel="contribution to the log loss, in nats", xticks=numbers)
    axes.legend(fontsize="small", ncols=2)
    return drawn
