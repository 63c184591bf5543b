"""The house: rooms that one would guess, imports that go one way, one way to a game."""

import ast
import re
import subprocess
import sys
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from tracing import RUNS, counts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fgsv"
LAYERS = [
    ["types", "packages", "files", "words", "checks", "signals"],
    ["coalitions", "partition", "semivalue"],
    ["game"],
    ["valuation"],
    ["methods", "games", "utilities", "ledger"],
    ["evaluation"],
    ["running"],
    ["payout", "planning", "diagnosis", "plots", "data", "federated", "testing"],
    ["audit"],
    ["results"],
    ["report", "verification"],
    ["pipeline"],
    ["answers"],
    ["mlflow"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))
CORE = {room for rooms in LAYERS[:4] for room in rooms}
COUNTED = re.compile(r"^\| `([^`]+)` \| (\d+) \| (\d+) \|$", re.MULTILINE)
"""A row of the table of what runs pass through: files, functions."""


def name_of(path):
    """Return the room that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_room_has_its_place():
    rooms = {name_of(path) for path in MODULES} - {"__init__"}
    assert rooms == set(LEVEL)


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(nodes):
    """Modules that these nodes import: in a module's body, what loads with it, not what functions or types need."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "fgsv":
                yield from (f"fgsv.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", [path for path in MODULES if path != SOURCE / "__init__.py"], ids=str)
def test_a_module_imports_nothing_above_it(path):
    own = name_of(path)
    for module in imported(parsed(path).body):
        other = module.split(".")[1] if module.startswith("fgsv.") else None
        if other in LEVEL:
            assert LEVEL[other] <= LEVEL[own], f"{own} imports {module}, which stands above it"


def test_only_these_functions_import_a_room_above_their_own():
    """When they are called: what a user asks of an object, and copies in data."""
    found = set()
    for path in MODULES:
        functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
        modules = {module for each in functions for module in imported(ast.walk(each))}
        rooms = {module.split(".")[1] for module in modules if module.startswith("fgsv.")}
        above = {room for room in rooms if LEVEL.get(room, 0) > LEVEL.get(name_of(path), 0)}
        found |= {(path.relative_to(SOURCE).as_posix(), room) for room in above}
    assert found == {
        ("data/table.py", "audit"),
        ("data/texts.py", "audit"),
        ("results/result.py", "report"),
        ("valuation/valuation.py", "plots"),
    }


@cache
def calls(path):
    """Return what a module calls, `name` or `.attribute`; what an object calls of its own does not count."""
    found = set()
    for func in (node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)):
        if isinstance(func, ast.Name):
            found.add(func.id)
        elif isinstance(func, ast.Attribute) and getattr(func.value, "id", None) != "self":
            found.add(f".{func.attr}")
    return found


def callers(*names):
    return {path.relative_to(SOURCE).as_posix() for path in MODULES if set(names) & calls(path)}


def test_one_module_calls_games():
    assert callers("ask", ".ask") == {"evaluation/batch.py"}
    # a game that is made of others asks them: groups in game.py, the mean of several networks in torch.py
    assert callers(".function", ".evaluate_lists") == {"game.py", "utilities/torch.py"}


def test_nothing_parses_what_fgsv_wrote():
    importers = {path.relative_to(SOURCE).as_posix() for path in MODULES if "re" in set(imported(parsed(path).body))}
    # these read Args, what users type, cells of tables, words of texts, and characters of a terminal
    assert importers == {
        "cli/options.py",
        "cli/parsers.py",
        "data/reading.py",
        "utilities/language/read_texts.py",
        "utilities/language/sentences.py",
        "words.py",
    }


OTHER_PROGRAMS = {
    ("utilities/language/network.py", "--local-dir"),  # of hf download
}


def options_in_messages(path):
    """Yield the options that texts name in so many words: docstrings are for those who read the code."""
    tree = parsed(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            for found in re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value):
                yield path.relative_to(SOURCE).as_posix(), found


def test_messages_name_options_by_the_function_that_knows_who_reads_them():
    """`fgsv.words.option` gives `target_missing="drop"` in Python and `--target-missing drop` in a command."""
    others = [path for path in MODULES if name_of(path) not in ("cli", "words")]
    assert {found for path in others for found in options_in_messages(path)} == OTHER_PROGRAMS


def test_importing_fgsv_loads_nothing_heavy():
    code = "import fgsv, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"numpy", "scipy", "pandas", "sklearn", "typer", "torch", "diffusers", "transformers", "peft", "ray"}
    heavy |= {"dask", "matplotlib", "jinja2", "pyarrow"}
    assert not heavy & {name.split(".")[0] for name in loaded.split()}


@pytest.fixture(scope="module")
def found():
    """Return files, functions and steps of each run that the page speaks of."""
    return {name: counts(name) for name in RUNS}


def test_the_page_says_what_a_run_passes_through(found):
    page = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
    stated = {name: (int(files), int(functions)) for name, files, functions in COUNTED.findall(page)}
    passed = {name: (files, functions) for name, (files, functions, _) in found.items()}
    assert stated.keys() == passed.keys()
    for name, counted in passed.items():
        assert counted == pytest.approx(stated[name], rel=0.05), f"{name}: {counted[0]} files, {counted[1]} functions"


def test_a_result_is_made_in_one_direction(found):
    """What can be refused comes before the run, which is one call; then each room adds to the result once."""
    *_, steps = found["fgsv value --payout --audit --ledger"]
    names = [name for _, name in steps]
    assert names.count("value_with_plan") == 1
    run = names.index("value_with_plan")
    before = [room for room, _ in steps[:run] if room not in {"ledger", "planning", "running"} | CORE]
    assert [room for room, _ in groupby(before)] == ["data", "payout", "audit", "evaluation"]
    after = [room for room, _ in steps[run + 1 :] if room not in {"evaluation", "planning", "pipeline"} | CORE]
    # the ledger keeps what the result says by other groupings: asked last, as an audit adds to it
    assert [room for room, _ in groupby(after)] == ["data", "results", "audit", "results"]


def test_the_checks_before_a_run_come_before_the_evaluator_opens(found):
    *_, steps = found["fgsv value --payout --audit --ledger"]
    names = [name for _, name in steps]
    opened = names.index("Evaluator.__enter__")
    for check in ("check_dataset", "Terms.check", "AuditPlan.of"):
        assert names.index(check) < opened
