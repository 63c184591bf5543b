"""Help texts: options in sections, each with a word for its value; of a long command, those that people need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

Function = TypeVar("Function", bound=Callable[..., Any])

SECTIONS = {
    "Data": "target* text* group* regroup unit unit_size* max_players shared_units group_missing target_missing "
    "ignore encoding",
    "Answers": "fee* sample* seed_from* stratum drop duplicates least",
    "Test rows": "test* test_by test_fraction split_seed* monte_carlo_only also_slice output_by prompt",
    "Model and score": "model* training task metric* also_metric empty training_seeds refit_preprocessing reference",
    "Precision": "pilot* budget* precision* max_time* confidence seed*",
    "Money": "payout* amount currency* clip floor cap pay_anyway",
    "Audit": "audit* audit_budget parts registered",
    "Seal": "seal public public_from*",
    "Evaluations": "jobs* ledger* start* on_error no_without",
    "Output": "out* force before aggregate_only as_json* config* save_config help* help_all*",
}
"""The options of commands that open data, by name, in the order in which help shows them; without --help-all, those
with a star."""
OTHERS = "Options"
MANY = 20
"""A command with fewer options has one section, and shows all of them."""
VALUES = {
    "COLUMN": "target text unit test_by output_by prompt registered stratum",
    "COLUMNS": "group regroup ignore also_slice",
    "NAME": "group_missing encoding",
    "NAMES": "metric also_metric",
    "NAME=VALUE": "training",
    "WORD": "target_missing",
    "MODEL": "model",
    "FILE": "reference",
    "FOLDER": "out",
    "ROWS": "unit_size",
    "N": "max_players",
    "NUMBERS": "empty parts",
    "FRACTION": "fraction test_fraction precision",
    "DURATION": "max_time",
    "AMOUNT": "amount payout fee floor cap",
    "CODE": "currency",
}
"""What help calls the value of an option."""
WORDS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "FILE", "Path": "FILE"}
"""What it calls other values, by their types."""
SHOWS_ALL = "fgsv.cli.help_texts.shows_all"


def in_sections(parameters: Iterable[Any], *, in_short: bool = False) -> dict[str, list[Any]]:
    """Return the visible options of a command by section, or those most used."""
    options = [each for each in parameters if each.param_type_name == "option" and not each.hidden]
    if len(options) < MANY:
        return {OTHERS: options}
    named = {each.name: each for each in options}
    found: dict[str, list[Any]] = {}
    for title, names in SECTIONS.items():
        shown = [name.removesuffix("*") for name in names.split() if name.endswith("*") or not in_short]
        found[title] = [named[name] for name in shown if name in named]
    return {title: each for title, each in found.items() if each}


def show_all(context: typer.Context, asked: bool) -> None:
    """Print the help of a long command with all its options, and end."""
    if asked:
        context.meta[SHOWS_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class Command(TyperCommand):
    """A command whose help has sections."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command."""
        return [piece.strip("{}").replace("}...", "...").upper() for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the sections of options."""
        parameters = self.get_params(ctx)
        arguments = [each for each in parameters if each.param_type_name == "argument"]
        sections = in_sections(parameters, in_short=SHOWS_ALL not in ctx.meta)
        for title, shown in ({"Arguments": arguments} | sections).items():
            records = [each.get_help_record(ctx) for each in shown]
            rows = [(in_words(name), help) for name, help in filter(None, records)]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A group of commands whose help has sections."""

    def command(self, *names: Any, **options: Any) -> Callable[[Function], Function]:
        """Register a function as a command."""
        return super().command(*names, cls=Command, **options)


def in_words(name: str) -> str:
    """Return the name of a parameter and a word for its value, where recent versions of typer show a Python type."""
    name, _, kind = name.removesuffix(">").partition(" <")
    if not name.startswith("-"):  # an argument
        return name.upper()
    kind = kind.removeprefix("list[").removesuffix("]").removesuffix(" range")
    return f"{name} {WORDS.get(kind, kind)}".rstrip()
