"""Files, targets, options and dotted names that the documentation mentions exist."""

import ast
import re
from pathlib import Path

import pytest
import typer
from test_public_names import resolve

from experiments.__main__ import EXPERIMENTS
from fgsv.cli import app

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FILE = re.compile(r"\b(?:tests|src|benchmarks|experiments|docs)/[\w/.-]+\.(?:py|pyi|md|png|svg)\b")
TARGET = re.compile(r"`make ([\w-]+)`")
NAME = re.compile(r"\bfgsv(?:\.[A-Za-z_]\w*)+")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
OF_OTHERS = {"--help", "--resources"}
"""The option that every program has, and that of `dask worker`."""


@pytest.fixture(scope="module")
def targets():
    makefiles = [(ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "benchmarks.mk")]
    return set(re.findall(r"^([\w-]+):", "\n".join(makefiles), re.MULTILINE))


@pytest.fixture(scope="module")
def options():
    def of(command):
        below = [name for sub in getattr(command, "commands", {}).values() for name in of(sub)]
        return [name for parameter in command.params for name in parameter.opts] + below

    return set(of(typer.main.get_command(app))) | OF_OTHERS | of_experiments() | of_benchmarks()


def of_experiments():
    """Return the options of the experiments: the arguments of `run`, read without importing torch."""
    trees = [ast.parse((ROOT / "experiments" / f"{name}.py").read_text(encoding="utf-8")) for name in EXPERIMENTS]
    runs = [node for tree in trees for node in tree.body if getattr(node, "name", None) == "run"]
    assert len(runs) == len(EXPERIMENTS)
    return {f"--{arg.arg.replace('_', '-')}" for run in runs for arg in [*run.args.args, *run.args.kwonlyargs]}


def of_benchmarks():
    """Return the options that the parsers of benchmarks and tools add."""
    sources = [path for room in ("benchmarks", "tools") for path in (ROOT / room).glob("*.py")]
    return {
        name for path in sources for name in re.findall(r'add_argument\(\s*"(--[\w-]+)"', path.read_text("utf-8"))
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_mentions_exists(page, targets, options):
    text = page.read_text(encoding="utf-8")
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []
    assert [name for name in TARGET.findall(text) if name not in targets] == []
    assert [name for name in NAME.findall(text) if resolve(name) is None] == []
    assert [name for name in OPTION.findall(text) if name not in options] == []
