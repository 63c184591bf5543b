"""Diagnostics: how a game behaves by size of coalition, from a small budget of evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions
from fgsv.evaluation.views import without_folds
from fgsv.ledger import Ledger, Purpose
from fgsv.running.preparation import access_to, read_players
from fgsv.types import Floats, Ints
from fgsv.valuation import End, Failures, Reason
from fgsv.valuation.display import Section, as_html, as_text

N_SIZES = 16
N_RESAMPLES = 200
EVALUATIONS_PER_DRAW = 6
MOST_EVALUATIONS = 1_000_000
"""All coalitions are drawn before the first evaluation, and their draws resampled in memory."""


@dataclass(frozen=True, eq=False)
class Slope:
    """An exponent b, fitted to a quantity that falls with the size s as c s^b, and its standard error."""

    exponent: float
    stderr: float
    scale: float
    """The constant c."""
    sizes: Ints
    """The sizes it is fitted to."""

    def verdict(self, needed: float) -> str:
        """Say whether the exponent is at most `needed`: yes or no by two standard errors, else unclear."""
        if not np.isfinite(self.exponent):
            return "unclear"
        if self.exponent + 2 * self.stderr < needed:
            return "yes"
        return "no" if self.exponent - 2 * self.stderr > needed else "unclear"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How a game behaves by size of coalition; made by `fgsv.diagnose`."""

    by_size: pd.DataFrame
    """For each size: mean utility, smoothed, with a band of two standard errors; deletion and second-order
    differences, their mean and 99th percentile."""
    deletion: Slope
    """Exponent of the mean change when one player leaves; O(1/s) is an exponent of -1 or less."""
    second_order: Slope
    """Exponent of the mean second-order difference; Algorithm 1 assumes less than -3/2."""
    second_order_extreme: Slope
    """The same for the 99th percentile: the assumption is about the worst case."""
    n_evaluations: int
    seed: int
    failures: Failures | None = None
    """Evaluations that failed; None if none did."""

    @property
    def assumption_met(self) -> str:
        """Whether second-order differences fall faster than s^(-3/2), as Algorithm 1 assumes: yes, no, unclear."""
        return self.second_order_extreme.verdict(-1.5)

    def to_frame(self) -> pd.DataFrame:
        """Return the table by size."""
        return self.by_size.copy()

    def sections(self) -> list[Section]:
        """Return what was found, and the table by size."""
        extreme = self.second_order_extreme
        words = (
            f"deletion differences change as s^{self.deletion.exponent:.2f} (± {self.deletion.stderr:.2f})",
            f"second-order differences change as s^{self.second_order.exponent:.2f} "
            f"(± {self.second_order.stderr:.2f}), their 99th percentile as s^{extreme.exponent:.2f} "
            f"(± {extreme.stderr:.2f})",
            f"second-order differences fall faster than s^-1.5, as Algorithm 1 assumes: {self.assumption_met}",
            f"{self.n_evaluations} evaluations, seed {self.seed}",
            *([] if self.failures is None else [str(self.failures)]),
        )
        rows = tuple(tuple(f"{cell:.4g}" for cell in row) for row in self.by_size.itertuples(index=False))
        return [Section("By size of coalition", words, tuple(map(str, self.by_size.columns)), rows)]

    __repr__ = as_text
    _repr_html_ = as_html

    def plot(self, path: Any = None) -> Any:
        """Draw mean utility, deletion and second-order differences by size; save them if a path is given."""
        from fgsv.plots import stability

        return stability(self, path)


def diagnose(
    game: Any,
    *,
    budget: int = 6_000,
    seed: int = 0,
    output: int = 0,
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
) -> Diagnosis:
    """Measure how a game behaves by size of coalition, and whether Algorithm 1's assumption holds.

    At 16 sizes s, draw a coalition S of size s and four other players z1, z1', z2, z2', and evaluate

        deletion       |U(S + z1) - U(S)|
        second order   |U(S + z1 + z1') - U(S + z1 + z2) - U(S + z1' + z2') + U(S + z2 + z2')|

    (the paper's definition 3 and assumption 2): six evaluations a draw.

    Args:
        game: As for `fgsv.value`, with at least six players.
        budget: Evaluations in total, U(0) and U(N) among them: at most a million.
        seed: Seed of the draws, and of the resampling behind the errors.
        output: Position of the output that is measured, from 0.
        n_jobs: Workers; -1 for one per core. Default: those of `joblib.parallel_config`, or one.
        ledger: File that records every evaluation, and answers those that it has.
        on_error: "raise", a number that a failed evaluation counts as, or "empty", as for `fgsv.value`.
        timeout: Seconds that a batch may take; it needs worker processes.

    Raises:
        ValueError: The budget is too small for two draws at each size, or another argument is wrong.
        GameError: An evaluation failed, and `on_error` is "raise".

    Examples:
        >>> import fgsv
        >>> from fgsv.games import SumOfUnanimity
        >>> fgsv.diagnose(SumOfUnanimity(32), budget=1_000).n_evaluations
        938

    """
    read = read_players(game, None)[0]
    n = read.n_players
    if n < 6:
        raise ValueError(f"diagnose needs at least 6 players, but the game has {n}")
    sizes = _sizes(n)
    budget = whole_number("budget", budget)
    seed = whole_number("seed", seed, least=0)
    output = whole_number("output", output)
    n_draws = (budget - 2) // (EVALUATIONS_PER_DRAW * len(sizes))
    if n_draws < 2:
        least = 2 * EVALUATIONS_PER_DRAW * len(sizes) + 2
        raise ValueError(f"diagnose needs a budget of at least {least} evaluations for {n} players, got {budget}")
    if budget > MOST_EVALUATIONS:
        raise ValueError(f"diagnose takes a budget of at most {MOST_EVALUATIONS:,} evaluations, got {budget:,}")
    rng = np.random.default_rng(seed)
    coalitions = Coalitions.concatenate(_draws(n, sizes, n_draws, rng))
    access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
    settings = {"method": "diagnose", "budget": budget, "seed": seed, "fingerprint": read.fingerprint}
    with opened, access.evaluator.recorded(settings, Purpose.DIAGNOSIS) as record:
        access = without_folds(access)
        ends = access.ends()
        if not 0 <= output < ends.shape[1]:
            raise ValueError(f"output must be a position from 0 to {ends.shape[1] - 1}, got {output}")
        before = access.evaluator.meter
        values = access(coalitions)[:, output]
        failures = access.evaluator.spent_since(before).failures
        record.end = End(Reason.EXHAUSTED)
    drawn = values.reshape(len(sizes), n_draws, EVALUATIONS_PER_DRAW)
    weights = rng.multinomial(n_draws, np.full(n_draws, 1 / n_draws), size=(N_RESAMPLES, len(sizes))) / n_draws
    weights = np.concatenate([np.full((1, len(sizes), n_draws), 1 / n_draws), weights])

    deletion = np.abs(drawn[:, :, 1] - drawn[:, :, 0])
    second = np.abs(drawn[:, :, 2] - drawn[:, :, 3] - drawn[:, :, 4] + drawn[:, :, 5])
    nodes, curves = _curves(sizes, drawn, ends[:, output], n, weights)
    smoothed = np.stack([np.interp(np.log1p(sizes), np.log1p(nodes), curve) for curve in curves])
    error = smoothed[1:].std(axis=0, ddof=1)
    by_size = pd.DataFrame(
        {
            "size": sizes,
            "mean": drawn[:, :, 0].mean(axis=1),
            "smoothed": smoothed[0],
            "low": smoothed[0] - 2 * error,
            "high": smoothed[0] + 2 * error,
            "deletion_mean": deletion.mean(axis=1),
            "deletion_99": np.quantile(deletion, 0.99, axis=1),
            "second_order_mean": second.mean(axis=1),
            "second_order_99": np.quantile(second, 0.99, axis=1),
        }
    )
    return Diagnosis(
        by_size,
        _slope(sizes, np.einsum("rsd,sd->rs", weights, deletion), deletion),
        _slope(sizes, np.einsum("rsd,sd->rs", weights, second), second),
        _slope(sizes, _resampled_quantiles(second, weights), second),
        len(coalitions) + 2,
        seed,
        failures,
    )


def _sizes(n: int) -> Ints:
    """Return sizes from 1 to n - 4, closest together at the small end."""
    return np.unique(np.rint(np.geomspace(1, n - 4, N_SIZES)).astype(np.int64))


def _draws(n: int, sizes: Ints, n_draws: int, rng: np.random.Generator) -> list[Coalitions]:
    """Return the six coalitions of each draw at each size, as lists of members or, where shorter, of the rest."""
    added = ((), (0,), (0, 1), (0, 2), (1, 3), (2, 3))  # which of z1, z1', z2, z2' join S in each
    batches = []
    for size in sizes.tolist():
        large = 2 * size > n
        lists = []
        for _ in range(n_draws):
            chosen = rng.choice(n, n - size if large else size + 4, replace=False)
            for taken in added:
                kept = [z for z in range(4) if (z in taken) != large]  # z1, z1', z2, z2' are the first four
                lists.append(np.concatenate([chosen[kept], chosen[4:]]))
        batches.append(Coalitions.from_lists(n, lists, np.full(len(lists), large)))
    return batches


def _curves(sizes: Ints, drawn: Floats, ends: Floats, n: int, weights: Floats) -> tuple[Ints, Floats]:
    """Return nodes between 0 and n and (1 + R, nodes) smoothed mean utilities: of the sample and of resamples.

    A draw informs the sizes s, s + 1 and s + 2. The smoother is a local line in log(1 + s); the ends are known.
    """
    at = np.concatenate([sizes, sizes + 1, sizes + 2])
    seen = np.stack([drawn[:, :, 0], drawn[:, :, 1], drawn[:, :, 2:].mean(axis=2)])
    means = np.einsum("rsd,ksd->rks", weights, seen).reshape(len(weights), -1)
    inner = np.unique(at[at < n])
    place = np.log1p(at)
    width = 0.5 * np.log1p(n) / N_SIZES
    curves = np.empty((len(weights), len(inner) + 2))
    curves[:, 0], curves[:, -1] = ends
    for column, centre in enumerate(np.log1p(inner), start=1):
        offset = place - centre
        kernel = np.exp(-0.5 * (offset / width) ** 2)
        first = kernel @ offset
        second = kernel @ offset**2
        line = kernel * (second - offset * first)
        curves[:, column] = means @ (line / line.sum())
    return np.concatenate([[0], inner, [n]]), curves


def _slope(sizes: Ints, quantity: Floats, differences: Floats) -> Slope:
    """Fit log(quantity) to log(size) for the sample, row 0, and its resamples.

    The exponent describes large sizes, so the smallest are left out. A size is weighted by its number of nonzero
    differences, which are few at large sizes if the score has steps, as accuracy does.
    """
    used = (sizes >= max(4, sizes[-1] ** 0.4)) & (quantity[0] > 0)
    if used.sum() < 3:
        return Slope(np.nan, np.nan, np.nan, sizes[used])
    weights = np.count_nonzero(differences[used], axis=1) / np.count_nonzero(differences[used])
    x = np.log(sizes[used])
    centred = (x - weights @ x) * weights
    seen = (quantity[:, used] > 0).all(axis=1)
    y = np.log(quantity[seen][:, used])
    exponents = y @ centred / (x @ centred)
    scale = float(np.exp(y[0] @ weights - exponents[0] * (weights @ x)))
    stderr = float(exponents[1:].std(ddof=1)) if len(exponents) > 2 else np.nan
    return Slope(float(exponents[0]), stderr, scale, sizes[used])


def _resampled_quantiles(differences: Floats, weights: Floats) -> Floats:
    """Return the 99th percentile of (sizes, draws) differences in each resample: (1 + R, sizes)."""
    order = np.argsort(differences, axis=1)
    ranked = np.take_along_axis(differences, order, axis=1)
    reached = np.cumsum(np.take_along_axis(weights, order[None], axis=2), axis=2)
    place = (reached >= 0.99 - 1e-12).argmax(axis=2)[:, :, None]
    return np.asarray(np.take_along_axis(ranked[None], place, axis=2)[..., 0])
