"""A signature that several functions share, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def same_arguments(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the signature of another one; it gets each argument by name, those that were left out too.

    Type checkers read it from the return type, `help` and notebooks from `__signature__`.
    """
    signature = inspect.signature(source)

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return function(**bound.arguments)

        returned = inspect.signature(function).return_annotation
        same.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return same

    return decorate
