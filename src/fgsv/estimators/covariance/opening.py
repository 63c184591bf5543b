"""The first evaluations: drawn once each, interpolated by a Gaussian process, corrected by leaving one out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.covariance.correction import (
    Correction,
    Target,
    combined,
    correct,
    in_groups,
    inverse_root,
    predict,
)
from fgsv.estimators.covariance.design import Cells, Law, Sampler, counts, divided, first_law
from fgsv.estimators.covariance.gains import learned, predicted_in
from fgsv.estimators.covariance.history import evenly
from fgsv.estimators.covariance.process import Process
from fgsv.estimators.covariance.proxy import Proxy, beyond, coefficients
from fgsv.estimators.covariance.sums import check_finite
from fgsv.estimators.method import Draws, OtherLaw, Problem
from fgsv.game import Known
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

LEAST = 16
"""Evaluations of the first estimate, including the ends."""
HAND_OVER = (11, 2048), (128, 1024)
"""Up to so many players, the evaluations after which the opening ends; with more there is none."""
FIRST_EPOCH = 64, 256
"""The first epoch ends after three evaluations for each player, within these limits."""
GROWTH = 2
"""An epoch ends when the evaluations have grown by this factor."""
FOLDS = 4
"""Groups of draws in a young epoch; each is corrected by a process that is fitted to the others."""
FOLDED = 256
"""An epoch is young, and worth the time of as many fits, if it ends by then; the first one always is."""
EXPLORE = 0.1
"""Fraction of the draws whose sizes do not depend on earlier values."""
PER_ROUND = 32
"""Draws in a round, at least; later an eighth of the evaluations so far."""
MANY_PLAYERS = 64
"""Beyond, fits take fewer coalitions and steps: every player has a parameter."""
MOST_FITTED = 512, 128
"""Limit on the coalitions that the parameters are fitted to; with many players."""
STEPS = 25, 12
"""Limit on the steps of a fit from the default parameters; with many players."""
STEPS_AGAIN = 40, 6
"""Limit on those from the parameters of the epoch before; with many players."""
OLD_DRAWS = 4
"""Draws of earlier runs that make a size a stratum of its own, in which they count beside new ones."""
MOST_KNOWN = 1500
"""Limit on the coalitions of earlier runs that are used: those that were drawn first, at random among equals."""
MOST_LEVELS = 3
"""Limit on the sets of players of earlier runs that are told apart."""
AT_ONCE = 128
"""Utilities whose influence is computed at once."""


@dataclass(frozen=True, eq=False)
class Epoch:
    """What is fixed before an epoch's first draw."""

    first: int
    """Evaluations before the epoch, including the ends."""
    end: int
    """Evaluations after it."""
    law: Law
    process: Process
    beta: Floats
    """(k, q): the proxy's coefficients; what is estimated is U - beta * proxy."""

    def to_dict(self) -> dict[str, Any]:
        """Return how the draws of the epoch were made, as JSON can hold it."""
        return {
            "first": self.first,
            "end": self.end,
            "law": self.law.to_dict(),
            "process": self.process.parameters.tolist(),
            "ranks": None if self.process.ranks is None else self.process.ranks.tolist(),
            "proxy": self.beta.tolist(),
            "outputs": self.beta.shape[1],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Epoch:
        """Read what `to_dict` wrote."""
        law, parameters = Law.from_dict(document["law"]), np.array(document["process"], dtype=float)
        ranks = None if document["ranks"] is None else np.array(document["ranks"], dtype=np.int64)
        process = Process(law.cells.n, parameters, ranks)
        beta = np.array(document["proxy"], dtype=float)
        beta = beta if beta.size else beta.reshape(0, document["outputs"])  # an empty list forgets its columns
        return cls(document["first"], document["end"], law, process, beta)

    def resembles(self, other: Epoch) -> bool:
        """Say whether two epochs differ by rounding alone, as far as that goes in a search for parameters."""
        return (
            (self.first, self.end) == (other.first, other.end)
            and self.beta.shape == other.beta.shape
            and self.law.resembles(other.law)
            and np.array_equal(self.process.ranks, other.process.ranks)
            and np.allclose(self.process.parameters, other.process.parameters, atol=0.1)
            and np.allclose(self.beta, other.beta, atol=1e-3)
        )


def hand_over(n_players: int) -> int:
    """Return after how many evaluations the opening of a game of this many players ends; 0 if there is none."""
    return next((end for most, end in HAND_OVER if 4 <= n_players <= most), 0)


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a run starts from, as far as it is used: first what is only known, then what was drawn."""

    masks: Masks
    values: Floats
    n_memos: int
    """Coalitions whose values are all that is known of them."""
    cells: Cells
    seed: list[int]

    @classmethod
    def of(cls, known: Known, seed: int) -> Beginning:
        """Return what is used of what is known.

        A coalition that was drawn uniformly among those of its size, and happens to avoid those who have left, is
        uniform among the coalitions of its size of the players who were there then and are now: a cell, if nobody
        joined before the run whom another run did not have.
        """
        masks, n = known.masks(), known.n_players
        sizes = masks.sum(axis=1)
        joined, latest = _levels(known)
        cells = Cells(joined)
        cell = cells.of(masks)
        drawn = cell // (n + 1) <= latest[known.run]
        by_cell = np.bincount(cell[drawn], minlength=len(cells.sizes))
        drawn &= by_cell[cell] >= OLD_DRAWS
        rng = np.random.default_rng([seed, len(known)])
        order = rng.permutation(np.flatnonzero(sizes % n > 0))
        order = order[np.argsort(~drawn[order], kind="stable")][:MOST_KNOWN]
        order = order[np.argsort(drawn[order], kind="stable")]
        seeds = [seed, len(known), 1]
        return cls(masks[order], known.values[order], int((~drawn[order]).sum()), cells, seeds)


def _levels(known: Known) -> tuple[Ints, Ints]:
    """Return (n,) when each player joined, and for each run the last level that it had: -1 if it is no use.

    Runs are of use if of any two one had all the players of the other; those with the most draws come first.
    """
    n_draws = np.bincount(known.run[known.run >= 0], minlength=len(known.runs))
    chain: list[Masks] = []
    for number in np.argsort(-n_draws, kind="stable"):
        had = known.runs[number].had
        new = had.any() and not any(np.array_equal(had, each) for each in chain)
        nested = all((had <= each).all() or (had >= each).all() for each in chain)
        if new and nested and len(chain) < MOST_LEVELS:
            chain.append(had)
    chain.sort(key=lambda each: int(each.sum()))
    joined = sum((~each for each in chain), np.zeros(known.n_players, dtype=np.int64))
    had_level = [[i for i, each in enumerate(chain) if np.array_equal(each, run.had)] for run in known.runs]
    return np.asarray(joined), np.array([each[0] if each else -1 for each in had_level] + [-1])


class Opening:
    """Epochs that double the evaluations; each has a law and a process that are fixed before its first draw.

    The draws of an epoch correct what the process predicts from everything known (`correction.correct`). Epochs are
    combined with weights that depend on counts alone, so that the estimate is unbiased. In the first epochs there are
    few or no earlier utilities to fit the process to: there each quarter of the draws is corrected by a process that
    is fitted to everything else. The first one draws pairs of complements.
    """

    def __init__(self, problem: Problem, proxy: Proxy, round_size: int | None = None, plug_in: bool = False) -> None:
        n = problem.n_players
        self._n, self._ends, self._proxy = n, problem.ends, proxy
        self._per_round, self._plug_in = round_size, plug_in
        self._efficient = problem.semivalue == SHAPLEY
        self._target = Target.of(problem.semivalue, n)
        sizes = np.arange(1, n)
        cost = np.ones(n - 1) if problem.cost is None else np.asarray(problem.cost(sizes), dtype=float)
        self._base = self._target.weights.gain * np.sqrt(sizes * (n - sizes)) / np.sqrt(cost)
        self.masks: Masks = Coalitions.ends(n).masks()
        self.values: Floats = problem.ends
        self.proxies: Floats = np.zeros((2, *proxy.values.shape[1:]))
        self._cells = Cells(np.zeros(n, dtype=np.int64))
        self._sampler = Sampler(n)
        self._sampler.add(self.masks)
        # the coefficients of a proxy are unknown in the first epoch, so that it is short
        end = LEAST if proxy.values.shape[1] else int(np.clip(3 * n, *FIRST_EPOCH))
        beta = np.zeros(self.proxies.shape[1:])
        self.epochs = [Epoch(2, end, first_law(n, self._base, end - 2), Process.default(n), beta)]
        self._announced: Epoch | None = None
        self._closed: list[tuple[Correction, Floats]] = []
        self._processes: list[tuple[int, Ints, list[tuple[Process, Ints]]]] = []  # by which each was corrected
        self._current: tuple[Correction, Floats] | None = None
        self.n_known = 0
        self.end = hand_over(n)
        if problem.known is not None and len(problem.known):
            self._begin(Beginning.of(problem.known, problem.seed))

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far, including the ends."""
        return len(self.values)

    @property
    def sizes(self) -> Ints:
        """(m,): the size of every coalition so far."""
        return self.masks.sum(axis=1)

    @property
    def known(self) -> Ints:
        """(n + 1,): known coalitions of each size."""
        return np.bincount(self.sizes, minlength=self._n + 1)

    @property
    def complete(self) -> Masks:
        """(n + 1,): whether every coalition of a size is known."""
        return np.asarray(counts(self._n) <= self.known)

    def _begin(self, known: Beginning) -> None:
        """Open the first epoch with what is known: draws that were uniform within their size count as its own."""
        self.n_known, self._cells = len(known.values), known.cells
        self.masks = np.concatenate([self.masks, known.masks])
        self.values = np.concatenate([self.values, known.values])
        self.proxies = np.concatenate([self.proxies, self._proxy.evaluate(Coalitions.from_masks(known.masks))])
        self._sampler.add(known.masks)
        rng = np.random.default_rng(known.seed)
        beta = coefficients(self.sizes[2:], self.values[2:], self.proxies[2:], self._base)
        process = self._fitted(Process.default(self._n), self.masks, self._beyond(beta))
        wanted = self._wanted(process, rng)
        end = GROWTH * self.n_evaluations
        first = 2 + known.n_memos
        own = np.unique(self._cells.of(self.masks[first:])).tolist()
        known_before = self._cells.known(self.masks[:first])
        law = divided(self._cells, wanted, known_before, end - first, own=own, complete_first=True)
        self.epochs = [Epoch(first, end, law, process, beta)]
        self.end = max(self.end, end)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round, at most up to the end of the epoch; open the next epoch first if the last one has ended."""
        if self.complete.all():
            return None
        if self.n_evaluations >= self.epochs[-1].end:
            self._next_epoch(rng.spawn(1)[0])
        return self._round(rng)

    def _follow(self, law: Mapping[str, Any], rng: np.random.Generator) -> Draws:
        """Draw the first round of an epoch again, by the law and the process that were recorded for it."""
        found, recorded = self.epochs[-1], Epoch.from_dict(law)
        if not found.resembles(recorded):
            raise OtherLaw(
                f"the law recorded for the draws after {found.first} evaluations is not the one that the recorded "
                "utilities lead to"
            )
        self.epochs[-1] = recorded
        self._sampler.new_epoch()
        return self._round(rng)

    def _round(self, rng: np.random.Generator) -> Draws:
        epoch = self.epochs[-1]
        per_round = self._per_round or self._next_round()
        strata = epoch.law.stratum_of[epoch.law.cells.of(self.masks[epoch.first :])]
        drawn = np.bincount(strata, minlength=epoch.law.n_strata)
        rows = self._sampler.draw(epoch.law, drawn, min(per_round, epoch.end - self.n_evaluations), rng)
        law = None if epoch is self._announced else epoch.to_dict()
        self._announced = epoch
        return Draws(Coalitions.from_masks(rows), law=law, follow=self._follow, order=np.arange(len(rows)))

    def _next_round(self) -> int:
        """Return the draws of the next round: few where an estimate soon says what a run will cost, or is cheap."""
        new = self.n_evaluations - self.n_known
        if new < LEAST:
            return LEAST - new
        return max(min(max(PER_ROUND, new // 8), new), self.n_known // 16)

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the values of a round."""
        self._proxy.keep_ahead(self.n_evaluations + len(values))
        masks = draws.coalitions.masks()
        self._sampler.add(masks)
        self.masks = np.concatenate([self.masks, masks])
        self.values = np.concatenate([self.values, values])
        self.proxies = np.concatenate([self.proxies, self._proxy.evaluate(draws.coalitions)])
        self._current = None

    def estimate(self) -> Estimate:
        """Return the player values and their deviations."""
        if self.complete.all():
            exact = self._target.exact(
                self.masks, self.values, self._cells, np.ones(len(self._cells.sizes), dtype=bool)
            )
            return Estimate(self._whole(exact), exact=True, efficient=self._efficient)
        self._current = self._current or self._corrected()
        if not self._closed and self._current is None:
            return Estimate(self._whole(self._predicted(self.epochs[-1].process)))  # too few draws: error unknown
        found, beta = self.combined()
        values = found.values + (self._proxy.values * beta).sum(axis=1)
        if self._plug_in:  # the errors stay those of the corrected values
            epoch = self.epochs[-1]
            values = self._predicted(self._fitted(epoch.process, self.masks, self._beyond(epoch.beta)))
        check_finite(values)
        deviations = self._proxy.add_errors(found.deviations, beta)
        predicted, weights = predicted_in((), found), self._target.weights
        return Estimate(
            self._whole(values),
            deviations.astype(np.float32),
            degrees_of_freedom=max(1.0, found.freedom),
            efficient=self._efficient,
            learned=learned(predicted, self._ends, self.sizes[2:], self.values[2:], weights, deviations),
        )

    def combined(self) -> tuple[Correction, Floats]:
        """Return the estimate from all epochs, without ends and proxy, and the coefficients of the proxy."""
        if self._current is None:
            self._current = self._corrected()
        parts = [*self._closed, *([] if self._current is None else [self._current])]
        if self._proxy.values.shape[1] and len(parts) > 1:
            parts = parts[1:]  # the first epoch did not know the proxy's coefficients
        found = combined([part for part, _ in parts])
        shares = [part.precision / found.precision for part, _ in parts]
        beta = sum((share * beta for share, (_, beta) in zip(shares, parts, strict=True)), np.zeros(()))
        return found, beta

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value, if laws and processes are held fixed."""
        if self.complete.all():
            exact = in_groups(partition, self.masks, self._target.weights) / counts(self._n)[self.sizes][:, None]
            return np.asarray(exact[2:])
        self._current = self._current or self._corrected()
        if self._plug_in or (not self._closed and self._current is None):
            return None
        found = self.corrections_by(partition)
        if self._efficient:
            found = found - np.outer(found.sum(axis=1), partition.sizes / self._n)
        return found

    def corrections_by(self, partition: Partition) -> Floats:
        """Return (m, K): the part of each draw in what `combined` returns, from unit utilities, some at a time."""
        total = self.combined()[0].precision
        found = np.zeros((self.n_evaluations, partition.n_groups))
        parts = [*self._closed, *([] if self._current is None else [self._current])]
        for (number, rows, processes), (correction, _) in zip(self._processes, parts, strict=True):
            epoch, unit = self.epochs[number], np.eye(len(rows))
            for some in range(2, len(rows), AT_ONCE):
                utilities = unit[:, some : some + AT_ONCE]
                each = correct(self._target, epoch.law, epoch.first, self.masks[rows], utilities, processes)
                assert each is not None
                sums = partition.sums(each.values).T
                found[rows[some : some + len(sums)]] += correction.precision / total * sums
        return found[2:]

    def record(self) -> dict[str, Any]:
        """Return by which laws and with which processes the coalitions were drawn, as JSON can hold it."""
        return {"epochs": [epoch.to_dict() for epoch in self.epochs]}

    def _whole(self, values: Floats) -> Floats:
        """Add what the ends contribute; Shapley values add up to the last digits."""
        weights, (empty, full) = self._target.weights, self._ends
        values = values + weights.full * (full - empty) + (weights.full - weights.empty) * empty
        if self._efficient:
            values += (full - empty - values.sum(axis=0)) / self._n
        return np.asarray(values)

    # --- epochs

    def _corrected(self) -> tuple[Correction, Floats] | None:
        """Return the estimate from the draws of the current epoch; None while a stratum has no draw."""
        epoch = self.epochs[-1]
        rows = self._whole_pairs(epoch)
        masks, values = self.masks[rows], self._beyond(epoch.beta)[rows]
        draws = np.arange(epoch.first, len(rows))
        processes = [(epoch.process, draws)]
        if len(self.epochs) == 1 or epoch.end <= FOLDED:
            processes = [
                (self._fitted(epoch.process, np.delete(masks, fold, axis=0), np.delete(values, fold, axis=0)), fold)
                for fold in self._folds(epoch.law, masks, draws)
            ]
        found = correct(self._target, epoch.law, epoch.first, masks, values, processes)
        if found is None:
            return None
        self._processes = [each for each in self._processes if each[0] < len(self.epochs) - 1]
        self._processes.append((len(self.epochs) - 1, rows, processes))
        return replace(found, values=found.values + self._of_line), epoch.beta

    def _predicted(self, process: Process) -> Floats:
        """Return (n, q): what a process predicts."""
        beta = self.epochs[-1].beta
        found = predict(self._target, self._cells, self.masks, self._beyond(beta), process)
        return found + self._of_line + (self._proxy.values * beta).sum(axis=1)

    @property
    def _of_line(self) -> Floats:
        """What the line between the ends contributes, the same to all players."""
        return np.asarray(self._target.weights.drift @ self._line(np.arange(1, self._n)))

    def _whole_pairs(self, epoch: Epoch) -> Ints:
        """Return the evaluations without a draw that waits for its complement: it says where other pairs are not."""
        rows, law = np.arange(self.n_evaluations), epoch.law
        paired = rows[epoch.first :][law.stratum_of[law.cells.of(self.masks[epoch.first :])] == 0]
        return np.delete(rows, paired[-1]) if law.pairs and len(paired) % 2 else rows

    def _folds(self, law: Law, masks: Masks, draws: Ints) -> list[Ints]:
        """Divide the draws into a few parts, pairs together; a cell that is complete needs no correction."""
        cell = law.cells.of(masks)
        draws = draws[law.cells.unseen(law.cells.known(masks))[cell[draws]] > 0]
        paired = law.pairs & (law.stratum_of[cell[draws]] == 0)
        turns = np.where(paired, (np.cumsum(paired) - 1) // 2, np.cumsum(~paired) - 1) % FOLDS
        return [draws[turns == turn] for turn in np.unique(turns)]

    def _next_epoch(self, rng: np.random.Generator) -> None:
        """Close the epoch, and fix law and process of the next one by all that is known."""
        self._current = self._current or self._corrected()
        if self._current is not None:
            self._closed.append(self._current)
        self._current = None
        beta = coefficients(self.sizes[2:], self.values[2:], self.proxies[2:], self._base)
        process = self._fitted(self.epochs[-1].process, self.masks, self._beyond(beta))
        wanted = self._wanted(process, rng)
        first, end = self.n_evaluations, GROWTH * self.epochs[-1].end
        self._sampler.new_epoch()
        law = divided(self._cells, wanted, self._cells.known(self.masks), end - first)
        self.epochs.append(Epoch(first, end, law, process, beta))

    def _wanted(self, process: Process, rng: np.random.Generator) -> Floats:
        """Return (c,): the part of the next draws that each cell is to have."""
        cells = self._cells
        base = np.concatenate([[0.0], self._base, [0.0]])[cells.sizes]
        base *= cells.unseen(cells.known(self.masks)) / cells.of_size
        best = base * self._uncertainty(process, rng)
        return np.asarray(EXPLORE * base / base.sum() + (1 - EXPLORE) * best / best.sum())

    def _fitted(self, start: Process, masks: Masks, values: Floats) -> Process:
        """Return the process of this epoch or the one before, fitted to these utilities."""
        many = self._n > MANY_PLAYERS
        steps = STEPS if len(self.epochs) == 1 else STEPS_AGAIN
        rows = evenly(len(masks), MOST_FITTED[many])
        return start.fitted(masks[rows], values[rows], steps[many])

    def _beyond(self, beta: Floats) -> Floats:
        """Return (m, q): what the proxy leaves, less the straight line between the ends."""
        return beyond(self.values, self.proxies, beta) - self._line(self.sizes)

    def _line(self, sizes: Ints) -> Floats:
        share = (sizes / self._n)[:, None]
        return (1 - share) * self._ends[0] + share * self._ends[1]

    def uncertainty(self, rng: np.random.Generator) -> Floats:
        """Return (n - 1,): the root mean squared error to expect of predictions at each size, in some unit."""
        expected = self._uncertainty(self.epochs[-1].process, rng) ** 2 * self._cells.counts / self._cells.of_size
        return np.asarray(np.sqrt(expected.reshape(-1, self._n + 1).sum(axis=0))[1 : self._n])

    def _uncertainty(self, process: Process, rng: np.random.Generator) -> Floats:
        """Return (c,): the same for each cell."""
        n, joined = self._n, self._cells.joined
        root, _ = inverse_root(process, self.masks)
        found = np.zeros((self._cells.n_levels, n + 1))
        for level in range(self._cells.n_levels):
            there, latest = np.flatnonzero(joined <= level), np.flatnonzero(joined == level)
            most = min(len(there), n - 1)
            some = np.unique(np.rint(np.linspace(1, most, min(most, 63))).astype(np.int64))
            sizes = np.repeat(some, 24 if n <= 64 else 8)
            order = rng.permuted(np.tile(there, (len(sizes), 1)), axis=1)
            members = np.arange(len(there)) < sizes[:, None]
            masks = np.zeros((len(sizes), n), dtype=bool)
            np.put_along_axis(masks, order, members, axis=1)
            if level:  # somebody of the latest is in; which of them, matters little here
                missing = np.flatnonzero(~masks[:, latest].any(axis=1))
                masks[missing, order[missing, 0]] = False
                masks[missing, rng.choice(latest, len(missing))] = True
            explained = ((root @ process.covariance(self.masks, masks)) ** 2).sum(axis=0)
            variance = np.maximum(process.variance(masks) - explained, 1e-12).reshape(len(some), -1).mean(axis=1)
            found[level] = np.interp(np.arange(n + 1), some, np.sqrt(variance))
        return found.reshape(-1)
