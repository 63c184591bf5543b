"""Games of 8 to 350 players for small budgets, by name, with their true values; those of few players as tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from benchmarks.problems import CACHE, case, long_run
from fgsv.methods.enumeration import everything

TABLES = (
    "hospitals16",
    "clinics18",
    "forest13",
    "kernel14",
    "unanimity16",
    "boosted15",
    "neighbours12",
    "labels16",
    "vote14",
    "gloves10",
    "noisy12",
    "global10",
    "tiny8",
    "coverage8",
    "coverage8b",
    "coverage8c",
)
LARGER = ("sou40", "sou64", "sou128", "diabetes")
TRAINED = ("hospitals24", "sellers30", "clinics50")
"""Games of trained models with too many players for a table."""
GAMES = (*TABLES, *TRAINED, *LARGER)
EVALUATIONS = 500_000
"""Length of the runs whose mean is taken for their true values."""


@cache
def load(name: str) -> tuple[Any, np.ndarray]:
    """Return a game that does not say what an evaluation takes, as a training might, and its (n,) Shapley values."""
    if name in TRAINED:
        game, n = BUILDERS[name]()
        return fgsv.Game(game.__call__, n), long_run(name, partial(_trained, name), EVALUATIONS)[0]
    if name not in BUILDERS:
        known = case(name)
        return fgsv.Game(known.game.__call__, known.n_players), known.truth
    path = Path(CACHE).parent / "few" / f"{name}.npz"
    if not path.exists():
        game, n = BUILDERS[name]()
        values = np.concatenate([np.asarray(game(part.masks()), float).reshape(-1) for part in everything(n)])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, values=values)
    with np.load(path) as stored:
        values = stored["values"]
    n = len(values).bit_length() - 1
    game = fgsv.Game(lambda masks: values[masks @ (1 << np.arange(n))], n)
    return game, fgsv.exact(game).values


def _trained(name: str) -> Any:
    return BUILDERS[name]()[0]


def _shuffled(data: Any, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    X, y = data
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    return (X / X.std(axis=0))[order], y[order], rng


def _hospitals(n: int = 16) -> tuple[Any, int]:
    """Ten patients in a hospital, on average."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression

    X, y, rng = _shuffled(load_breast_cancer(return_X_y=True))
    X -= X.mean(axis=0)
    rows = 10 * n
    owner = np.sort(rng.integers(0, n, rows))
    return fgsv.utility(LogisticRegression(), X[:rows], y[:rows], X[rows:], y[rows:], "accuracy", units=owner), n


def _labels() -> tuple[Any, int]:
    """Sixteen contributors of digits 3 and 8; three of them with wrong labels."""
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (3, 8))] + 0.0, y[np.isin(y, (3, 8))]
    rng = np.random.default_rng(2)
    order = rng.permutation(len(X))
    X, y = X[order] / 16, y[order]
    owner = np.arange(160) % 16
    wrong = np.isin(owner, (2, 7, 11)) & (rng.random(160) < 0.6)
    y[:160] = np.where(wrong, 11 - y[:160], y[:160])
    return fgsv.utility(
        GaussianNB(var_smoothing=0.1), X[:160], y[:160], X[160:], y[160:], "accuracy", units=owner
    ), 16


def _clinics(n: int = 18, rows: int = 300) -> tuple[Any, int]:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    X, y, rng = _shuffled(load_diabetes(return_X_y=True))
    y = (y - y.mean()) / y.std()
    owner = np.sort(rng.integers(0, n, rows))
    return fgsv.utility(Ridge(1.0), X[:rows], y[:rows], X[rows:], y[rows:], units=owner), n


def _neighbours() -> tuple[Any, int]:
    from sklearn.datasets import load_wine
    from sklearn.neighbors import KNeighborsClassifier

    X, y, rng = _shuffled(load_wine(return_X_y=True))
    owner = np.sort(rng.integers(0, 12, 60))
    return fgsv.utility(KNeighborsClassifier(3), X[:60], y[:60], X[60:], y[60:], "accuracy", units=owner), 12


def _sellers() -> tuple[Any, int]:
    """Thirty sellers of one to nine digits each."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(X))[:500]
    owner = np.repeat(np.arange(30), 1 + np.arange(30) % 9)
    rows = len(owner)
    data, labels, tests, answers = X[order[:rows]], y[order[:rows]], X[order[rows:]], y[order[rows:]]
    return fgsv.utility(KNeighborsClassifier(3), data, labels, tests, answers, "accuracy", units=owner), 30


def _kernel() -> tuple[Any, int]:
    from sklearn.datasets import make_friedman1
    from sklearn.kernel_ridge import KernelRidge

    X, y = make_friedman1(500, noise=1.0, random_state=1)
    y, rng = (y - y.mean()) / y.std(), np.random.default_rng(6)
    part = 0.3 / 14 + 0.7 * rng.dirichlet(np.full(14, 1.5))
    owner = np.sort(rng.choice(14, 140, p=part))
    y[:140] += np.where(owner == 3, 1.5 * rng.standard_normal(140), 0.0)
    model = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5)
    return fgsv.utility(model, X[:140], y[:140], X[140:], y[140:], units=owner), 14


def _forest() -> tuple[Any, int]:
    from sklearn.datasets import load_wine
    from sklearn.ensemble import RandomForestClassifier

    X, y = load_wine(return_X_y=True)
    model, mean = RandomForestClassifier(100, random_state=0).fit(X, y), X.mean(axis=0)
    return lambda masks: model.predict_proba(np.where(masks, X[70], mean))[:, 1], 13


def _boosted() -> tuple[Any, int]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :15]
    model = GradientBoostingClassifier(n_estimators=80, max_depth=4, random_state=0).fit(X, y)
    others = X[np.random.default_rng(0).choice(len(X), 10)]
    return lambda m: np.mean([model.decision_function(np.where(m, X[123], other)) for other in others], axis=0), 15


def _global() -> tuple[Any, int]:
    """How much of the variance of a model's predictions the known features explain."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = load_diabetes(return_X_y=True)
    model, mean = GradientBoostingRegressor(random_state=0).fit(X, y), X.mean(axis=0)
    some = X[:60]
    whole = model.predict(some)

    def game(masks: np.ndarray) -> np.ndarray:
        hidden = np.where(masks[:, None, :], some, mean).reshape(-1, 10)
        return -((model.predict(hidden).reshape(len(masks), -1) - whole) ** 2).mean(axis=1)

    return game, 10


def _noisy() -> tuple[Any, int]:
    rng = np.random.default_rng(4)
    worth, noise = rng.exponential(size=12), rng.normal(size=2**12) * 0.3
    return lambda masks: masks @ worth + noise[masks @ (1 << np.arange(12))], 12


def _vote() -> tuple[Any, int]:
    weights = np.array([9, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1])
    return lambda masks: (masks @ weights > weights.sum() / 2).astype(float), 14


def _coverage(seed: int) -> tuple[Any, int]:
    """Facts in the sentences of eight documents, each mention worth less than the one before; few facts matter."""
    rng = np.random.default_rng(seed)
    worth = rng.pareto(0.6, 12)
    mentions = np.stack([rng.multinomial(rng.integers(2, 7), rng.dirichlet(np.full(12, 0.3))) for _ in range(8)])
    return lambda masks: (1 - 0.3 ** (masks @ mentions)) @ worth, 8


BUILDERS: dict[str, Callable[[], tuple[Any, int]]] = {
    "hospitals16": _hospitals,
    "clinics18": _clinics,
    "forest13": _forest,
    "kernel14": _kernel,
    "unanimity16": lambda: (fgsv.games.SumOfUnanimity(16, seed=3), 16),
    "boosted15": _boosted,
    "neighbours12": _neighbours,
    "labels16": _labels,
    "vote14": _vote,
    "gloves10": lambda: (lambda m: np.minimum(m[:, :4].sum(axis=1), m[:, 4:].sum(axis=1)).astype(float), 10),
    "noisy12": _noisy,
    "global10": _global,
    "hospitals24": partial(_hospitals, 24),
    "sellers30": _sellers,
    "clinics50": partial(_clinics, 50, 350),
    "tiny8": lambda: (fgsv.games.Airport(np.arange(1.0, 9) ** 2), 8),
    "coverage8": partial(_coverage, 2),
    "coverage8b": partial(_coverage, 3),
    "coverage8c": partial(_coverage, 4),
}
