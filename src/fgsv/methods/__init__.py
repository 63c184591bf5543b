"""The methods of `fgsv.value`, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from fgsv.methods.baselines.group_testing import GroupTesting
from fgsv.methods.baselines.kernelshap import KernelSHAP, LeverageSHAP, UnbiasedKernelSHAP
from fgsv.methods.baselines.permutation import Permutation
from fgsv.methods.baselines.stratified import Complementary, OneForAll
from fgsv.methods.covariance import Covariance
from fgsv.methods.enumeration import Enumeration, SampleThenEnumerate
from fgsv.methods.finite_difference import FiniteDifference, theorem3
from fgsv.methods.method import Draws, Estimator, Evaluate, Method, Problem
from fgsv.partition import Partition

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

__all__ = [
    "METHODS",
    "Covariance",
    "Draws",
    "Enumeration",
    "Estimator",
    "Evaluate",
    "Method",
    "Problem",
    "as_method",
    "for_budget",
    "theorem3",
]

MOST_ENUMERATED = 40
"""From this many players on, 2^n evaluations are out of the question."""


def as_method(method: str | Method, options: dict[str, Any], arguments: Iterable[str] = ()) -> Method:
    """Return the method of this name with its options, or a method object unchanged.

    An option that is unknown may be meant for one of the other `arguments`.
    """
    if not isinstance(method, str):
        if set(options) == {"proxy"} and isinstance(method, Covariance):
            return replace(method, **options)
        if options:
            raise TypeError(
                f"options {sorted(options)} only apply to a method given by name: set them on the method object"
            )
        if not (hasattr(method, "name") and hasattr(method, "start")):
            names = ", ".join(METHODS)
            raise TypeError(f"method must be one of {names}, or your own with name, least and start; got {method!r}")
        return method
    if method == Enumeration.name and not options:
        return Enumeration()
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: expected one of {', '.join(METHODS)}")
    kind = METHODS[method]
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(known))
    if unknown:
        near = get_close_matches(unknown[0], [*known, *arguments], n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known) or 'none'}"
        raise TypeError(f"method {method!r} has no option {', '.join(unknown)}; {hint}")
    return kind(**options)


def for_budget(method: Method, n_players: int, partition: Partition, budget: int, *, may_stop_early: bool) -> Method:
    """Return the method that uses the budget best: an enumeration may replace the default one.

    If 2^n evaluations are within the budget, the default method evaluates every coalition; if a rule may end the
    run earlier, it first samples, at most half as many.
    """
    if not isinstance(method, Covariance) or n_players >= MOST_ENUMERATED or 2**n_players > budget:
        return method
    half = 2 ** (n_players - 1)
    most_sampled = min(half, budget - 2**n_players) if method.whole_rounds else half
    if may_stop_early and most_sampled >= method.least(n_players, partition):
        return SampleThenEnumerate(method, most_sampled)
    return Enumeration()
