"""Leave one out: player values from coalitions drawn without replacement and a process that interpolates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgsv.estimators.covariance.beginning import Partners
from fgsv.estimators.covariance.clusters import Clusters
from fgsv.estimators.covariance.design import RELATED, Cells, Law, some_of_level
from fgsv.estimators.covariance.newcomers import Bases
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
    target: Target,
    law: Law,
    first: int,
    masks: Masks,
    values: Floats,
    processes: Sequence[tuple[Process, Ints]],
    related: Masks | None = None,
    partners: Partners | None = None,
    bases: Sequence[Bases] = (),
    base_of: Ints | None = None,
    step: Floats | float = 0.0,
) -> Correction | None:
    """Return the estimate from the draws of an epoch, unbiased given what came before; None if a stratum has no draw.

    `masks` (m, n) and `values` (m, q) are all that is known; the rows from `first` on are the draws of the epoch, by
    `law`. Let K be what is known, f_-j the mean of a process given K without the draw j, and

        E_j = sum_{T in K - j} W_i(T) U(T) + sum_{T not in K - j} W_i(T) f_-j(T)
              + W_i(T_j) [U(T_j) - f_-j(T_j)] u_j / p_j

    both sums over the cells of j's stratum (sizes, if nobody has joined), p_j the stratum's probability of j's cell,
    and u_j how many coalitions of this cell are not in K - j. Given the other draws T_j is uniform among these, so
    E_j is unbiased for the stratum whatever f_-j is, and so is the mean over j. Draws that were made of each other
    (`clusters_of`) are left out with any of them; if they come in pairs, j is a pair, and E_j has the mean of their
    two last terms. `processes` are pairs of a process and the draws that it corrects: it must not know these.

    All f_-j come from the inverse of one covariance matrix C: with a = C^-1 U, U(T_j) - f_-j(T_j) = a_j / C^-1_jj.
    What is known counts as it is: f(T) = U(T) - d_T a_T at a known T, with d_T the variance of its own part.

    The variance of the mean is that of the last terms, which vary about zero; in a size that fills up, by the factor
    of a finite population. Where all predictions hold, one more may still fail, by the smallest `step` (q,) between
    utilities: residuals are at least as large as if one of all draws had. This matters where utilities have few
    values.

    `related` (k, n + l) are coalitions with players who have left, whose utilities follow in `values` and teach the
    process. In a bin j is one of the `partners`, R_j and T_j. The residual of R_j takes the place of that of T_j,
    which need not be known; the mean of their difference comes from those that are, a random part. `bases` are those
    of each process's draws, and `base_of` (m,) the row of the one that each draw was made of, else -1.
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
    pairing = None if partners is None else _Pairing.of(partners, law, first, masks, part_of_cell)
    if pairing is not None:
        n_drawn[law.is_bin(opened)] = np.bincount(pairing.part, minlength=len(opened))[law.is_bin(opened)]
    if not n_drawn.all() or (pairing is not None and not pairing.ready):
        return None
    # what a draw's residual stands for, and the factor of its standard deviation where its cell fills up
    paired = law.pairs & (law.stratum_of[cell] == 0)
    n_left = unseen[cell] + np.where(paired & (2 * cells.sizes[cell] == target.n), 2, 1)
    stands_for = n_left / number[cell] / np.where(law.within[cell] > 0, law.within[cell], 1.0)
    alone = law.stratum_of[cell] > 0
    m = np.where(part_of >= 0, n_drawn[part_of], 1)
    filling = np.where(alone, np.sqrt(unseen[cell] * (unseen[cell] + m)) / (unseen[cell] + 1), 1.0)
    found = target.exact(masks, values[: len(masks)], cells, complete)
    everything = masks if related is None else widened(masks, related)
    weights, deviations, rows_of, shares = target.coefficients(masks), [], [], []
    together = clusters_of(law, first, masks, len(values), partners, base_of)
    unpredicted = np.full_like(values[: len(masks)], np.nan)
    for turn, (process, draws) in enumerate(processes):
        root, own = process.inverse_root(everything)
        solved = root.T @ (root @ values)
        without = np.zeros((len(opened), *solved.shape))  # the mean of the solutions without each draw
        for part, stratum in enumerate(opened):
            if pairing is not None and law.is_bin(stratum):
                here, rows, without[part] = pairing.corrected(root, solved, together, draws, part, target, law)
                found += here.sum(axis=0)
            else:
                rows = draws[draws < len(masks)]
                rows = rows[part_of[rows] == part]
                at_once = 2 if law.pairs and stratum == 0 else 1
                left_out, taken_out = together.left_out(root, solved, rows, rows[:, None])
                residuals = unpredicted[rows] = left_out[:, 0]
                without[part] = (len(rows) * solved - taken_out) / n_drawn[part]
                share = (stands_for[rows, None] * weights[rows])[:, :, None] / n_drawn[part]
                found += (share * residuals[:, None, :]).sum(axis=0)
                share *= filling[rows, None, None]
                here = share * residuals[:, None, :]
                here = here.reshape(len(rows) // at_once, at_once, *here.shape[1:]).sum(axis=1)
                shares.append(share)
            deviations.append(here)
            rows_of.append(rows)
        found += player_values(process, everything, without, part_of_cell, target, cells)
        if bases and base_of is not None and 0 in opened:
            mine = bases[turn]
            x = mine.controls(mine.before(values))
            drawn = draws[draws < len(masks)]
            drawn = drawn[part_of[drawn] == 0]
            rows = drawn[(drawn >= mine.n_known) & (cell[drawn] > target.n)]
            base = mine.places(base_of[rows], len(values))
            here = mine.subtracted(x, masks[rows], base, weights[rows], target.weights, cells)
            deviations.append(-here * (stands_for[rows] / n_drawn[0])[:, None, None])
            parts = np.where((part_of_cell == 0) & (np.arange(len(unseen)) > target.n), (unseen + 1) / number, 0.0)
            added = mine.added(parts * len(drawn) / n_drawn[0], target.weights, cells)
            deviations.append(added[:, :, None] * x[:, None, :])
            rows_of += [rows, mine.rows % len(values)]
            found += sum((each.sum(axis=0) for each in deviations[-2:]), np.zeros(()))
        inside = np.flatnonzero(part_of >= 0)
        by_own = (own[: len(masks)] / number[cell])[inside, None] * without[part_of[inside], inside]
        found += weights[inside].T @ by_own
    terms = np.concatenate(deviations)
    if pairing is not None or bases:  # a draw may count as itself, for its partner, and by what is made of it
        each, place = np.unique(together.of[np.concatenate(rows_of)], return_inverse=True)
        by_row = np.zeros((len(each), *terms.shape[1:]))
        np.add.at(by_row, place, terms)
        terms = by_row
    residuals = unpredicted[np.isfinite(unpredicted[:, 0])]
    lacking = (step**2 - (residuals**2).sum(axis=0)) / max(1, len(residuals))
    if (lacking > 0).any():
        terms = np.concatenate([terms, *(share * np.sqrt(np.maximum(0.0, lacking)) for share in shares)])
    terms *= COUPLING
    sampled = np.flatnonzero(part_of_cell >= 0)
    sizes, spent = cells.sizes[sampled], n_drawn[part_of_cell[sampled]]
    if pairing is not None:
        spent = spent / np.where(law.is_bin(law.stratum_of[sampled]), pairing.inflation, 1.0)
    left = unseen[sampled] / number[sampled]
    grown = np.where(law.stratum_of[sampled] > 0, left + spent / number[sampled], left) * left
    scale = target.weights.gain[sizes - 1] ** 2 * sizes * (target.n - sizes)
    precision = len(masks) ** LEARNING / float((scale * grown / law.within[sampled] / spent).sum())
    squares = _squares(cells.sizes[cell], values[: len(masks)], unpredicted)
    return Correction(found, _bundled(terms), _freedom(terms), precision, squares)


def clusters_of(
    law: Law, first: int, masks: Masks, m: int, partners: Partners | None = None, base_of: Ints | None = None
) -> Clusters:
    """Return which of m rows are left out together; see `correct` for the arguments."""
    strata, links = law.stratum_of[law.cells.of(masks[first:])], []
    if law.pairs:
        paired = first + np.flatnonzero(strata == 0)
        links.append((paired[1::2], paired[::2]))
    if partners is not None:
        new = first + np.flatnonzero(law.is_bin(strata))
        links.append((new, partners.rows[partners.asked[: len(new)]] % m))
    if base_of is not None:
        made = np.flatnonzero(base_of >= 0)
        links.append((made, base_of[made]))
    return Clusters.linked(m, links)


@dataclass(frozen=True, eq=False)
class _Pairing:
    """Partners, as far as they are evaluated."""

    rows: Ints
    """(p,): R_j among all that is known."""
    evaluated: Ints
    """(p,): T_j among it; -1 where it is not known, or is R_j."""
    part: Ints
    """(p,)"""
    cell: Ints
    """(p,): the cell of T_j."""
    masks: Masks
    """(p, n): T_j"""
    factor: float
    """How many differences each known one stands for."""
    ready: bool
    """Whether a difference is known, where one is needed."""

    @classmethod
    def of(cls, partners: Partners, law: Law, first: int, masks: Masks, part_of_cell: Ints) -> _Pairing:
        asked, cell = partners.asked, law.cells.of(partners.masks)
        new = first + np.flatnonzero(law.is_bin(law.stratum_of[law.cells.of(masks[first:])]))
        evaluated = np.full(len(cell), -1)
        evaluated[asked[: len(new)]] = new
        factor = len(asked) / max(1, len(new))
        return cls(
            partners.rows,
            evaluated,
            part_of_cell[cell],
            cell,
            partners.masks,
            factor,
            ready=len(new) > 0 or not len(asked),
        )

    @property
    def inflation(self) -> float:
        """The variance over that with all differences known, if these are as large as expected."""
        return 1 + RELATED**2 * max(0.0, self.factor - 1)

    def corrected(
        self, root: Floats, solved: Floats, clusters: Clusters, draws: Ints, part: int, target: Target, law: Law
    ) -> tuple[Floats, Ints, Floats]:
        """Return what the draws of a bin correct, (p, n, q), their rows, and the mean solution without each."""
        bin = np.flatnonzero(self.part == part)
        mine = bin[np.isin(self.rows[bin] % len(solved), draws)]
        rows = self.rows[mine] % len(solved)
        both = np.stack([rows, np.where(self.evaluated[mine] >= 0, self.evaluated[mine], rows)], axis=1)
        left_out, taken_out = clusters.left_out(root, solved, rows, both)
        old, new = left_out[:, 0], left_out[:, 1]
        residuals = old + self.factor * (new - old)
        cell, cells = self.cell[mine], law.cells
        share = cells.counts[cell] / cells.of_size[cell] / law.within[cell] / len(bin)
        terms = (share[:, None] * target.coefficients(self.masks[mine]))[:, :, None] * residuals[:, None, :]
        return terms, rows, (len(mine) * solved - taken_out) / len(bin)


def widened(masks: Masks, related: Masks) -> Masks:
    """Return (m + k, n + l): coalitions of the n players, who come first, and those with others who have left."""
    found = np.zeros((len(masks) + len(related), related.shape[1]), dtype=bool)
    found[: len(masks), : masks.shape[1]] = masks
    found[len(masks) :] = related
    return found


def player_values(
    process: Process, masks: Masks, loads: Floats, part_of_cell: Ints, target: Target, cells: Cells
) -> Floats:
    """Return `Process.player_values` for the players of the game, where the process has others who have left."""
    n, n_left = target.n, process.n - target.n
    if not n_left:
        return process.player_values(masks, loads, part_of_cell, target.log_weights, cells)
    wider = Cells(np.append(cells.joined, np.full(n_left, cells.n_levels)))
    parts = np.full((wider.n_levels, process.n + 1), -1)
    parts[:-1, : n + 1] = part_of_cell.reshape(-1, n + 1)
    log_weights = np.append(target.log_weights, np.full(n_left + 1, -np.inf))
    return process.player_values(masks, loads, parts.reshape(-1), log_weights, wider)[:n]


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


def predict(
    target: Target, cells: Cells, masks: Masks, values: Floats, process: Process, related: Masks | None = None
) -> Floats:
    """Return (n, q): what a process predicts from all that is known, uncorrected, so biased and of unknown error."""
    cell = cells.of(masks)
    complete = cells.unseen(cells.known(masks)) == 0
    part_of_cell = np.where(complete | (cells.sizes % target.n == 0), -1, 0)
    everything = masks if related is None else widened(masks, related)
    root, own = process.inverse_root(everything)
    solved = root.T @ (root @ values)
    inside = np.flatnonzero(part_of_cell[cell] == 0)
    by_own = (own[: len(masks)] / cells.of_size[cell])[inside, None] * solved[inside]
    found = player_values(process, everything, solved[None], part_of_cell, target, cells)
    return (
        found
        + target.exact(masks, values[: len(masks)], cells, complete)
        + target.coefficients(masks[inside]).T @ by_own
    )


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
    freedom = joint_freedom(variances, np.array([part.freedom for part in parts]))
    squares = sum((part.squares for part in parts), np.zeros(()))
    return Correction(values, deviations, freedom, precision, squares)


def joint_freedom(variances: Floats, freedom: Floats) -> float:
    """Return the degrees of freedom of a sum of independent errors, from those of each (Welch and Satterthwaite)."""
    by_part = float((variances**2 / freedom).sum())
    return float(variances.sum() ** 2 / by_part) if by_part > 0 else float(freedom[-1])


def opening_share(opening: Floats, epochs: Floats) -> Floats:
    """Return (q,): the weight of the opening's estimate beside that of the epochs after it, from their deviations.

    This weight alone depends on the errors that it weighs, by their variance over all players: how good the epochs
    are in comparison shows only in their draws.
    """
    ours, theirs = ((each**2).sum(axis=(0, 1)) for each in (opening, epochs))
    total = ours + theirs
    return np.asarray(np.where(total > 0, theirs / np.where(total > 0, total, 1.0), 1.0))


def with_opening(
    share: Floats, opened: Correction, deviations: NDArray[np.float32], freedom: float
) -> tuple[NDArray[np.float32], float]:
    """Return the deviations of an estimate with a share (q,) of the opening in it, and its degrees of freedom.

    `deviations` (R, n, q) and `freedom` are those of the epochs after it. With several outputs, the one with the
    fewest degrees of freedom counts.
    """
    theirs = (1 - share).astype(np.float32) * np.nan_to_num(deviations)
    ours = (share * opened.deviations).astype(np.float32)
    variances = np.stack([(each.astype(float) ** 2).sum(axis=(0, 1)) for each in (theirs, ours)], axis=1)
    of_both = np.array([freedom, max(1.0, opened.freedom)])
    return np.concatenate([theirs, ours]), min(joint_freedom(each, of_both) for each in variances)


def uncertainty(process: Process, taught: Masks, cells: Cells, rng: np.random.Generator) -> Floats:
    """Return (c,): the root mean squared error to expect of predictions from coalitions `taught`, in each cell."""
    root, _ = process.inverse_root(taught)
    found = np.zeros((cells.n_levels, cells.n + 1))
    for level in range(cells.n_levels):
        sizes, masks = some_of_level(cells, level, rng)
        wider = widened(masks, taught[:0])
        explained = ((root @ process.covariance(taught, wider)) ** 2).sum(axis=0)
        variance = np.maximum(process.variance(wider) - explained, 1e-12).reshape(len(sizes), -1).mean(axis=1)
        found[level] = np.interp(np.arange(cells.n + 1), sizes, np.sqrt(variance))
    return found.reshape(-1)


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
