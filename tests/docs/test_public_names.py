"""Three lists of public names agree: `fgsv.__all__`, the page docs/api.md, and what the commands call.

Functions and classes are compared by where they are defined: `fgsv.value` and `fgsv.running.run.value` are one name.
What the commands call is every function and class of fgsv that a file of src/fgsv/cli imports, or reaches as an
attribute of a module. Three kinds of helper do not count, as they are about terminals and files and not about
valuing: the command line itself; `fgsv.files`, `fgsv.packages` and `fgsv.words`; and the functions that turn a result
into JSON and tables (`fgsv.results.as_json`, and those of `fgsv.results.result`).
"""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import fgsv

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
COMMANDS = sorted((ROOT / "src" / "fgsv" / "cli").glob("*.py"))
DOCUMENTED = re.compile(r"^<!-- ::: (\S+) -->$", re.MULTILINE)
HELPERS = ("fgsv.cli", "fgsv.files", "fgsv.packages", "fgsv.words", "fgsv.results.as_json", "fgsv.results.result")
HELPERS += ("fgsv.running.bar", "fgsv.report.sections")
ROOMS = [name for name in fgsv.__all__ if isinstance(getattr(fgsv, name), ModuleType)]


def resolve(path):
    """Return the object that a dotted path names, from the longest part of it that is a module; None if none is."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


def canonical(path):
    """Return where a function or class is defined, the path itself for a constant, and None for a module."""
    found = resolve(path)
    if found is None or isinstance(found, ModuleType):
        return None
    defined = inspect.isclass(found) or inspect.isfunction(found)
    return f"{found.__module__}.{found.__qualname__}" if defined else path


def top():
    return {f"fgsv.{name}" for name in fgsv.__all__ if name not in ROOMS}


def of_room(room):
    """Return the public names of a room: its `__all__`, or the functions and classes that it defines."""
    module = getattr(fgsv, room)
    own = [name for name in dir(module) if not name.startswith("_") and _is_defined_in(getattr(module, name), module)]
    return {f"fgsv.{room}.{name}" for name in getattr(module, "__all__", own)}


def _is_defined_in(found, module):
    return (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__ == module.__name__


def documented():
    return set(DOCUMENTED.findall((ROOT / "docs" / "api.md").read_text(encoding="utf-8")))


def paths_in(tree):
    """Return the dotted paths within fgsv that a module imports, or reaches from what it imports."""
    names = defaultdict(set)  # two functions of a file may import two modules by one name
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and "fgsv" in [alias.name for alias in node.names]:
            names["fgsv"].add("fgsv")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fgsv":
            for alias in node.names:
                names[alias.asname or alias.name].add(f"{node.module}.{alias.name}")
    reached = [ast.unparse(node).split(".") for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    chains = {".".join([path, *rest]) for root, *rest in reached for path in names.get(root, ())}
    return chains.union(*names.values())


def called():
    """Return the functions and classes that the commands call, helpers left out."""
    paths = {path for file in COMMANDS for path in paths_in(ast.parse(file.read_text(encoding="utf-8")))}
    found = {canonical(path) for path in paths if inspect.isroutine(resolve(path)) or inspect.isclass(resolve(path))}
    methods = {name for name in found if inspect.isclass(resolve(name.rpartition(".")[0]))}
    helpers = {name for name in found if name.rpartition(".")[0].startswith(HELPERS) and not name.endswith(".Result")}
    return found - methods - helpers


def canonicals(paths):
    return {canonical(path) for path in paths}


def test_every_documented_name_exists():
    assert [path for path in documented() if canonical(path) is None] == []


def test_every_name_at_the_top_is_documented():
    assert canonicals(top()) - canonicals(documented()) == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_public_room_is_documented(room):
    assert canonicals(of_room(room)) - canonicals(documented()) == set()


def test_every_function_that_a_command_calls_is_documented():
    assert {"fgsv.pipeline.pipeline.value_data", "fgsv.ledger.tools.merge"} <= called()
    assert called() - canonicals(documented()) == set()


def test_nothing_else_is_documented():
    public = top().union(*map(of_room, ROOMS))
    assert canonicals(documented()) - canonicals(public) - called() == set()
