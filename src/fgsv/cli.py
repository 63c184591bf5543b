"""The command `fgsv`: each command opens the library's own public objects."""

from __future__ import annotations

import typer

import fgsv

app = typer.Typer(
    help="Fair shares for data providers: values that nobody can raise by splitting, merging or renaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keep `fgsv COMMAND` the form of every call."""


@app.command()
def version() -> None:
    """Print the version.

    Example: fgsv version
    """
    typer.echo(fgsv.__version__)


def main() -> None:
    """Run the command line."""
    app()
