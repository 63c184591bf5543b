"""The settings of a run: everything its result depends on besides the game and the groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

import fgsv
from fgsv.checks import as_number, positive_number, whole_number
from fgsv.valuation.intervals import check_confidence

TARGETS = ("stderr", "precision")
"""Settings that end a run by its errors, which depend on the groups; `fgsv.running.stopping` has the rules."""
LIMITS = ("max_seconds", *TARGETS)
"""Settings that may end a run before its budget."""
TIME_OF_AUDIT = 0.5
"""Fraction of the time limit reserved for the audit."""
_TEXTS = ("method", "semivalue", "fingerprint", "groups", "version", "start")


@dataclass(frozen=True)
class Limits:
    """When a run ends, whichever comes first."""

    budget: int | None = None
    precision: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            whole_number("budget", self.budget)
        if self.max_seconds is not None:
            positive_number("max_seconds", self.max_seconds)
        if self.precision is not None:
            check_precision(self.precision)

    @classmethod
    def of(cls, settings: RunSettings) -> Limits:
        """Return the limits in the settings of a run."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    @property
    def early(self) -> dict[str, Any]:
        """Those that may end a run before its budget, by name."""
        return {name: limit for name, limit in vars(self).items() if name != "budget" and limit is not None}

    def beside_audit(self) -> Limits:
        """Return the limits of a run that shares its time with an audit."""
        return self if self.max_seconds is None else replace(self, max_seconds=(1 - TIME_OF_AUDIT) * self.max_seconds)


@dataclass(frozen=True)
class RunSettings:
    """Everything needed to repeat a run.

    >>> from fgsv.files import decode, encode
    >>> settings = RunSettings(method="permutation", semivalue="shapley", seed=0, budget=100, batch_size=256)
    >>> decode(RunSettings, encode(settings)) == settings
    True
    """

    method: str
    semivalue: str
    seed: int
    budget: int
    batch_size: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method."""
    max_seconds: float | None = None
    stderr: float | None = None
    precision: float | None = None
    confidence: float = 0.95
    cost: tuple[float, ...] | None = None
    """The relative cost of an evaluation at each size from 1 to n - 1."""
    on_error: str | float = "raise"
    timeout: float | None = None
    fingerprint: str | None = None
    """Fingerprint of the game."""
    groups: str | None = None
    """Fingerprint of the groups whose errors the stopping rules looked at."""
    version: str = fgsv.__version__
    """Version of fgsv that made the run."""
    start: str | None = None
    """Hash of the known evaluations that the run started from (`Known.sha256`)."""
    weights: tuple[float, ...] | None = None
    """Weights of the outputs whose sum `precision` and `stderr` are about; None for every output."""
    n_folds: int = 0
    """Outputs of the game, the last ones, that measure the error of the test rows."""
    needs: tuple[str, ...] = ()
    """Arguments of `fgsv.value` that are the user's own objects, and must be passed again to repeat the run."""

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str | None):
                raise ValueError(f"{name} must be text, got {getattr(self, name)!r}")
        for name in ("seed", "budget", "batch_size"):
            self._set(name, whole_number(name, getattr(self, name)))
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        for name in (*LIMITS, "timeout"):
            if getattr(self, name) is not None:
                self._set(name, positive_number(name, getattr(self, name)))
        Limits.of(self)  # checks them
        check_confidence(self.confidence)
        self._set("confidence", float(self.confidence))
        counted_as = failure_value(self.on_error)
        self._set("on_error", "raise" if counted_as is None else counted_as)
        self._set("options", {name: _plain(option) for name, option in self.options.items()})
        self._set("cost", None if self.cost is None else tuple(map(float, self.cost)))
        self._set("weights", None if self.weights is None else tuple(map(float, self.weights)))
        self._set("needs", tuple(self.needs))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # plain Python numbers, so that JSON can hold them


def check_precision(precision: float) -> None:
    """Raise an error for a precision that every share has from the start, such as 5 where 0.05 is meant."""
    if not positive_number("precision", precision) < 1:
        points = "percentage point is" if precision == 1 else "percentage points are"
        meant = f": {precision:g} {points} {precision / 100:g}" if precision < 100 else ""
        raise ValueError(f"precision is a fraction of all shares, below 1, got {precision:g}{meant}")


def failure_value(on_error: str | float) -> float | None:
    """Return the number that a failed evaluation counts as, or None if it raises an error."""
    if on_error == "raise":
        return None
    if not np.isfinite(counted_as := as_number(on_error)):
        raise ValueError(f'on_error must be "raise" or a finite number that a failure counts as, got {on_error!r}')
    return counted_as


def _plain(option: Any) -> Any:
    """Return an option as JSON can hold it, otherwise its repr."""
    if isinstance(option, np.generic | np.ndarray):
        return option.tolist()
    if isinstance(option, list | tuple):
        return [_plain(each) for each in option]
    if isinstance(option, dict):
        return {str(name): _plain(each) for name, each in option.items()}
    return option if option is None or isinstance(option, bool | int | float | str) else repr(option)
