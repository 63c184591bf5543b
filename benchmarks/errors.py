"""How often intervals hold what values and shares would be on all test rows that might have been drawn.

Eight providers of different size and quality, with labels of which 7% are of one class, and a regression on the
same rows. A model for every coalition predicts a pool of 20,000 rows once. Then test rows are drawn from the pool
again and again; values are exact, so what is left is the error of the test rows, from ten folds of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

import fgsv
from benchmarks.options import parsed
from fgsv.data.folds import folds_of
from fgsv.methods.enumeration import everything
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.outputs import Output
from fgsv.utilities.scores import SCORES, Predictions
from fgsv.utilities.without_folds import WithoutFolds

K = 8
POOL = 20_000
WEIGHTS = np.array([1.0, 0.8, -0.6, 0.5, 0.3, 0.0])
NOISE = np.linspace(0.0, 3.0, K)
"""Of the labels of each provider: the last ones are hardly worth anything."""
NOTHING = {name: np.array([worth]) for name, worth in (("accuracy", 0.5), ("roc_auc", 0.5), ("r2", 0.0))}
NOTHING["neg_log_loss"] = np.array([-np.log(2)])
"""What no data is worth: as much as a coin. With the best constant, U(N) - U(0) of accuracy would be mostly noise."""
SPOILED = 2
"""The provider of whose labels 30% are changed."""


@dataclass(frozen=True, eq=False)
class World:
    """What the models of all coalitions predict for the pool."""

    masks: Masks
    """(2^K, K): the first is the empty one."""
    likely: Floats
    """(2^K - 1, pool): the probability of the rarer class."""
    values: Floats
    """(2^K - 1, pool): of the regression."""
    labels: Ints
    target: Floats


def _rows(rng: np.random.Generator, count: int, noise: float) -> tuple[Floats, Ints, Floats]:
    X = rng.normal(size=(count, len(WEIGHTS)))
    score = X @ WEIGHTS - 3.4 + noise * rng.normal(size=count)
    return X, (rng.random(count) < expit(score)).astype(np.int64), score + 2 * rng.standard_t(4, size=count)


@cache
def world(pool: int = POOL) -> World:
    """Train a classifier and a regression on every coalition."""
    rng = np.random.default_rng(0)
    parts = [_rows(rng, int(rng.integers(60, 400)), noise) for noise in NOISE]
    X, y, target = parts[SPOILED]
    parts[SPOILED] = X, np.where(rng.random(len(y)) < 0.3, 1 - y, y), target + 3 * rng.normal(size=len(y))
    tested, labels, truth = _rows(rng, pool, 0.0)
    masks = np.concatenate([each.masks() for each in everything(K)])
    masks = np.concatenate([np.zeros((1, K), dtype=bool), masks[masks.any(axis=1)]])
    likely, values = np.empty((2, len(masks) - 1, pool))
    for row, members in enumerate(masks[1:]):
        theirs = [parts[i] for i in np.flatnonzero(members)]
        X, y, target = (np.concatenate(each) for each in zip(*theirs, strict=True))
        likely[row] = LogisticRegression(max_iter=500).fit(X, y).predict_proba(tested)[:, 1]
        values[row] = Ridge().fit(X, target).predict(tested)
    return World(masks, likely, values, labels, truth)


def _scores(found: World, score: str, rows: Ints, folds: Ints | None) -> Floats:
    """Return (2^K, 1 + F): the scores of all coalitions on some rows of the pool, and without each fold of them."""
    of_classes = SCORES[score].kind == "classifier"
    truth: Any = (found.labels if of_classes else found.target)[rows]
    n_classes = 2 if of_classes else 0
    output = Output(score, SCORES[score], None, None, truth, None, n_classes, False, NOTHING[score], True)
    likely = found.likely[:, rows]
    fitted = Predictions(
        np.ones(len(likely), dtype=bool),
        values=found.values[:, rows],
        labels=(likely > 0.5).astype(np.int64),
        probabilities=np.stack([1 - likely, likely], axis=2),
        ranks=likely,
    )
    trained = [output.measure(fitted)] + ([] if folds is None else [WithoutFolds.of(output, folds).measure(fitted)])
    scores = np.concatenate(trained, axis=1)
    return np.concatenate([np.full((1, scores.shape[1]), NOTHING[score][0]), scores])


def _valued(found: World, table: Floats) -> fgsv.Valuation:
    place = {mask.tobytes(): row for row, mask in enumerate(found.masks)}

    def look_up(masks: Masks) -> Floats:
        return table[[place[mask.tobytes()] for mask in np.asarray(masks, dtype=bool)]]

    return fgsv.exact(fgsv.Game(look_up, K, n_folds=table.shape[1] - 1))


def coverage(score: str, n_test: int, n_runs: int, pool: int = POOL) -> dict[str, Any]:
    """Return how often intervals held the values and shares of the whole pool."""
    found = world(pool)
    truth = _valued(found, _scores(found, score, np.arange(pool), None))
    held: dict[str, list[Any]] = {"values": [], "shares": [], "width": []}
    n_without = 0
    for run in range(n_runs):
        rows = np.random.default_rng([1, run]).choice(pool, n_test, replace=False)
        folds = folds_of([int(row).to_bytes(8, "big") for row in rows])
        valued = _valued(found, _scores(found, score, rows, folds))
        held["values"].append(np.abs(valued.values - truth.values) <= valued.half_width())
        if not valued.total > 0:
            n_without += 1
            continue
        held["shares"].append(np.abs(valued.shares() - truth.shares()) <= valued.share_half_width())
        held["width"].append(valued.share_half_width())
    means = {name: float(np.mean(each)) if each else np.nan for name, each in held.items()}
    return {"score": score, "test_rows": n_test, "runs": n_runs, **means, "no_shares": n_without}


def main() -> None:
    """Print, for each score and number of test rows, how often intervals held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--test-rows", type=int, nargs="+", default=[500, 1500])
    parser.add_argument("--scores", nargs="+", default=["accuracy", "neg_log_loss", "roc_auc", "r2"])
    parser.add_argument("--pool", type=int, default=POOL)
    given = parsed(parser, "errors")
    rows = [coverage(score, n, given.runs, given.pool) for score in given.scores for n in given.test_rows]
    found = pd.DataFrame(rows)
    given.out.mkdir(parents=True, exist_ok=True)
    found.to_csv(given.out / "errors.csv", index=False)
    print(found.to_string(index=False, float_format=lambda number: f"{number:.3f}"))
