"""Leave one out: player values from coalitions drawn without replacement and a process that interpolates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from fgsv.estimators.covariance.design import Cells, Law
from fgsv.estimators.covariance.process import Process
from fgsv.partition import Partition
from fgsv.semivalue import Semivalue, SizeWeights
from fgsv.types import Floats, Ints, Masks

LEARNING = 1.2
"""The variance that a process leaves falls about like this power of the evaluations that it knows."""
COUPLING = 1.05
"""Factor of the standard errors: draws also move each other's predictions, which their own terms do not show."""
MOST_REPLICATES = 64
"""Limit on the rows of deviations that an epoch keeps; with more players than that, draws are bundled."""


@dataclass(frozen=True, eq=False)
class Target:
    """The values to estimate, as sums over coalitions: the sum over T of W_i(T) U(T), besides the two ends."""

    n: int
    weights: SizeWeights
    log_weights: Floats
    """(n,): log p(s) of the semivalue."""

    @classmethod
    def of(cls, semivalue: Semivalue, n: int) -> Target:
        """Return the values of a semivalue among n players."""
        return cls(n, SizeWeights.of(semivalue, n), np.asarray(semivalue.log_weights(n), dtype=float))

    def coefficients(self, masks: Masks) -> Floats:
        """Return (m, n): W_i(T) times the number of coalitions of the size of T; nothing at the ends."""
        return _coefficients(masks, self.weights)

    def exact(self, masks: Masks, values: Floats, cells: Cells, complete: Masks) -> Floats:
        """Return (n, q): what the complete cells contribute, `complete` (c,)."""
        cell = cells.of(masks)
        rows = np.flatnonzero(complete[cell] & (cells.sizes[cell] % self.n > 0))
        return (self.coefficients(masks[rows]) / cells.of_size[cell[rows], None]).T @ values[rows]


@dataclass(frozen=True, eq=False)
class Correction:
    """What the draws of one epoch estimate."""

    values: Floats
    """(n, q)"""
    deviations: Floats
    """(R, n, q): the variance of any weighted sum of players is the sum over R of its squares."""
    freedom: float
    """How many draws the variance effectively rests on."""
    precision: float
    """The weight of the epoch beside others: it depends on the sizes and the number of draws, not on utilities."""
    squares: Floats
    """(2, q): sums of squares over draws: of utilities about the mean of their size, and of what is left of them
    when they are predicted from the others."""

    @property
    def variance(self) -> float:
        """The mean variance of a player, each output in units of its own."""
        by_output = (self.deviations**2).sum(axis=(0, 1))
        return float((by_output / np.maximum(by_output, 1e-300)).mean() * by_output.mean())


def correct(
    target: Target, law: Law, first: int, masks: Masks, values: Floats, processes: Sequence[tuple[Process, Ints]]
) -> Correction | None:
    """Return the estimate from the draws of an epoch, unbiased given what came before; None if a stratum has no draw.

    `masks` (m, n) and `values` (m, q) are all that is known; the rows from `first` on are the draws of the epoch, by
    `law`. Let K be what is known, f_-j the mean of a process given K without the draw j, and

        E_j = sum_{T in K - j} W_i(T) U(T) + sum_{T not in K - j} W_i(T) f_-j(T)
              + W_i(T_j) [U(T_j) - f_-j(T_j)] u_j / p_j

    both sums over the cells of j's stratum (sizes, if nobody has joined), p_j the stratum's probability of j's cell,
    and u_j how many coalitions of this cell are not in K - j. Given the other draws T_j is uniform among these, so
    E_j is unbiased for the stratum whatever f_-j is, and so is the mean over j. If draws come in pairs, j is a pair,
    which follow each other: both are left out, and E_j has the mean of their two last terms. `processes` are pairs of
    a process and the draws that it corrects: it must not know these.

    All f_-j come from the inverse of one covariance matrix C: with a = C^-1 U, U(T_j) - f_-j(T_j) = a_j / C^-1_jj.
    What is known counts as it is: f(T) = U(T) - d_T a_T at a known T, with d_T the variance of its own part.

    The variance of the mean is that of the last terms, which vary about zero; in a size that fills up, by the factor
    of a finite population.
    """
    cells, cell = law.cells, law.cells.of(masks)
    unseen, number = cells.unseen(cells.known(masks)), cells.of_size
    complete = unseen == 0
    opened = np.unique(law.stratum_of[(law.stratum_of >= 0) & ~complete])
    part_of_cell = np.full(len(unseen), -1)
    for part, stratum in enumerate(opened):
        part_of_cell[(law.stratum_of == stratum) & ~complete] = part
    part_of = part_of_cell[cell]
    n_drawn = np.bincount(part_of[first:][part_of[first:] >= 0], minlength=len(opened))
    if not n_drawn.all():
        return None
    # what a draw's residual stands for, and the factor of its standard deviation where its cell fills up
    paired = law.pairs & (law.stratum_of[cell] == 0)
    n_left = unseen[cell] + np.where(paired & (2 * cells.sizes[cell] == target.n), 2, 1)
    stands_for = n_left / number[cell] / np.where(law.within[cell] > 0, law.within[cell], 1.0)
    alone = law.stratum_of[cell] > 0
    m = np.where(part_of >= 0, n_drawn[part_of], 1)
    filling = np.where(alone, np.sqrt(unseen[cell] * (unseen[cell] + m)) / (unseen[cell] + 1), 1.0)
    found = target.exact(masks, values, cells, complete)
    weights, deviations, unpredicted = target.coefficients(masks), [], np.full_like(values, np.nan)
    for process, draws in processes:
        root, own = inverse_root(process, masks)
        solved = root.T @ (root @ values)
        without = np.zeros((len(opened), *solved.shape))  # the mean of the solutions without each draw
        for part, stratum in enumerate(opened):
            rows = draws[part_of[draws] == part]
            together = 2 if law.pairs and stratum == 0 else 1
            unpredicted[rows] = residuals = _left_out(root, solved, rows, together)
            taken_out = together * (root.T @ (root[:, rows] @ residuals))
            without[part] = (len(rows) * solved - taken_out) / n_drawn[part]
            here = (stands_for[rows, None] * weights[rows])[:, :, None] * residuals[:, None, :] / n_drawn[part]
            found += here.sum(axis=0)
            here *= filling[rows, None, None]
            deviations.append(here.reshape(len(rows) // together, together, *here.shape[1:]).sum(axis=1))
        found += process.player_values(masks, without, part_of_cell, target.log_weights, cells)
        inside = np.flatnonzero(part_of >= 0)
        by_own = (own / number[cell])[inside, None] * without[part_of[inside], inside]
        found += weights[inside].T @ by_own
    terms = COUPLING * np.concatenate(deviations)
    sampled = np.flatnonzero(part_of_cell >= 0)
    sizes, spent = cells.sizes[sampled], n_drawn[part_of_cell[sampled]]
    left = unseen[sampled] / number[sampled]
    grown = np.where(law.stratum_of[sampled] > 0, left + spent / number[sampled], left) * left
    scale = target.weights.gain[sizes - 1] ** 2 * sizes * (target.n - sizes)
    precision = len(masks) ** LEARNING / float((scale * grown / law.within[sampled] / spent).sum())
    squares = _squares(cells.sizes[cell], values, unpredicted)
    return Correction(found, _bundled(terms), _freedom(terms), precision, squares)


def _left_out(root: Floats, solved: Floats, rows: Ints, together: int) -> Floats:
    """Return (m, q): utilities less what is predicted of them from all others, one or two rows left out together."""
    inverse = (root[:, rows] ** 2).sum(axis=0)
    if together == 1:
        return np.asarray(solved[rows] / inverse[:, None])
    first, second = rows[::2], rows[1::2]
    a, b, c = inverse[::2, None], inverse[1::2, None], (root[:, first] * root[:, second]).sum(axis=0)[:, None]
    u, v = solved[first], solved[second]
    found = np.stack([b * u - c * v, a * v - c * u], axis=1) / (a * b - c**2)[:, None]
    return np.asarray(found.reshape(len(rows), solved.shape[1]))


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


def predict(target: Target, cells: Cells, masks: Masks, values: Floats, process: Process) -> Floats:
    """Return (n, q): what a process predicts from all that is known, uncorrected, so biased and of unknown error."""
    cell = cells.of(masks)
    complete = cells.unseen(cells.known(masks)) == 0
    part_of_cell = np.where(complete | (cells.sizes % target.n == 0), -1, 0)
    root, own = inverse_root(process, masks)
    solved = root.T @ (root @ values)
    inside = np.flatnonzero(part_of_cell[cell] == 0)
    by_own = (own / cells.of_size[cell])[inside, None] * solved[inside]
    found = process.player_values(masks, solved[None], part_of_cell, target.log_weights, cells)
    return found + target.exact(masks, values, cells, complete) + target.coefficients(masks[inside]).T @ by_own


def in_groups(partition: Partition, masks: Masks, weights: SizeWeights) -> Floats:
    """Return (m, K): the coefficients of coalitions (see `Target.coefficients`), summed over each group."""
    return partition.sums(_coefficients(masks, weights).T).T


def _coefficients(masks: Masks, weights: SizeWeights) -> Floats:
    sizes = masks.sum(axis=1)
    gain, drift = (np.concatenate([[0.0], each, [0.0]])[sizes] for each in (weights.gain, weights.drift))
    return np.asarray(gain[:, None] * (masks - (sizes / masks.shape[1])[:, None]) + drift[:, None])


def combined(parts: Sequence[Correction]) -> Correction:
    """Return the estimate from several epochs, each with its weight; their errors are uncorrelated."""
    precision = sum(part.precision for part in parts)
    shares = [part.precision / precision for part in parts]
    values = sum((share * part.values for share, part in zip(shares, parts, strict=True)), np.zeros(()))
    deviations = np.concatenate([share * part.deviations for share, part in zip(shares, parts, strict=True)])
    variances = np.array([share**2 * part.variance for share, part in zip(shares, parts, strict=True)])
    total = variances.sum()
    by_part = sum(each**2 / part.freedom for each, part in zip(variances, parts, strict=True))
    freedom = float(total**2 / by_part) if by_part > 0 else parts[-1].freedom
    squares = sum((part.squares for part in parts), np.zeros(()))
    return Correction(values, deviations, freedom, precision, squares)


def opening_share(opening: Floats, epochs: Floats) -> Floats:
    """Return (q,): the weight of the opening's estimate beside that of the epochs after it, from their deviations.

    This weight alone depends on the errors that it weighs, by their variance over all players: how good the epochs
    are in comparison shows only in their draws.
    """
    ours, theirs = ((each**2).sum(axis=(0, 1)) for each in (opening, epochs))
    total = ours + theirs
    return np.asarray(np.where(total > 0, theirs / np.where(total > 0, total, 1.0), 1.0))


def inverse_root(process: Process, masks: Masks) -> tuple[Floats, Floats]:
    """Return L^-1 for the covariance matrix L L' of utilities, and the (m,) variances of the parts of their own."""
    own = process.own_variance(masks.sum(axis=1))
    matrix = process.covariance(masks, masks)
    matrix[np.diag_indices(len(own))] += own
    lower = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    return solve_triangular(lower, np.eye(len(own)), lower=True, check_finite=False), own


def _freedom(terms: Floats) -> float:
    """Return the effective number of draws, the square of their sum of variances over the sum of squared ones."""
    energy = (terms**2).sum(axis=1)
    total = energy.sum(axis=0)
    energy = energy[:, total > 0] / total[total > 0]
    return float(np.mean(1 / (energy**2).sum(axis=0))) if energy.size else float(len(terms))


def _bundled(terms: Floats) -> Floats:
    """Return few rows with the same sums of squares: exactly if there are few players, else on average."""
    rows, n, q = terms.shape
    if rows <= max(n, MOST_REPLICATES) and rows <= MOST_REPLICATES:
        return terms
    if n <= MOST_REPLICATES:
        return np.stack([np.linalg.qr(terms[:, :, output], mode="r") for output in range(q)], axis=2)
    bundles = np.zeros((MOST_REPLICATES, n, q))
    np.add.at(bundles, np.arange(rows) % MOST_REPLICATES, terms)
    return bundles
