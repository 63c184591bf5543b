"""Leave one out: player values from coalitions drawn without replacement and a process that interpolates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgsv.methods.covariance.newcomers import Bases
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import Sample
from fgsv.methods.covariance.target import Target
from fgsv.types import Floats, Ints

COUPLING = 1.05
"""Factor of the standard errors: draws also move each other's predictions, which their own terms do not show."""
MOST_REPLICATES = 64
"""Limit on the rows of deviations that an epoch keeps; with more players than that, draws are bundled."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Some draws of an epoch, and what they correct."""

    process: Process
    """Its parameters must not depend on the draws."""
    draws: Ints
    """(d,): rows of a sample; in bins, those of earlier runs that have partners."""
    bases: Bases | None = None
    """What some of the draws were made of."""


@dataclass(frozen=True, eq=False)
class Correction:
    """What the draws of one epoch estimate."""

    values: Floats
    """(n, q)"""
    deviations: Floats
    """(R, n, q): the variance of any weighted sum of players is the sum over R of its squares."""
    freedom: float
    """How many draws the variance effectively rests on."""
    squares: Floats
    """(2, q): sums of squares over draws: of utilities about the mean of their size, and of what is left of them
    when they are predicted from the others."""


def correct(
    target: Target,
    sample: Sample,
    values: Floats,
    folds: Sequence[Fold],
    step: Floats | float = 0.0,
    n_stated: int | None = None,
) -> Correction | None:
    """Return the estimate from the draws of an epoch, unbiased given what came before; None if a stratum has no draw.

    `values` (m + k, q) are the utilities of the sample. Let K be what is known, f_-j the mean of a process given K
    without the draw j, and

        E_j = sum_{T in K - j} W_i(T) U(T) + sum_{T not in K - j} W_i(T) f_-j(T)
              + W_i(T_j) [U(T_j) - f_-j(T_j)] u_j / p_j

    both sums over the cells of j's stratum (sizes, if nobody has joined), p_j the stratum's probability of j's cell,
    and u_j how many coalitions of this cell are not in K - j. Given the other draws T_j is uniform among these, so
    E_j is unbiased for the stratum whatever f_-j is, and so is the mean over j. Draws that were made of each other
    (`Sample.clusters`) are left out with any of them; if they come in pairs, j is a pair, and E_j has the mean of
    their two last terms. In a bin j is a pair of partners (`Pairs.terms`). What draws were made of takes off some of
    their error (`Bases.terms`).

    All f_-j come from the inverse of one covariance matrix C: with a = C^-1 U, U(T_j) - f_-j(T_j) = a_j / C^-1_jj.
    What is known counts as it is: f(T) = U(T) - d_T a_T at a known T, with d_T the variance of its own part.

    The variance of the mean is that of the last terms, which vary about zero; in a size that fills up, by the factor
    of a finite population. Where all predictions hold, one more may still fail, by the smallest `step` (q,) between
    utilities: residuals are at least as large as if one of all draws had. This matters where utilities have few
    values. The degrees of freedom are those of the first `n_stated` outputs.
    """
    if not sample.ready:
        return None
    law, cells, clusters, n_drawn, m = sample.law, sample.cells, sample.clusters, sample.n_drawn, len(sample.masks)
    weights, unpredicted = target.coefficients(sample.masks), np.full_like(values[:m], np.nan)
    inside = np.flatnonzero(sample.stratum >= 0)
    found = target.exact(sample.masks, values[:m], cells, sample.complete)
    terms: list[tuple[Ints, Floats]] = []  # last terms (r, n, q), and the rows (r,) that they belong to
    shares = []
    for fold in folds:
        solved = fold.process.solve(sample.everything, values)
        without = np.zeros((law.n_strata, *values.shape))  # the mean of a without each draw of a stratum
        for stratum in sample.open_strata:
            if sample.pairs is not None and law.is_bin(stratum):
                rows, each, taken_out = sample.pairs.terms(target, solved, clusters, fold.draws, stratum)
                found += each.sum(axis=0)
            else:
                rows = sample.drawn(stratum, fold.draws)
                left_out, taken_out = clusters.left_out(solved, rows, rows[:, None])
                residuals = unpredicted[rows] = left_out[:, 0]
                share = (sample.stands_for[rows, None] * weights[rows])[:, :, None] / n_drawn[stratum]
                found += (share * residuals[:, None, :]).sum(axis=0)
                shares.append(share * sample.filling[rows, None, None])
                each = shares[-1] * residuals[:, None, :]
            without[stratum] = (len(rows) * solved.loads - taken_out) / n_drawn[stratum]
            terms.append((rows[::2], each[::2] + each[1::2]) if law.pairs and stratum == 0 else (rows, each))
        found += fold.process.player_values(
            sample.everything, without, sample.open_stratum_of, target.log_weights, cells
        )
        if fold.bases is not None and 0 in sample.open_strata:
            rows, each, moved = fold.bases.terms(target, sample, values, fold.draws)
            found += moved
            terms.append((rows, each))
        own = (solved.own[:m] / cells.of_size[sample.cell])[inside, None]
        found += weights[inside].T @ (own * without[sample.stratum[inside], inside])
    every = np.concatenate([each for _, each in terms])
    if sample.pairs is not None or sample.base_of is not None:
        # a draw may count as itself, for its partner, and by what is made of it
        every = clusters.sums(np.concatenate([rows for rows, _ in terms]), every)
    lacking = short_of_one_miss(unpredicted[np.isfinite(unpredicted[:, 0])], step)
    if lacking.any():
        every = np.concatenate([every, *(share * lacking for share in shares)])
    every *= COUPLING
    squares = _squares(cells.sizes[sample.cell], values[:m], unpredicted)
    return Correction(found, _bundled(every), _freedom(every[..., :n_stated]), squares)


def short_of_one_miss(residuals: Floats, miss: Floats | float) -> Floats:
    """Return (q,): what is to be added to (m, q) residuals, in quadrature, so that they hold one of this size."""
    lacking = (miss**2 - (residuals**2).sum(axis=0)) / max(1, len(residuals))
    return np.asarray(np.sqrt(np.maximum(0.0, lacking)))


def _squares(sizes: Ints, values: Floats, unpredicted: Floats) -> Floats:
    """Return `Correction.squares`; `unpredicted` is NaN for what is no draw. Sizes with one utility do not count."""
    counts = np.bincount(sizes).astype(float)
    means = np.zeros((len(counts), values.shape[1]))
    np.add.at(means, sizes, values)
    means /= np.maximum(counts, 1)[:, None]
    rows = np.flatnonzero((counts[sizes] > 1) & np.isfinite(unpredicted[:, 0]))
    own = counts[sizes[rows]]
    about = (values[rows] - means[sizes[rows]]) ** 2 * (own / (own - 1))[:, None]
    return np.stack([about.sum(axis=0), (unpredicted[rows] ** 2).sum(axis=0)])


def smallest_step(values: Floats) -> Floats:
    """Return (q,): the least by which two different utilities of (m, q) differ, but for rounding; 0 if none do."""
    gaps = np.diff(np.sort(values, axis=0), axis=0)
    gaps[gaps <= 1e-9 * np.abs(values).max(axis=0)] = np.inf
    found = gaps.min(axis=0)
    return np.asarray(np.where(np.isfinite(found), found, 0.0))


def combined(parts: Sequence[Correction], shares: Floats, n_stated: int | None = None) -> Correction:
    """Return the estimate from several epochs, each with its share (k,); their errors are uncorrelated."""
    values = sum((share * part.values for share, part in zip(shares, parts, strict=True)), np.zeros(()))
    deviations = [share * part.deviations for share, part in zip(shares, parts, strict=True)]
    freedom = joint_freedom([each[..., :n_stated] for each in deviations], [part.freedom for part in parts])
    squares = sum((part.squares for part in parts), np.zeros(()))
    return Correction(values, np.concatenate(deviations), freedom, squares)


def joint_freedom(deviations: Sequence[NDArray[np.floating]], freedom: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of independent errors, from those of each (Welch and Satterthwaite).

    `deviations` are (R, n, q) each. With several outputs, the one with the fewest degrees of freedom counts.
    """
    variances = np.stack([(each.astype(float) ** 2).sum(axis=(0, 1)) for each in deviations])
    by_part = (variances**2 / np.array(freedom)[:, None]).sum(axis=0)
    varies = by_part > 0
    if not varies.any():
        return float(freedom[-1])
    return float((variances[:, varies].sum(axis=0) ** 2 / by_part[varies]).min())


def opening_share(opening: Floats, epochs: Floats) -> Floats:
    """Return (q,): the weight of the opening's estimate beside that of the epochs after it, from their deviations.

    This weight alone depends on the errors that it weighs, by their variance over all players: how good the epochs
    are in comparison shows only in their draws.
    """
    ours, theirs = ((each**2).sum(axis=(0, 1)) for each in (opening, epochs))
    total = ours + theirs
    return np.asarray(np.where(total > 0, theirs / np.where(total > 0, total, 1.0), 1.0))


def with_opening(
    share: Floats, opened: Correction, deviations: NDArray[np.float32], freedom: float, n_stated: int | None = None
) -> tuple[NDArray[np.float32], float]:
    """Return the deviations of an estimate with a share (q,) of the opening in it, and its degrees of freedom.

    `deviations` (R, n, q) and `freedom` are those of the epochs after it.
    """
    theirs = (1 - share).astype(np.float32) * np.nan_to_num(deviations)
    ours = (share * opened.deviations).astype(np.float32)
    stated = [each[..., :n_stated] for each in (theirs, ours)]
    return np.concatenate([theirs, ours]), joint_freedom(stated, [freedom, max(1.0, opened.freedom)])


def _freedom(terms: Floats) -> float:
    """Return the effective number of draws, the square of their sum of variances over the sum of squared ones."""
    energy = (terms**2).sum(axis=1)
    total = energy.sum(axis=0)
    energy = energy[:, total > 0] / total[total > 0]
    return float(np.mean(1 / (energy**2).sum(axis=0))) if energy.size else float(len(terms))


def _bundled(terms: Floats) -> Floats:
    """Return few rows with the same sums of squares: exactly if there are few players, else on average."""
    rows, n, q = terms.shape
    if rows <= MOST_REPLICATES:
        return terms
    if n <= MOST_REPLICATES:
        return np.stack([np.linalg.qr(terms[:, :, output], mode="r") for output in range(q)], axis=2)
    bundles = np.zeros((MOST_REPLICATES, n, q))
    np.add.at(bundles, np.arange(rows) % MOST_REPLICATES, terms)
    return bundles
