"""The command `fgsv`: each command opens the library's own public objects."""

from __future__ import annotations

import typer

import fgsv
from fgsv.cli_reproduce import reproduce
from fgsv import cli_bench
from fgsv import cli_ledger

app = typer.Typer(
    help="Fair shares for data providers: values that nobody can raise by splitting, merging or renaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_bench.app, name="bench")


app.add_typer(reproduce, name="reproduce")


@app.callback()
def _root() -> None:
    """Keep `fgsv COMMAND` the form of every call."""


app.add_typer(cli_ledger.app, name="ledger")
app.command()(cli_ledger.verify)


@app.command()
def version() -> None:
    """Print the version.

    Example: fgsv version
    """
    typer.echo(fgsv.__version__)


def main() -> None:
    """Run the command line."""
    app()
