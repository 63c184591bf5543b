"""What users do first with an installed fgsv, small: `python tools/smoke.py`.

Each part compares with something that is known: a closed form, a conservation law, or the same run once more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

import fgsv

GROUPS = ["north"] * 8 + ["south"] * 7 + ["west"] * 5


def game() -> fgsv.Game:
    """Return a game of 20 players, U(S) = sqrt(w(S)) with weights w."""
    weights = np.linspace(0.5, 2.0, len(GROUPS))
    return fgsv.Game(lambda masks: np.sqrt(masks @ weights), len(GROUPS), fingerprint="square root of weights")


def sample() -> fgsv.Valuation:
    """Return a sampled valuation."""
    return fgsv.value(game(), GROUPS, budget=200, seed=0)


def enumerate_all(folder: Path) -> None:
    """Enumerate an airport game, whose values are known: each part of the runway is paid by those who need it."""
    found = fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"])
    assert np.allclose(found.values, [1 / 3, 5 / 6 + 11 / 6])


def value_a_game(folder: Path) -> None:
    """Sample: values add up to U(N) - U(0), and regrouping moves nobody else."""
    found = sample()
    assert np.isclose(found.values.sum(), found.total)
    split = found.regroup(["shell" if player < 4 else name for player, name in enumerate(GROUPS)])
    assert split.values[split.names.index("west")] == found.values[found.names.index("west")]
    assert len(found.to_frame()) == 3
    large = fgsv.value(game(), GROUPS, budget=1_100)
    assert np.isclose(large.values.sum(), large.total)


def save_and_load(folder: Path) -> None:
    """Read a valuation back from its file, bit for bit."""
    found = sample()
    found.save(folder / "saved.json")
    loaded = fgsv.Valuation.load(folder / "saved.json")
    assert loaded.names == found.names
    assert np.array_equal(loaded.values, found.values)
    assert np.array_equal(loaded.stderr, found.stderr)


def split_money(folder: Path) -> None:
    """Split an amount: the payments add up to it, to the cent."""
    paid = fgsv.payout.split(sample(), "1000.01", "EUR")
    assert sum(paid.payments) == Decimal("1000.01")


def train_models(folder: Path) -> None:
    """Train scikit-learn models: values add up, and two workers give the same bits as none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=60)
    utility = fgsv.utility(Ridge(), X[:20], y[:20], X[20:], y[20:], scoring="neg_mean_squared_error")
    alone, together = (fgsv.value(utility, GROUPS, budget=200, seed=0, n_jobs=jobs) for jobs in (1, 2))
    assert np.isclose(alone.values.sum(), alone.total)
    assert np.array_equal(alone.values, together.values)


def verify_from_ledger(folder: Path) -> None:
    """Derive a valuation again from its ledger with `fgsv verify`, and export the ledger as Parquet."""
    fgsv.value(game(), GROUPS, budget=200, seed=0, ledger=folder / "run.db").save(folder / "run.json")
    command_line("verify", str(folder / "run.json"), "--ledger", str(folder / "run.db"))
    command_line("ledger", "export", str(folder / "run.db"), str(folder / "run.parquet"))


def draw(folder: Path) -> None:
    """Write a figure of a valuation."""
    sample().plot().figure.savefig(folder / "values.png")
    assert (folder / "values.png").stat().st_size > 1_000


def command_line(*words: str) -> None:
    """Run a command of fgsv, which must succeed."""
    done = subprocess.run([sys.executable, "-m", "fgsv", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


PARTS: tuple[Callable[[Path], None], ...] = (
    enumerate_all,
    value_a_game,
    save_and_load,
    split_money,
    train_models,
    verify_from_ledger,
    draw,
)


def main() -> None:
    """Run all parts; the first that fails ends with its traceback."""
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            part(Path(folder))
            print(f"{part.__name__}: passed")


if __name__ == "__main__":
    main()
