"""Markets to attack: three data sets with an attacker, a victim and honest twins, and what the attacker may do.

Each of five providers has two players of sixteen rows, so that values can be enumerated. The twins either measured
the same things, each with its own errors, or hold rows that are nearest neighbours of each other's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import scale

import fgsv

PROVIDERS = ("attacker", "victim", "twin", "other twin", "other")
ROWS = 16
"""Rows of a player."""
TESTED = 150
ERRORS = {"measured twice": 0.3, "measured closely": 0.035}
"""Errors of the twins' measurements, in deviations. Those that measured closely differ as noisy copies do."""
TWINS = ("measured twice", "neighbours", "measured closely")


@dataclass(frozen=True, eq=False)
class Source:
    """Rows to draw providers from, and the game that they play."""

    X: np.ndarray
    y: np.ndarray
    model: Any
    scoring: str

    @property
    def classes(self) -> bool:
        """Whether the target is a class."""
        return self.scoring != "neg_mean_squared_error"


def sources() -> dict[str, Source]:
    """Return the three data sets, each with a model that is trained in batches."""
    cancer, diabetes, digits = load_breast_cancer(), load_diabetes(), load_digits()
    ridge = Ridge(10.0, fit_intercept=False)  # of centred targets: a few rows do no harm
    return {
        "breast cancer, logistic": Source(
            scale(cancer.data[:, :10]), cancer.target, LogisticRegression(), "neg_log_loss"
        ),
        "diabetes, ridge": Source(scale(diabetes.data), scale(diabetes.target), ridge, "neg_mean_squared_error"),
        "digits, neighbours": Source(digits.data / 16, digits.target, KNeighborsClassifier(3), "accuracy"),
    }


@dataclass
class Scores:
    """U of sets of rows, each set evaluated once."""

    game: Any
    known: dict[bytes, float] = field(default_factory=dict)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return (m,) scores of (m, rows) masks."""
        keys = [row.tobytes() for row in np.packbits(rows, axis=1)]
        new = {key: at for at, key in enumerate(keys) if key not in self.known}
        if new:
            self.known.update(zip(new, self.game(rows[list(new.values())]).tolist(), strict=True))
        return np.array([self.known[key] for key in keys])


@dataclass(frozen=True, eq=False)
class World:
    """Rows in the order in which they were registered, the player of each, and the owner of each player."""

    source: Source
    X: np.ndarray
    y: np.ndarray
    units: np.ndarray
    """(rows,) the player of each row."""
    owners: tuple[str, ...]
    """The owner of each player."""
    test: np.ndarray
    """The test rows of the source."""
    pool: np.ndarray
    """Rows of the source that nobody has."""
    attackers: tuple[str, ...] = ("attacker",)
    """Who gains by an attack: the attacker under all its names, and whom it pays."""
    before: tuple[str, ...] = ("attacker",)
    """The same people before the attack."""

    @property
    def names(self) -> list[str]:
        """The providers."""
        return sorted(set(self.owners))

    def rows_of(self, owner: str) -> np.ndarray:
        """Return the rows of a provider."""
        return np.flatnonzero([self.owners[unit] == owner for unit in self.units])

    def scores(self) -> Scores:
        """Return the score of every set of rows."""
        data = self.source.X[self.test], self.source.y[self.test]
        return Scores(fgsv.utility(self.source.model, self.X, self.y, *data, self.source.scoring))

    def fitted(self) -> Any:
        """Return the model trained on all rows."""
        return clone(self.source.model).fit(self.X, self.y)


Attack = Callable[[World, np.random.Generator], World]


def honest(source: Source, twins: str, seed: int) -> World:
    """Return a market without an attack, drawn at random."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(source.X))
    test, order = order[:TESTED], order[TESTED:]
    each = 2 * ROWS
    drawn = {name: order[k * each : (k + 1) * each] for k, name in enumerate(PROVIDERS)}
    pool = order[len(PROVIDERS) * each :]
    X = {name: source.X[rows] for name, rows in drawn.items()}
    if twins == "neighbours":
        near = _neighbours(source, drawn["twin"], np.concatenate([drawn["other twin"], pool]))
        pool = np.setdiff1d(np.concatenate([drawn["other twin"], pool]), near)
        drawn["other twin"], X["other twin"] = near, source.X[near]
    else:
        drawn["other twin"] = drawn["twin"]
        deviations = source.X[np.concatenate(list(drawn.values()))].std(axis=0)
        for name in ("twin", "other twin"):
            X[name] = source.X[drawn["twin"]] + ERRORS[twins] * deviations * rng.normal(size=X[name].shape)
    return World(
        source,
        np.concatenate([X[name] for name in PROVIDERS]),
        np.concatenate([source.y[drawn[name]] for name in PROVIDERS]),
        np.repeat(np.arange(2 * len(PROVIDERS)), ROWS),
        tuple(np.repeat(PROVIDERS, 2).tolist()),
        test,
        pool,
    )


def _neighbours(source: Source, rows: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the nearest row of the same class, or of nearly the same target, for each row, no row twice."""
    far = 1e3 if source.classes else 1 / source.y.std()
    points = np.column_stack([source.X, far * source.y])
    found: list[int] = []
    for row in rows:
        left = np.setdiff1d(among, found)
        found.append(int(left[np.linalg.norm(points[left] - points[row], axis=1).argmin()]))
    return np.array(found)


def _added(world: World, X: np.ndarray, y: np.ndarray, *, owner: str = "attacker", first: bool = False) -> World:
    """Return the market with new rows as two more players, registered last, or before all others."""
    units = len(world.owners) + np.arange(len(X)) * 2 // len(X)
    parts = [(X, y, units), (world.X, world.y, world.units)]
    rows = zip(*(parts if first else parts[::-1]), strict=True)
    X, y, units = (np.concatenate(each) for each in rows)
    return replace(
        world,
        X=X,
        y=y,
        units=units,
        owners=(*world.owners, owner, owner),
        attackers=tuple(dict.fromkeys([*world.attackers, owner])),
    )


def _renamed(world: World, owners: tuple[str, ...], attackers: tuple[str, ...], before: tuple[str, ...]) -> World:
    return replace(world, owners=owners, attackers=attackers, before=before)


def split(world: World, rng: np.random.Generator) -> World:
    """Give each of the attacker's players a company of its own."""
    return _renamed(world, ("attacker", "shell", *world.owners[2:]), ("attacker", "shell"), ("attacker",))


def merge(world: World, rng: np.random.Generator) -> World:
    """Let the attacker and another provider appear as one."""
    owners = tuple("attacker" if name == "other" else name for name in world.owners)
    return _renamed(world, owners, ("attacker",), ("attacker", "other"))


def rename(world: World, rng: np.random.Generator) -> World:
    """Give the attacker another name."""
    owners = tuple("z" if name == "attacker" else name for name in world.owners)
    return _renamed(world, owners, ("z",), ("attacker",))


def _victims(world: World) -> tuple[np.ndarray, np.ndarray]:
    rows = world.rows_of("victim")
    return world.X[rows], world.y[rows]


def copies(world: World, rng: np.random.Generator) -> World:
    """Add all of the victim's rows."""
    return _added(world, *_victims(world))


def copies_first(world: World, rng: np.random.Generator) -> World:
    """Add all of the victim's rows, registered before them."""
    return _added(world, *_victims(world), first=True)


def copies_thrice(world: World, rng: np.random.Generator) -> World:
    """Add all of the victim's rows, three times."""
    X, y = _victims(world)
    return _added(world, np.repeat(X, 3, axis=0), np.repeat(y, 3))


def own_again(world: World, rng: np.random.Generator) -> World:
    """Add the attacker's own rows once more, under another name."""
    rows = world.rows_of("attacker")
    return _added(world, world.X[rows], world.y[rows], owner="shell")


def partly(world: World, rng: np.random.Generator) -> World:
    """Hide half of the victim's rows in the attacker's own players."""
    X, y = (each[::2] for each in _victims(world))
    units = np.concatenate([world.units, np.arange(len(X)) % 2])
    return replace(world, X=np.concatenate([world.X, X]), y=np.append(world.y, y), units=units)


def _noisy(noise: float) -> Attack:
    def attack(world: World, rng: np.random.Generator) -> World:
        X, y = _victims(world)
        return _added(world, X + noise * world.X.std(axis=0) * rng.normal(size=X.shape), y)

    return attack


def blurred(world: World, rng: np.random.Generator) -> World:
    """Add copies in which a third of the features is replaced by their means."""
    X, y = _victims(world)
    hidden = rng.random(X.shape) < 1 / 3
    return _added(world, np.where(hidden, world.X.mean(axis=0), X), y)


def rescaled(world: World, rng: np.random.Generator) -> World:
    """Add copies whose features are multiplied by numbers from 0.8 to 1.2, one for each."""
    X, y = _victims(world)
    return _added(world, X * rng.uniform(0.8, 1.2, X.shape[1]), y)


def rotated(world: World, rng: np.random.Generator) -> World:
    """Add copies that are turned about the mean by a quarter of a radian, in random planes."""
    X, y = _victims(world)
    p = X.shape[1]
    turn = np.eye(p)
    basis = np.linalg.qr(rng.normal(size=(p, p)))[0]
    for i in range(0, p - 1, 2):
        turn[i : i + 2, i : i + 2] = [[np.cos(0.25), -np.sin(0.25)], [np.sin(0.25), np.cos(0.25)]]
    centre = world.X.mean(axis=0)
    return _added(world, centre + (X - centre) @ basis @ turn @ basis.T, y)


def interpolated(world: World, rng: np.random.Generator) -> World:
    """Add rows between a victim's row and its nearest neighbour of the same class, as SMOTE does."""
    X, y = _victims(world)
    far = 1e3 if world.source.classes else 1 / max(y.std(), 1e-9)
    pairs = NearestNeighbors(n_neighbors=2).fit(np.column_stack([X, far * y]))
    other = pairs.kneighbors(return_distance=False)[:, 0]
    part = rng.random(len(X))
    targets = y if world.source.classes else y + part * (y[other] - y)
    other = np.where(y[other] == y, other, np.arange(len(y))) if world.source.classes else other
    return _added(world, X + part[:, None] * (X[other] - X), targets)


def generated(world: World, rng: np.random.Generator) -> World:
    """Add rows drawn from a normal density fitted to the victim's, class by class, or with the target."""
    X, y = _victims(world)
    if not world.source.classes:
        rows = _drawn(np.column_stack([X, y]), len(y), rng)
        return _added(world, rows[:, :-1], rows[:, -1])
    new = np.empty_like(X)
    for label in np.unique(y):
        new[y == label] = _drawn(X[y == label], int((y == label).sum()), rng)
    return _added(world, new, y)


def _drawn(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a fitted normal density with independent features; a single row gets a tenth of a deviation."""
    spread = float(rows.std(axis=0).mean()) if len(rows) > 1 else 0.1
    density = GaussianMixture(1, covariance_type="diag", reg_covar=max(1e-6, (0.1 * spread) ** 2))
    rows = np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
    density.set_params(random_state=int(rng.integers(2**31))).fit(rows)
    return density.sample(count)[0]


def _own(world: World, X: np.ndarray, y: np.ndarray) -> World:
    """Return the market in which the attacker has other rows than it had."""
    rows = world.rows_of("attacker")
    features, target = world.X.copy(), world.y.copy()
    features[rows], target[rows] = X, y
    return replace(world, X=features, y=target)


def label_noise(world: World, rng: np.random.Generator) -> World:
    """Guess a third of the attacker's targets."""
    rows = world.rows_of("attacker")
    guessed = rng.random(len(rows)) < 1 / 3
    return _own(world, world.X[rows], np.where(guessed, rng.choice(world.y, len(rows)), world.y[rows]))


def easy_rows(world: World, rng: np.random.Generator) -> World:
    """Replace the attacker's rows by those of the pool that the model of all others predicts best."""
    others = np.setdiff1d(np.arange(len(world.y)), world.rows_of("attacker"))
    model = clone(world.source.model).fit(world.X[others], world.y[others])
    X, y = world.source.X[world.pool], world.source.y[world.pool]
    if world.source.classes:
        known = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
        ease = np.where(model.classes_[known] == y, model.predict_proba(X)[np.arange(len(y)), known], 0.0)
    else:
        ease = -np.abs(model.predict(X) - y)
    best = np.argsort(-ease, kind="stable")[: 2 * ROWS]
    return _own(world, X[best], y[best])


def fresh(world: World, rng: np.random.Generator) -> World:
    """Add new rows of the same source: no attack, but what as many honest rows earn."""
    rows = world.pool[: 2 * ROWS]
    return _added(world, world.source.X[rows], world.source.y[rows])


ATTACKS: dict[str, Attack] = {
    "split": split,
    "merge": merge,
    "rename": rename,
    "copies": copies,
    "copies, three of each": copies_thrice,
    "copies among own rows": partly,
    "own rows again": own_again,
    "noisy copies, 0.05": _noisy(0.05),
    "noisy copies, 0.3": _noisy(0.3),
    "blurred copies": blurred,
    "rescaled copies": rescaled,
    "rotated copies": rotated,
    "interpolated": interpolated,
    "generated": generated,
    "label noise": label_noise,
    "easy rows": easy_rows,
    "copies registered first": copies_first,
    "fresh rows (honest)": fresh,
}
COPIES = ("copies", "copies, three of each", "copies among own rows", "own rows again", "noisy copies, 0.05")
DISGUISED = ("noisy copies, 0.3", "blurred copies", "rescaled copies", "rotated copies", "interpolated", "generated")
