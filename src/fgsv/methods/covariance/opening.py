"""The first evaluations: drawn once each, interpolated by a Gaussian process, corrected by leaving one out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.covariance.beginning import Beginning
from fgsv.methods.covariance.choice import choose, listed
from fgsv.methods.covariance.correction import Correction, Fold, combined, correct, smallest_step
from fgsv.methods.covariance.design import ENDS_FIRST, Law, Sampler, counts, divided, first_law, most_strata
from fgsv.methods.covariance.forecast import Forecast, line
from fgsv.methods.covariance.gains import Predicted, learned
from fgsv.methods.covariance.newcomers import Bases, may_be_bases
from fgsv.methods.covariance.opening_epoch import EpochEstimate, OpeningEpoch, epoch_weight, milestone
from fgsv.methods.covariance.partners import Partners
from fgsv.methods.covariance.prediction import predict, uncertainty
from fgsv.methods.covariance.process import MANY_PLAYERS, Process
from fgsv.methods.covariance.proxy import Proxy, beyond, coefficients
from fgsv.methods.covariance.sample import Sample, widened
from fgsv.methods.covariance.sums import check_finite
from fgsv.methods.covariance.target import Target, costs, in_groups
from fgsv.methods.method import Draws, OtherLaw, Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

LEAST = 16
"""Evaluations of the first estimate, including the ends."""
FEWEST_PLAYERS, MOST_PLAYERS = 4, 512
"""Games with fewer or more players have no opening."""
HAND_OVER: tuple[tuple[int, int], ...] = (11, 2048), (MOST_PLAYERS, 1024)
"""Up to so many players, the evaluations after which the opening ends."""
CHOSEN = 32, 256
"""Evaluations from which and up to which every second one is chosen, where predictions are not corrected."""
EPOCHS: tuple[int, ...] = 32, 128, 1024
"""Evaluations after which an epoch ends. The first law knows nothing of the utilities."""
GROWTH = 2
"""Later an epoch ends when the evaluations have grown by this factor; so does the first one of a run with a start.
With up to `ENDS_FIRST` players the first one is longer by this factor, unless utilities are steep and corrected."""
STEEP = 8.0
"""Utilities are steep if single players vary more than this times as much as coalitions of all but one, as where
models learn. Small coalitions then need most of the draws."""
FIRST_COUNTS = 0.5
"""Weight of the first epoch, relative to what its sizes and counts say: it has the least to learn from."""
FEW_COALITIONS = 256, 128
"""Up to so many coalitions are few; with many players."""
FOLDS, FOLDS_OF_FEW = 2, 4
"""Groups of draws that are each corrected by a process fitted to the others; those of few coalitions."""
EXPLORE = 0.1
"""Fraction of the draws whose sizes do not depend on earlier values."""
PER_ROUND = 32
"""Draws in a round, at least; later an eighth of the evaluations so far."""
MOST_FITTED = 512
"""Limit on the coalitions that the parameters are fitted to."""
STEPS = 25
"""Limit on the steps of a fit from the default parameters."""
STEPS_AGAIN = 40
"""Limit on those from the parameters of the epoch before, or of a fit to everything, uncorrected."""
STEPS_CAUTIOUS = 12
"""Limit on those of any fit to few coalitions with many players: more would follow chance."""
STEPS_CHOOSING = 10
"""Limit on those of the latter while coalitions are chosen, from the parameters of the round before."""
AT_ONCE = 128
"""Utilities whose influence is computed at once."""


def hand_over(n_players: int) -> int:
    """Return after how many evaluations the opening of a game of this many players ends; 0 if there is none."""
    return next((end for most, end in HAND_OVER if FEWEST_PLAYERS <= n_players <= most), 0)


class Opening:
    """Epochs of growing length; each has a law, and a process to start from, that are fixed before its first draw.

    The draws of an epoch correct what a process predicts from everything known (`correction.correct`): each part of
    them, one that is fitted to everything else. Epochs are combined with weights that follow from counts alone
    (`epoch_weight`). The first one draws pairs of complements.

    With `plug_in` values are what the process predicts. Then some coalitions are chosen by what was learned from the
    draws; they are known, but not drawn: errors rest on the draws.
    """

    def __init__(
        self, problem: Problem, proxy: Proxy, round_size: int | None, plug_in: bool, most_known: int
    ) -> None:
        n = problem.n_players
        self._n, self._ends, self._proxy = n, problem.ends, proxy
        self._per_round, self._plug_in = round_size, plug_in
        self._n_stated = problem.n_stated
        self._efficient = problem.semivalue == SHAPLEY
        self._target = Target.of(problem.semivalue, n)
        cost = costs(problem)
        self._base, self._cost = self._target.base(cost), np.concatenate([[1.0], cost, [1.0]])
        # everything evaluated so far: coalitions, utilities, values of the proxy, and which were chosen, not drawn
        self.masks: Masks = Coalitions.ends(n).masks()
        self.values: Floats = problem.ends
        self.proxies: Floats = np.zeros((2, *proxy.values.shape[1:]))
        self._chosen: Masks = np.zeros(2, dtype=bool)
        self._sampler = Sampler(n)
        self._sampler.add(self.masks)
        # the coefficients of a proxy are unknown in the first epoch, so that it is short
        beta = np.zeros(self.proxies.shape[1:])
        end = LEAST if beta.size else EPOCHS[0]
        length = GROWTH * end if n <= ENDS_FIRST and not beta.size else end
        self.epochs = [OpeningEpoch(2, end, first_law(n, self._base, length - 2), Process.default(n), beta)]
        self._announced: OpeningEpoch | None = None
        self.end = hand_over(n)
        # the estimates of epochs that have ended, and that of the current one since the last round
        self._closed: list[EpochEstimate] = []
        self._current: EpochEstimate | None = None
        # the processes of the folds, and how many evaluations they are fitted to
        self._fold_fits: tuple[int, list[Process]] | None = None
        # a process fitted to everything so far, and a round before, where coalitions are chosen by it
        self._latest: Process | None = None
        self._before: Process | None = None
        # what the run starts from, and what draws are made of it
        self._started, self._beginning = False, Beginning.nothing(problem.ends, n)
        self._cells = self._beginning.cells
        self._partners: Partners | None = None
        self._bases: Bases | None = None
        if problem.known is not None and len(problem.known):
            related = not proxy.values.shape[1]  # which has no value for those who have left
            self._begin(Beginning.of(problem.known, problem.seed, most_known, related=related))

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far, including the ends."""
        return len(self.values)

    @property
    def n_known(self) -> int:
        """Evaluations of earlier runs that are used."""
        return len(self._beginning.values)

    @property
    def sizes(self) -> Ints:
        """(m,): the size of every coalition so far."""
        return self.masks.sum(axis=1)

    @property
    def complete(self) -> Masks:
        """(n + 1,): whether every coalition of a size is known."""
        return np.asarray(counts(self._n) <= np.bincount(self.sizes, minlength=self._n + 1))

    def _begin(self, known: Beginning) -> None:
        """Open the first epoch with what is known: draws that were uniform within their size count as its own."""
        self._started, self._beginning, self._cells = True, known, known.cells
        self._add(Coalitions.from_masks(known.masks), known.values, np.zeros(len(known.values), dtype=bool))
        beta = coefficients(self.sizes[2:], self.values[2:], self.proxies[2:], self._base)
        process = self._fitted(Process.default(known.related.shape[1]), self._taught(), self._beyond(beta))
        first = 2 + known.n_memos
        self._find_bases(process)
        wanted = self._wanted(process, np.random.default_rng(known.seed))
        end = GROWTH * self.n_evaluations
        own = np.unique(self._cells.of(self.masks[first:])).tolist()
        known_before = self._cells.known(self.masks[:first])
        law = divided(self._cells, wanted, known_before, end - first, own=own, bins=known.bins, complete_first=True)
        self.epochs = [OpeningEpoch(first, end, replace(law, bases=self._bases is not None), process, beta)]
        self._pair(law)
        self.end = max(self.end, end)

    def _find_bases(self, process: Process) -> None:
        """Look for draws of earlier runs to which newcomers may be added."""
        taught = self._taught(self.masks[: 2 + self.n_known])
        rows = self._beginning.candidates(before=2)
        rows = rows[may_be_bases(taught[rows, : self._n], self._cells)]
        rng, n_related = np.random.default_rng([*self._beginning.seed, 2]), len(self._beginning.related)
        self._bases = Bases.of(process, taught, n_related, rows, self._cells, rng) if len(rows) else None

    def _pair(self, law: Law) -> None:
        """Give draws of earlier runs partners to draw, by the law of the first epoch."""
        if law.bins:
            self._partners = self._beginning.partners(law, before=2)
            self._sampler.partners = self._partners.masks[self._partners.asked]

    def _taught(self, masks: Masks | None = None) -> Masks:
        """Return what the process learns from: coalitions, by default all so far, and those with others who left."""
        return widened(self.masks if masks is None else masks, self._beginning.related)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round, at most up to the end of the epoch; open the next epoch first if the last one has ended."""
        if self.complete.all():
            return None
        epoch = self.epochs[-1]
        if self.n_evaluations >= epoch.end:
            if self._may_go_on and (self._plug_in or not self._steep):
                self.epochs[-1] = replace(epoch, end=GROWTH * epoch.end)
            else:
                self._next_epoch(rng.spawn(1)[0])
        return self._round(rng)

    @property
    def _may_go_on(self) -> bool:
        """Whether this is the first epoch of few players, of which nothing was known, and not longer yet."""
        first = len(self.epochs) == 1 and self.epochs[0].end == EPOCHS[0]
        return first and self._n <= ENDS_FIRST and not self._started and not self.epochs[0].beta.size

    @property
    def _steep(self) -> bool:
        """Whether single players vary far more than coalitions of all but one, and these at all, in any output."""
        stated = self.values[:, : self._n_stated]
        alone, but_one = (stated[self.sizes == size].std(axis=0) for size in (1, self._n - 1))
        return bool(((alone > STEEP * but_one) & (but_one > 0)).any())

    def _follow(self, law: Mapping[str, Any], rng: np.random.Generator) -> Draws:
        """Draw a round again, by the law and the process that were recorded for it, and what was chosen."""
        if "law" in law:
            found, recorded = self.epochs[-1], OpeningEpoch.from_dict(law)
            if not found.resembles(recorded):
                raise OtherLaw(
                    f"the law recorded for the draws after {found.first} evaluations is not the one that the "
                    "recorded utilities lead to"
                )
            self.epochs[-1], self._fold_fits, self._latest, self._before = recorded, None, None, None
            if len(self.epochs) == 1:
                self._pair(recorded.law)
                if recorded.law.bases:
                    self._find_bases(recorded.process)
        self._sampler.rewind()
        return self._round(rng, law.get("chosen"))

    def _round(self, rng: np.random.Generator, recorded: Sequence[str] | None = None) -> Draws:
        """Draw a round by the law of the epoch; while coalitions are chosen, half of it, in turns with these."""
        epoch = self.epochs[-1]
        count = min(self._per_round or self._next_round(), epoch.end - self.n_evaluations)
        chosen = self._choose(count // 2, rng, recorded)
        since, by_choice = self.masks[epoch.first :], self._chosen[epoch.first :]
        known = epoch.law.known + self._cells.known(np.concatenate([since[by_choice], chosen]))
        law = replace(epoch.law, known=known)
        if self._bases is not None:
            self._sampler.bases = self._bases.unused(self.masks, self.epochs[0].first, self._cells)
        rows = self._sampler.draw(law, law.n_drawn(since[~by_choice]), count - len(chosen), rng, without=chosen)
        content = {} if epoch is self._announced else epoch.to_dict()
        if len(chosen):
            content["chosen"] = listed(chosen)
        self._announced = epoch
        masks, turns = np.concatenate([chosen, rows]), np.append(np.arange(len(chosen)), np.arange(len(rows)))
        plan, order = np.arange(len(masks)) < len(chosen), np.argsort(turns, kind="stable")
        return Draws(Coalitions.from_masks(masks), plan, content or None, self._follow, order)

    @property
    def _choosing(self) -> bool:
        """Whether every second evaluation is chosen."""
        few = self._n <= MANY_PLAYERS and CHOSEN[0] <= self.n_evaluations < CHOSEN[1]
        return self._plug_in and not self._started and few

    def _choose(self, count: int, rng: np.random.Generator, recorded: Sequence[str] | None) -> Masks:
        """Return (k, n): the coalitions of a round that are chosen; the process must have seen some draws."""
        if not self._choosing:
            return np.zeros((0, self._n), dtype=bool)
        known = np.concatenate([self.masks, self._sampler.waiting])
        return choose(self._fitted_to_all(), self._target, known, count, self._cost, rng, recorded)

    def _next_round(self) -> int:
        """Return the draws of the next round: few where an estimate soon says what a run will cost, or is cheap."""
        new = self.n_evaluations - self.n_known
        if new < LEAST:
            return LEAST - new
        if self._choosing and new < CHOSEN[1] // 2:
            return LEAST
        return max(min(max(PER_ROUND, new // 8), new), self.n_known // 16)

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the values of a round."""
        self._proxy.keep_ahead(self.n_evaluations + len(values))
        self._before = self._latest if self._choosing else None  # else it is fitted only if somebody looks
        self._add(draws.coalitions, values, draws.plan)
        self._current = self._latest = None

    def _add(self, coalitions: Coalitions, values: Floats, chosen: Masks) -> None:
        """Append evaluations; `chosen` (m,) says which were not drawn."""
        masks = coalitions.masks()
        self._sampler.add(masks)
        self.masks = np.concatenate([self.masks, masks])
        self.values = np.concatenate([self.values, values])
        self.proxies = np.concatenate([self.proxies, self._proxy.evaluate(coalitions)])
        self._chosen = np.concatenate([self._chosen, chosen])

    def estimate(self) -> Estimate:
        """Return the player values and their deviations."""
        if self.complete.all():
            every = np.ones(len(self._cells.sizes), dtype=bool)
            exact = self._target.exact(self.masks, self.values, self._cells, every)
            return Estimate(self._whole(exact), exact=True, efficient=self._efficient)
        if not self._epoch_estimates():
            return Estimate(self._whole(self._predicted(self.epochs[-1].process)))  # too few draws: error unknown
        found, beta = self.combined()
        values = self._whole(found.values + (self._proxy.values * beta).sum(axis=1))
        deviations = self._proxy.add_errors(found.deviations, beta)
        if self._plug_in:  # how far it is off, only the corrected values tell, within their errors
            corrected, values = values, self._whole(self._predicted(self._fitted_to_all()))
            deviations = np.concatenate([deviations, (corrected - values)[None]])
        check_finite(values)
        predicted, weights = Predicted(Forecast.what, found.squares), self._target.weights
        drawn, stated = 2 + np.flatnonzero(~self._chosen[2:]), slice(self._n_stated)
        ends, utilities, parts = self._ends[:, stated], self.values[drawn, stated], deviations[..., stated]
        return Estimate(
            values,
            deviations.astype(np.float32),
            degrees_of_freedom=max(1.0, found.freedom),
            efficient=self._efficient,
            learned=learned(predicted, ends, self.sizes[drawn], utilities, weights, parts),
        )

    def _epoch_estimates(self) -> list[EpochEstimate]:
        """Return the estimates of the epochs so far; the current one has none while a stratum has no draw."""
        self._current = self._current or self._estimate_epoch()
        return self._closed if self._current is None else [*self._closed, self._current]

    def combined(self) -> tuple[Correction, Floats]:
        """Return the estimate from all epochs, without ends and proxy, and the coefficients of the proxy."""
        parts, shares = self._counted()
        found = combined([part.correction for part in parts], shares, self._n_stated)
        return found, sum((share * part.beta for share, part in zip(shares, parts, strict=True)), np.zeros(()))

    def _counted(self) -> tuple[list[EpochEstimate], Floats]:
        """Return the estimates that are combined, and their shares; one of weight 0 counts if there is no other."""
        parts = self._epoch_estimates()
        parts = [part for part in parts if part.weight] or parts
        weights = np.array([part.weight or 1.0 for part in parts])
        return parts, weights / weights.sum()

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value, if laws and processes are held fixed."""
        if self.complete.all():
            exact = in_groups(partition, self.masks, self._target.weights) / counts(self._n)[self.sizes][:, None]
            return np.asarray(exact[2:])
        if self._plug_in or not self._epoch_estimates():
            return None
        found = self.corrections_by(partition)
        if self._efficient:
            found = found - np.outer(found.sum(axis=1), partition.sizes / self._n)
        return found

    def corrections_by(self, partition: Partition) -> Floats:
        """Return (m, K): the part of each draw in what `combined` returns, from unit utilities, some at a time."""
        found, step = np.zeros((self.n_evaluations, partition.n_groups)), smallest_step(self.values[:, :1])
        for part, share in zip(*self._counted(), strict=True):
            unit = np.eye(len(part.sample.everything), len(part.rows))
            for some in range(2, len(part.rows), AT_ONCE):
                each = correct(self._target, part.sample, unit[:, some : some + AT_ONCE], part.folds, step)
                assert each is not None
                sums = partition.sums(each.values).T
                found[part.rows[some : some + len(sums)]] += share * sums
        return found[2:]

    def _whole(self, values: Floats) -> Floats:
        """Add what the ends contribute; Shapley values add up to the last digits."""
        weights, (empty, full) = self._target.weights, self._ends
        values = values + weights.full * (full - empty) + (weights.full - weights.empty) * empty
        if self._efficient:
            values += (full - empty - values.sum(axis=0)) / self._n
        return np.asarray(values)

    # --- epochs

    def _estimate_epoch(self) -> EpochEstimate | None:
        """Return the estimate from the draws of the current epoch; None while a stratum may have no draw."""
        epoch, (rows, sample, values) = self.epochs[-1], self._sample(self.n_evaluations)
        if len(self.epochs) > 1 and len(rows) - sample.first < most_strata(self._cells, epoch.end - epoch.first):
            return None  # whether it counts must not depend on its law, and so on utilities
        folds = self._folds(sample)
        if self._bases is not None and sample.base_of is not None:
            parts = [fold.draws for fold in folds]
            bases = self._bases.in_folds(sample.masks, values[:, : self._n_stated], sample.base_of, parts)
            folds = [replace(fold, bases=each) for fold, each in zip(folds, bases, strict=True)]
        found = correct(self._target, sample, values, folds, smallest_step(self.values), self._n_stated)
        if found is None:
            return None
        weight = epoch_weight(self._base, sample.first - 2, len(sample.masks) - 2)
        if len(self.epochs) == 1:  # with a proxy it does not count: it has no coefficients of others' draws
            weight *= 0.0 if epoch.beta.size else 1.0 if self._started else FIRST_COUNTS
        found = replace(found, values=found.values + self._of_line)
        return EpochEstimate(found, epoch.beta, rows, sample, folds, weight)

    def _sample(self, count: int) -> tuple[Ints, Sample, Floats]:
        """Return the first evaluations, the draws of the current epoch last, as a sample, and what the line leaves.

        A draw that waits for its complement is left out: it says where other pairs are not.
        """
        epoch, rows = self.epochs[-1], np.arange(count)
        drawn = (rows >= epoch.first) & ~self._chosen[:count]
        paired = rows[drawn & (epoch.law.stratum_of[self._cells.of(self.masks[:count])] == 0)]
        if epoch.law.pairs and len(paired) % 2:
            rows = np.delete(rows, paired[-1])
        rows = rows[np.argsort(drawn[rows], kind="stable")]
        sample = Sample(epoch.law, int((~drawn[rows]).sum()), self.masks[rows], self._beginning.related)
        if len(self.epochs) == 1:
            bases = self._bases
            base_of = None if bases is None else bases.base_of(sample.masks, sample.first, self._cells)
            sample = replace(sample, partners=self._partners, base_of=base_of)
        every = self._beyond(epoch.beta)
        return rows, sample, every[np.append(rows, np.arange(self.n_evaluations, len(every)))]

    def _folds(self, sample: Sample) -> list[Fold]:
        """Divide the draws of a sample into a few folds, each with a process that was fitted without it.

        After the first epoch the fits are repeated only when the evaluations have grown by a third or a half.
        """
        epoch, count = self.epochs[-1], self.n_evaluations
        count = count if len(self.epochs) == 1 else max(epoch.first, milestone(count))
        if self._fold_fits is None or self._fold_fits[0] != count:
            self._fold_fits = count, self._fitted_folds(count)
        processes = self._fold_fits[1]
        parts = sample.folds(len(processes))
        return [Fold(process, part) for process, part in zip(processes, parts, strict=True) if len(part)]

    def _fitted_folds(self, count: int) -> list[Process]:
        """Return the process of each fold, fitted to the first evaluations without it."""
        epoch, (_, sample, values) = self.epochs[-1], self._sample(count)
        every = sample.everything
        if count == epoch.first and len(self.epochs) > 1:
            return [epoch.process]
        n_folds = FOLDS_OF_FEW if self._are_few(every) else FOLDS
        return [
            self._fitted(epoch.process, np.delete(every, fold, axis=0), np.delete(values, fold, axis=0))
            for fold in sample.folds(n_folds)
        ]

    def _predicted(self, process: Process) -> Floats:
        """Return (n, q): what a process predicts."""
        beta = self.epochs[-1].beta
        found = predict(self._target, self._cells, self.masks, self._beyond(beta), process, self._beginning.related)
        return found + self._of_line + (self._proxy.values * beta).sum(axis=1)

    @property
    def _of_line(self) -> Floats:
        """What the line between the ends contributes, the same to all players."""
        return np.asarray(self._target.weights.drift @ self._line(np.arange(1, self._n)))

    def _next_epoch(self, rng: np.random.Generator) -> None:
        """Close the epoch, and fix law and process of the next one by all that is known."""
        self._closed, self._current, self._fold_fits = self._epoch_estimates(), None, None
        beta = coefficients(self.sizes[2:], self.values[2:], self.proxies[2:], self._base)
        if self._plug_in and not beta.size:  # with a proxy, what it leaves has changed with its coefficients
            process = self._fitted_to_all()
        else:
            process = self._fitted(self.epochs[-1].process, self._taught(), self._beyond(beta))
        wanted = self._wanted(process, rng)
        first, last = self.n_evaluations, self.epochs[-1].end
        end = next((end for end in EPOCHS if end > last), GROWTH * last)
        self._sampler.new_epoch()
        n_chosen = max(0, min(end, CHOSEN[1]) - first) // 2 if self._choosing else 0
        known, length = self._cells.known(self.masks), end - first - n_chosen
        law = divided(self._cells, wanted, known, length, complete_first=True)
        self.epochs.append(OpeningEpoch(first, end, law, process, beta))
        self._latest = self._before = None

    def _wanted(self, process: Process, rng: np.random.Generator) -> Floats:
        """Return (c,): the part of the next draws that each cell is to have."""
        cells = self._cells
        base = np.concatenate([[0.0], self._base, [0.0]])[cells.sizes]
        base *= cells.unseen(cells.known(self.masks)) / cells.of_size
        best = base * uncertainty(process, self._taught(), cells, rng)
        parts = EXPLORE * base / max(base.sum(), 1e-300) + (1 - EXPLORE) * best / max(best.sum(), 1e-300)
        return np.asarray(parts)  # nothing, if every coalition is known

    def _fitted(self, start: Process, masks: Masks, values: Floats, steps: int | None = None) -> Process:
        """Return the process of this epoch or the one before, fitted to these utilities of the stated outputs."""
        steps = steps or (STEPS if len(self.epochs) == 1 else STEPS_AGAIN)
        if self._n > MANY_PLAYERS and self._are_few(masks):
            steps = STEPS_CAUTIOUS
        return start.fitted(masks, values[:, : self._n_stated], steps, MOST_FITTED)

    def _are_few(self, masks: Masks) -> bool:
        """Say whether coalitions are few, for so many players."""
        return len(masks) <= FEW_COALITIONS[self._n > MANY_PLAYERS]

    def _fitted_to_all(self) -> Process:
        """Return the process fitted to everything so far."""
        if self._latest is None:
            epoch, again = self.epochs[-1], self._choosing and len(self.epochs) > 1
            start, steps = self._before or epoch.process, STEPS_CHOOSING if again else STEPS_AGAIN
            self._latest = self._fitted(start, self._taught(), self._beyond(epoch.beta), steps)
        return self._latest

    def _beyond(self, beta: Floats) -> Floats:
        """Return (m + k, q): what the proxy leaves, less the straight line between the ends, and of related ones."""
        found = beyond(self.values, self.proxies, beta) - self._line(self.sizes)
        related = self._beginning.related_values - self._line(self._beginning.related.sum(axis=1))
        return np.concatenate([found, related])

    def _line(self, sizes: Ints) -> Floats:
        return line(self._ends, sizes, self._n)

    def forecast(self) -> Forecast | None:
        """Return what all evaluations predict, for the epochs after the opening; None if there is a proxy."""
        beta = self.epochs[-1].beta
        if beta.size:  # later epochs change the coefficients of a proxy, and so what it leaves
            return None
        return Forecast.of(self._fitted_to_all(), self._taught(), self._beyond(beta), self._ends, self._n)

    def uncertainty(self, rng: np.random.Generator) -> Floats:
        """Return (n - 1,): the root mean squared error to expect of predictions at each size, in some unit."""
        expected = uncertainty(self._fitted_to_all(), self._taught(), self._cells, rng) ** 2
        expected *= self._cells.counts / self._cells.of_size
        return np.asarray(np.sqrt(expected.reshape(-1, self._n + 1).sum(axis=0))[1 : self._n])
