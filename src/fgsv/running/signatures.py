"""A signature that two functions share, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def same_arguments(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function that takes *args and **kwargs the signature of the function it passes them to.

    Type checkers read it from the return type, `help` and notebooks from `__signature__`.
    """

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        signature = inspect.signature(source)
        returned = inspect.signature(function).return_annotation
        same.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return same

    return decorate
