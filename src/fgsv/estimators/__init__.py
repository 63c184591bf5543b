"""The methods of `fgsv.value`, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fgsv.estimators.covariance import Covariance
from fgsv.estimators.finite_difference import FiniteDifference, theorem3
from fgsv.estimators.method import Draws, Estimator, Method, Problem

METHODS: dict[str, type[Method]] = {
    "covariance": Covariance,
    "finite_difference": FiniteDifference,
}

__all__ = ["METHODS", "Covariance", "Draws", "Estimator", "Method", "Problem", "as_method", "theorem3"]


def as_method(method: str | Method, options: dict[str, Any]) -> Method:
    """Return the method of this name with its options, or a method object as it is."""
    if not isinstance(method, str):
        if options:
            raise TypeError(f"options {sorted(options)} go with a method's name; set them on the method object")
        return method
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: expected one of {', '.join(METHODS)}")
    kind = METHODS[method]
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(
            f"method {method!r} has no option {', '.join(unknown)}; it takes {', '.join(known) or 'none'}"
        )
    return kind(**options)
