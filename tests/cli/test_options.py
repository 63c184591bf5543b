"""Options are parameters of public functions: their names, types, defaults and words are those that Python sees."""

import importlib
import inspect
from dataclasses import fields
from enum import Enum, IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
import typer

from fgsv.cli import ledger, options, results, seals, values
from fgsv.cli.options import Function, command, was_given
from fgsv.valuation import Limits

FUNCTIONS = [
    each for room in (values, results, seals, ledger) for each in vars(room).values() if isinstance(each, Function)
]


def in_python(function):
    module, _, name = function.place.replace("/", ".").partition(".py:")
    return getattr(importlib.import_module(f"fgsv.{module}"), name)


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_an_option_has_the_default_that_python_has(function):
    parameters = inspect.signature(in_python(function)).parameters
    assert function.options
    for key, option in function.options.items():
        expected = None if option.name in function.optional.split() else parameters[option.name].default
        assert option.default == expected, key


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_args_explain_every_parameter_of_a_function_that_commands_call(function):
    docstring = inspect.getdoc(in_python(function))
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    explained = [line.split(":")[0].strip() for line in section.splitlines() if line[4] != " "]
    assert explained == list(inspect.signature(in_python(function)).parameters)
    assert "Returns:\n" in docstring


def test_a_plan_takes_every_limit_of_a_run():
    assert {each.name for each in values.LIMITS.options.values()} == {each.name for each in fields(Limits)}


MADE = '''
from fgsv.made import KIND

MOST = 7


def made(
    data: Any,
    names: str | Sequence[str] = (),
    *,
    n_jobs: int | None = MOST,
    task: KIND | None = None,
    quiet: bool = False,
    without: bool = True,
    pace: float,
) -> None:
    """Do something.

    Args:
        data: In Python only.
        names: Names, or
            several. In Python a list. Default: none.
        n_jobs: Workers.
        task: What to do, see `names`.
        quiet: Say nothing. In Python also None.
        without: Leave it out.
        pace: How fast.

    Returns:
        Nothing.

    """
'''


@pytest.fixture
def made(tmp_path, monkeypatch):
    (tmp_path / "it.py").write_text(MADE)
    (tmp_path / "made.py").write_text('KIND = Literal["a", "b"]\n')
    monkeypatch.setattr(options, "PACKAGE", tmp_path)
    return Function("it.py:made", only="names n_jobs task quiet without pace")


def test_what_is_read_from_a_signature(made):
    found = {key: (each.name, each.kind, each.default, each.words) for key, each in made.options.items()}
    assert found == {
        "names": ("names", list[str], (), "Names, or several. In Python a list. Default: none."),
        "jobs": ("n_jobs", int, 7, "Workers."),
        "task": ("task", Literal["a", "b"], None, "What to do, see `names`."),
        "quiet": ("quiet", bool, False, "Say nothing. In Python also None."),
        "no_without": ("without", bool, True, "Leave it out."),
        "pace": ("pace", float, inspect.Parameter.empty, "How fast."),
    }
    assert set(Function("it.py:made").options) == set(found) - {"names"}
    assert made.of({"jobs": 2, "no_without": True, "other": 1}) == {"n_jobs": 2, "without": False}


def test_a_command_gets_what_was_given_and_shows_the_words(made):
    from typer.testing import CliRunner

    got = []

    @command(made)
    def run(context: typer.Context, file: Path, **given):
        """Run."""
        got.append((file, given))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(run)
    runner = CliRunner()
    assert runner.invoke(app, ["x", "--pace", "1.5"]).exit_code == 0
    assert runner.invoke(app, ["x", "--pace", "1", "--names", "a", "--jobs", "7", "--no-without"]).exit_code == 0
    assert got == [
        (Path("x"), {"pace": 1.5}),
        (Path("x"), {"pace": 1.0, "names": ["a"], "jobs": 7, "no_without": True}),
    ]
    said = " ".join(runner.invoke(app, ["--help"]).output.split())
    for words in ("Names, or several. Default: none", "What to do, see --names", "Say nothing", "[default: 7]"):
        assert words in said
    assert "In Python" not in said
    assert "Missing option '--pace'" in runner.invoke(app, ["x"]).output
    assert runner.invoke(app, ["x", "--pace", "1", "--task", "c"]).exit_code == 2


@pytest.mark.parametrize("kind", [Enum, IntEnum])  # as versions of click have it; str() of the latter is a number
def test_an_option_at_its_default_was_not_given(kind):
    sources = kind("ParameterSource", ["COMMANDLINE", "DEFAULT"])
    context = SimpleNamespace(get_parameter_source=lambda name: sources[name])
    assert [was_given(context, each) for each in ("COMMANDLINE", "DEFAULT")] == [True, False]
