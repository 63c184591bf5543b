"""The methods of `fgsv.value`, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fgsv.estimators.complementary import Complementary
from fgsv.estimators.covariance import Covariance
from fgsv.estimators.finite_difference import FiniteDifference, theorem3
from fgsv.estimators.group_testing import GroupTesting
from fgsv.estimators.kernelshap import KernelSHAP
from fgsv.estimators.leverageshap import LeverageSHAP
from fgsv.estimators.method import Draws, Estimator, Method, Problem
from fgsv.estimators.one_for_all import OneForAll
from fgsv.estimators.permutation import Permutation
from fgsv.estimators.proxy import Proxy
from fgsv.estimators.unbiased_kernelshap import UnbiasedKernelSHAP

METHODS: dict[str, type[Method]] = {
    "covariance": Covariance,
    "finite_difference": FiniteDifference,
    "permutation": Permutation,
    "group_testing": GroupTesting,
    "complementary": Complementary,
    "one_for_all": OneForAll,
    "kernelshap": KernelSHAP,
    "unbiased_kernelshap": UnbiasedKernelSHAP,
    "leverageshap": LeverageSHAP,
}

__all__ = ["METHODS", "Covariance", "Draws", "Estimator", "Method", "Problem", "Proxy", "as_method", "theorem3"]


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
