"""Diagnostics: how a game behaves by size of coalition, from a small budget of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
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
from fgsv.valuation.notebook import html_of

N_SIZES = 16
N_RESAMPLES = 200
EVALUATIONS_PER_DRAW = 6
PREDICTED = "predicted gain of a group that splits in two under GSV"
MOST_EVALUATIONS = 1_000_000
"""All coalitions are drawn before the first evaluation, and their draws resampled in memory."""
MOST_EXACT = 32
"""Up to this many groups, predicted gains are integrated exactly, at a cost of K^3; above it, they are sampled."""
DRAWS_OF_GROUPS = 2048
"""Sets of other groups drawn for a predicted gain; even."""


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
    split_gains: pd.DataFrame
    """For each group, the predicted gain in GSV from splitting it into halves, with a 95% interval."""
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
    split_gains_stderr: float = 0.0
    """The largest standard error of a predicted gain from sampling sets of groups, part of the intervals; 0 up to
    `MOST_EXACT` groups, where the prediction is exact for the fitted curve."""

    @property
    def assumption_met(self) -> str:
        """Whether second-order differences fall faster than s^(-3/2), as Algorithm 1 assumes: yes, no, unclear."""
        return self.second_order_extreme.verdict(-1.5)

    def to_frame(self) -> pd.DataFrame:
        """Return the table by size."""
        return self.by_size.copy()

    def __repr__(self) -> str:
        by_size, gains = (
            frame.to_string(index=False, float_format=lambda number: f"{number:.4g}")
            for frame in (self.by_size, self.split_gains)
        )
        return "\n".join([by_size, "", f"{PREDICTED}:", gains, "", *self._footnotes])

    def _repr_html_(self) -> str:
        """Return the tables for a notebook."""
        return html_of(self.by_size, [PREDICTED]) + html_of(self.split_gains, self._footnotes)

    @property
    def _footnotes(self) -> list[str]:
        """The lines below the tables."""
        extreme = self.second_order_extreme
        return [
            f"deletion differences change as s^{self.deletion.exponent:.2f} (± {self.deletion.stderr:.2f})",
            f"second-order differences change as s^{self.second_order.exponent:.2f} "
            f"(± {self.second_order.stderr:.2f}), their 99th percentile as s^{extreme.exponent:.2f} "
            f"(± {extreme.stderr:.2f})",
            f"second-order differences fall faster than s^-1.5, as Algorithm 1 assumes: {self.assumption_met}",
            f"{self.n_evaluations} evaluations, seed {self.seed}",
            *([] if self.failures is None else [str(self.failures)]),
        ]

    def plot(self, path: Any = None) -> Any:
        """Draw mean utility, deletion and second-order differences by size; save them if a path is given."""
        from fgsv.plots import stability

        return stability(self, path)


def diagnose(
    game: Any,
    groups: Any = None,
    *,
    budget: int = 6_000,
    seed: int = 0,
    output: int = 0,
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
) -> Diagnosis:
    """Measure how a game behaves by size of coalition, and what that means for splitting and Algorithm 1.

    >>> import fgsv
    >>> from fgsv.games import SumOfUnanimity
    >>> fgsv.diagnose(SumOfUnanimity(32), budget=1_000).n_evaluations
    938

    At 16 sizes s, draw a coalition S of size s and four other players z1, z1', z2, z2', and evaluate

        deletion       |U(S + z1) - U(S)|
        second order   |U(S + z1 + z1') - U(S + z1 + z2) - U(S + z1' + z2') + U(S + z2 + z2')|

    (the paper's definition 3 and assumption 2): six evaluations a draw. The mean utility by size predicts what
    a group gains under GSV by splitting into halves, as if all players were alike (proposition 1); where
    `groups` is None, for four groups of equal size. Above 32 groups these predictions are sampled, and
    `split_gains_stderr` is their error. `output` selects one of several outputs. `n_jobs`,
    `ledger`, `on_error` and `timeout` are as for `fgsv.value`.
    """
    read, partition = read_players(game, groups)
    n = read.n_players
    if n < 6:
        raise ValueError(f"diagnose needs at least 6 players, but the game has {n}")
    sizes = _sizes(n)
    budget, seed = whole_number("budget", budget), whole_number("seed", seed, least=0)
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
    group_names, group_sizes = [str(name) for name in partition.names], partition.sizes.astype(np.int64)
    if groups is None:
        group_names, group_sizes = ["one of four equal groups"], _four_equal_groups(n)
    split_gains, sampling_error = _split_gains(group_names, group_sizes, nodes, curves, seed)
    return Diagnosis(
        by_size,
        split_gains,
        _slope(sizes, np.einsum("rsd,sd->rs", weights, deletion), deletion),
        _slope(sizes, np.einsum("rsd,sd->rs", weights, second), second),
        _slope(sizes, _resampled_quantiles(second, weights), second),
        len(coalitions) + 2,
        seed,
        failures,
        sampling_error,
    )


def _four_equal_groups(n: int) -> Ints:
    return np.array([len(part) for part in np.array_split(np.arange(n), 4)], dtype=np.int64)


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
            four, rest = chosen[:4], chosen[4:]
            for taken in added:
                kept = [z for z in range(4) if (z in taken) != large]
                lists.append(np.concatenate([four[kept], rest]))
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
    place, node = np.log1p(at), np.log1p(inner)
    width = 0.5 * np.log1p(n) / N_SIZES
    curves = np.empty((len(weights), len(inner) + 2))
    curves[:, 0], curves[:, -1] = ends
    for column, centre in enumerate(node, start=1):
        kernel = np.exp(-0.5 * ((place - centre) / width) ** 2)
        offset = place - centre
        first, second = kernel @ offset, kernel @ offset**2
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
    return np.asarray(
        np.take_along_axis(ranked[None], (reached >= 0.99 - 1e-12).argmax(axis=2)[:, :, None], axis=2)[..., 0]
    )


def _split_gains(
    names: Sequence[str], sizes: Ints, nodes: Ints, curves: Floats, seed: int
) -> tuple[pd.DataFrame, float]:
    """Return the predicted gain of splitting each named group into halves, and its largest sampling error."""
    exact = len(sizes) <= MOST_EXACT
    sampled = {} if exact else _sampled_gains(sizes, nodes, curves, np.random.default_rng([seed, 1]))
    rows, largest = [], 0.0
    for position, name in enumerate(names):  # without groups, the first of four
        size = int(sizes[position])
        if size < 2:
            continue
        gains, stderr = (_exact_gains(position, sizes, nodes, curves), 0.0) if exact else sampled[size]
        largest = max(largest, stderr)
        error = float(np.hypot(gains[1:].std(ddof=1), stderr))
        row = {"group": name, "players": size, "gain": gains[0], "low": gains[0] - 1.96 * error}
        rows.append({**row, "high": gains[0] + 1.96 * error})
    return pd.DataFrame(rows, columns=["group", "players", "gain", "low", "high"]), largest


def _exact_gains(position: int, sizes: Ints, nodes: Ints, curves: Floats) -> Floats:
    """Return the gain of one group by splitting into halves, for each curve."""
    size, others = int(sizes[position]), np.delete(sizes, position)
    halves = (size // 2, size - size // 2)
    gains = -_expected_gsv(size, others, nodes, curves)
    for half, rest in (halves, halves[::-1]):
        gains = gains + _expected_gsv(half, np.append(others, rest), nodes, curves)
    return gains


def _sampled_gains(
    sizes: Ints, nodes: Ints, curves: Floats, rng: np.random.Generator
) -> dict[int, tuple[Floats, float]]:
    """Return, by size of group, what splitting into halves gains for each curve, and the first one's sampling error.

    With x uniform in (0, 1) and T the players of the other groups, each in with probability x, the gain of splitting
    size = a + b is the mean over x and T of

        (1 - x) [f(T + a) + f(T + b) - 2 f(T)] + x [2 f(T + size) - f(T + a) - f(T + b)] - [f(T + size) - f(T)].

    It comes from small x, where f bends: x is drawn with a density in proportion to 1 / (1 + K x), in strata. Groups
    of one size gain the same, so this costs draws for each pair of distinct sizes, whatever the number of groups.
    """
    distinct, counts = np.unique(sizes, return_counts=True)
    place, scale, m = np.log1p(nodes), np.log1p(len(sizes)), DRAWS_OF_GROUPS
    gains = {}
    for size in distinct[distinct > 1].tolist():
        x = np.expm1(scale * (np.arange(m) + rng.random(m)) / m) / len(sizes)
        totals = rng.binomial(counts - (distinct == size), x[:, None]) @ distinct
        weight = (1 + len(sizes) * x) * scale / len(sizes) / m  # one over the density, and over the draws
        a = size // 2
        ends = np.stack([totals, totals + a, totals + size - a, totals + size])
        factors = weight * np.stack([2 * x - 1, 1 - 2 * x, 1 - 2 * x, 2 * x - 1])
        at = np.log1p(ends)
        left = np.clip(np.searchsorted(place, at, side="right") - 1, 0, len(place) - 2)
        share = (at - place[left]) / (place[left + 1] - place[left])
        on_nodes = np.bincount(left.ravel(), (factors * (1 - share)).ravel(), len(place))
        on_nodes += np.bincount(left.ravel() + 1, (factors * share).ravel(), len(place))
        terms = (factors * np.interp(at, place, curves[0])).sum(axis=0)
        # neighbouring strata in pairs: their difference overstates the spread within each, if anything
        gains[size] = curves @ on_nodes, float(np.sqrt(((terms[::2] - terms[1::2]) ** 2).sum()))
    return gains


def _expected_gsv(size: int, others: Ints, nodes: Ints, curves: Floats) -> Floats:
    """Return the GSV of a group of `size` players among other groups, if utility depended only on the total size.

    With x uniform in (0, 1) and each other group in with probability x, the expected gain of joining is the
    Shapley value; Gauss-Legendre nodes integrate the polynomial in x exactly.
    """
    n = int(others.sum()) + size
    points, point_weights = np.polynomial.legendre.leggauss(len(others) // 2 + 1)
    chance = np.zeros(n + 1)
    for x, weight in zip((points + 1) / 2, point_weights / 2, strict=True):
        totals = np.zeros(n + 1)
        totals[0] = 1
        for other in others.tolist():
            moved = x * totals[: n + 1 - other]
            totals *= 1 - x
            totals[other:] += moved
        chance += weight * totals
    reached = np.flatnonzero(chance)
    curve = np.stack(
        [np.interp(np.log1p(np.stack([reached, reached + size])), np.log1p(nodes), row) for row in curves]
    )
    return np.asarray((curve[:, 1] - curve[:, 0]) @ chance[reached])
