"""The methods of `fgsv.value`, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fgsv.estimators.baselines.complementary import Complementary
from fgsv.estimators.baselines.group_testing import GroupTesting
from fgsv.estimators.baselines.kernelshap import KernelSHAP
from fgsv.estimators.baselines.leverageshap import LeverageSHAP
from fgsv.estimators.baselines.one_for_all import OneForAll
from fgsv.estimators.baselines.permutation import Permutation
from fgsv.estimators.baselines.unbiased_kernelshap import UnbiasedKernelSHAP
from fgsv.estimators.covariance.covariance import Covariance
from fgsv.estimators.covariance.proxy import Proxy
from fgsv.estimators.finite_difference import FiniteDifference, theorem3
from fgsv.estimators.method import Draws, Estimator, Method, Problem

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
