"""Steady: no step of an estimator depends on interrupts, threads, or the scale of the utility."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from fgsv.methods.method import Draws, Method, Problem
from fgsv.partition import Partition
from fgsv.signals import held_interrupts, one_thread
from fgsv.types import Floats, Masks
from fgsv.valuation import Estimate
from fgsv.valuation.estimate import unit_of


class Steady:
    """The estimator of a method, one whole step after the other.

    An interrupt waits for the end of a step: in the middle of an update, an estimator has no estimate. Libraries use
    one thread, so that bits are the same everywhere. Utilities of extreme scale are divided by a power of two, one
    for each output. It follows from U(0) and U(N); if both are zero, from what is known, or from the first round with
    another value: zeros are the same in every unit.
    """

    def __init__(self, method: Method, problem: Problem) -> None:
        self._problem = problem
        known = problem.known
        if known is not None:
            self._learn_unit(known.values)
            known = known.with_values(lambda values: values / self._unit)
        with one_thread():
            own = replace(problem, find_ends=lambda: problem.ends / self._unit, known=known)
            self._estimator = method.start(own)

    @cached_property
    def _unit(self) -> Floats:
        return unit_of(self._problem.ends)

    @cached_property
    def _unknown(self) -> Masks:
        """(q,): outputs whose unit no value has told yet."""
        return np.asarray(~self._problem.ends.any(axis=0))

    @property
    def needs(self) -> float:
        """Of how many first evaluations, the ends among them, the next draws know the values; by default of all."""
        return getattr(self._estimator, "needs", np.inf)

    @property
    def n_known(self) -> int:
        """Known evaluations that the method uses."""
        return getattr(self._estimator, "n_known", 0)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the method's draws."""
        with held_interrupts(), one_thread():
            return self._estimator.draw(rng)

    def update(self, draws: Draws, values: Floats) -> None:
        """Give the method the values of a round in its units."""
        with held_interrupts(), one_thread():
            self._learn_unit(values)
            self._estimator.update(draws, values / self._unit)

    def _learn_unit(self, values: Floats) -> None:
        if self._unknown.any() and len(values):
            self._unit = np.where(self._unknown, unit_of(values), self._unit)
            self._unknown &= ~values.any(axis=0)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value; None if the method does not say."""
        found = getattr(self._estimator, "influence", None)
        return None if found is None else found(partition)

    def estimate(self) -> Estimate:
        """Return the method's estimate in units of the utility."""
        with held_interrupts(), one_thread():
            found = self._estimator.estimate()
        if (self._unit == 1).all():
            return found
        values = found.values * self._unit
        if not np.isfinite(values).all():
            raise FloatingPointError("the estimate is not finite: utilities differ by more than a number can hold")
        return replace(
            found,
            values=values,
            # float32 has no numbers that small or large
            deviations=None if found.deviations is None else found.deviations.astype(float) * self._unit,
            stderr=None if found.stderr is None else found.stderr * self._unit,
        )
