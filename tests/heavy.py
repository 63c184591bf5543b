"""Modules that take seconds to import: a test imports them when it uses them, not wherever tests are collected."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import pytest


def needs(*packages):
    """Return a mark for tests that are skipped where one of these packages is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@dataclass(frozen=True)  # so that nobody patches this in place of the module
class Lazy:
    """A module that is imported when it is first asked for a name."""

    _name: str

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest and doctest ask every object for such names
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
