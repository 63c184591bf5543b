"""The methods of `fgsv.value`, by name; each draws coalitions and estimates values from what they are worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any

from fgsv.methods.enumeration import Enumeration
from fgsv.methods.finite_difference import FiniteDifference, theorem3
from fgsv.methods.gp import GP
from fgsv.methods.group_testing import GroupTesting
from fgsv.methods.kernelshap import KernelSHAP, LeverageSHAP, UnbiasedKernelSHAP
from fgsv.methods.method import Draws, Estimator, Evaluate, Method, Problem, Task
from fgsv.methods.permutation import Permutation
from fgsv.methods.stratified import Complementary, OneForAll

METHODS: dict[str, type[Method]] = {
    "gp": GP,
    "finite_difference": FiniteDifference,
    "permutation": Permutation,
    "group_testing": GroupTesting,
    "complementary": Complementary,
    "one_for_all": OneForAll,
    "kernelshap": KernelSHAP,
    "unbiased_kernelshap": UnbiasedKernelSHAP,
    "leverageshap": LeverageSHAP,
}

DEFAULT = "gp"
"""The method of a run that names none."""

__all__ = [
    "DEFAULT",
    "GP",
    "METHODS",
    "Draws",
    "Enumeration",
    "Estimator",
    "Evaluate",
    "Method",
    "Problem",
    "Task",
    "as_method",
    "for_task",
    "theorem3",
]


def as_method(method: str | Method, options: dict[str, Any], arguments: Iterable[str] = ()) -> Method:
    """Return the method of this name with its options, or a method object unchanged.

    An option that is unknown may be meant for one of the other `arguments`.

    Args:
        method: A name of `METHODS`, "exact", or a method object.
        options: Options by name; with a method object only a proxy, if it takes one.
        arguments: Names of arguments beside which the options were given, for the hint about a misspelling.

    Returns:
        The method.

    Raises:
        ValueError: There is no method of this name, or it takes no proxy.
        TypeError: An option is unknown, or the object is no method.

    """
    if not isinstance(method, str):
        if set(options) == {"proxy"} and is_dataclass(method) and hasattr(method, "proxy"):
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
    if unknown == ["proxy"]:
        raise ValueError(f"method {method!r} takes no proxy: that is for the default method")
    if unknown:
        near = get_close_matches(unknown[0], [*known, *arguments], n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known) or 'none'}"
        raise TypeError(f"method {method!r} has no option {', '.join(unknown)}; {hint}")
    return kind(**options)


def for_task(method: Method, task: Task) -> Method:
    """Return the method that serves a task: itself, unless it knows better."""
    chosen = getattr(method, "for_task", None)
    return method if chosen is None else chosen(task)
