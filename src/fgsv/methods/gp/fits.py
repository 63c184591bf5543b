"""What is fitted to evaluations, and when: the parameters of the process, and the coefficients of a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fgsv.methods.gp.fitting import BLOCK, fitted, prior_kernel
from fgsv.methods.gp.kernel import Kernel
from fgsv.methods.gp.proxy import regressed
from fgsv.methods.gp.smoother import evenly, precision
from fgsv.methods.gp.values import Evaluations
from fgsv.methods.target import Target
from fgsv.types import Floats, Ints

COUNTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16_384)
"""Evaluations at which parameters are fitted; an estimate uses the last ones."""
FRESH = 64
"""Up to so many evaluations a fit begins at the prior, later at the parameters before."""
NO_FOLD = -1


@dataclass(frozen=True, eq=False)
class Fit:
    """A kernel and the (p, q) coefficients of a proxy."""

    kernel: Kernel
    beta: Floats

    def rest(self, data: Evaluations) -> Floats:
        """Return (m, q): what the proxy does not explain of the values."""
        return data.values - data.features @ self.beta


class Fits:
    """The fits of a run: each depends on its first evaluations alone, in draw order, so it is made once."""

    def __init__(self, target: Target, coordinates: int, n_known: int, moved: Sequence[float] | None = None) -> None:
        """Prepare the fits of a run; all have the parameters `moved` (see `prior_kernel`) where these are given."""
        self._target, self._coordinates, self._n_known = target, coordinates, n_known
        self._is_fixed = moved is not None
        self._moved = 0.0 if moved is None else moved
        self._made: dict[tuple[int, int], Fit] = {}
        """By the count of evaluations and the fold left out."""

    def of(self, data: Evaluations, n_evaluations: int, fold: int = NO_FOLD, folds: Ints | None = None) -> Fit:
        """Return the fit to the first so many evaluations, known ones besides; those of a fold are left out."""
        counts = _until(n_evaluations)
        at = counts[-1]
        if (at, fold) not in self._made:
            kernel = prior_kernel(self._target, self._coordinates, self._moved)
            if at > FRESH and not self._is_fixed:
                kernel = self.of(data, counts[-2], fold, folds).kernel
            rows = np.arange(self._n_known + at if at or self._n_known else 0)
            if folds is not None:
                rows = rows[folds[rows] != fold]
            self._made[at, fold] = _fit(kernel, data, rows, is_fixed=self._is_fixed)
        return self._made[at, fold]

    def replaced(self, n_evaluations: int, fit: Fit) -> Fit:
        """Return a fit that from now on stands for the one to so many evaluations."""
        self._made[_until(n_evaluations)[-1], NO_FOLD] = fit
        return fit


def _until(n_evaluations: int) -> list[int]:
    return [0, *(each for each in COUNTS if each <= n_evaluations)]


def _fit(kernel: Kernel, data: Evaluations, rows: Ints, *, is_fixed: bool) -> Fit:
    """Return the fit to these rows, from the parameters of a kernel on; of the proxy alone, if these are fixed."""
    masks, values, features = data.masks[rows], data.values[rows], data.features[rows]
    beta = np.zeros((features.shape[1], values.shape[1]))
    if not len(rows):
        return Fit(kernel, beta)
    if features.shape[1]:
        some = evenly(len(rows), BLOCK)
        of_game = values[some, data.stated]
        beta[:, data.stated] = regressed(features[some], of_game, precision(kernel, masks[some]))
    if is_fixed:
        return Fit(kernel, beta)
    return Fit(fitted(kernel, masks, (values - features @ beta)[:, data.stated]), beta)
