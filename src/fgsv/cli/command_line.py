"""The command `fgsv`: registers every command, and turns errors into exit codes.

Each command is a thin layer over a public function. numpy and the rest are imported inside the commands, so that
`fgsv --help` answers at once.
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

import fgsv
from fgsv.cli import ledger, results, seals, values
from fgsv.cli.answers import royalties
from fgsv.cli.demo import demo
from fgsv.cli.help_texts import App
from fgsv.cli.options import Json
from fgsv.cli.printing import print_json, say
from fgsv.signals import ENDINGS
from fgsv.words import in_command

UsageError: Any = typer.BadParameter.__bases__[0]
"""What typer raises for an unknown command or option: its own class or click's, depending on the version."""

TRACEBACK = " (--debug shows the traceback)"

INTERRUPTED = 130
"""What typer returns in place of a KeyboardInterrupt."""

app = App(
    help="Fair shares for data providers: values that nobody can raise by splitting, merging or renaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)
for function in (values.value, values.plan, values.hold_out, results.report, results.compare, results.payout):
    app.command()(function)
for function in (results.sensitivity, results.verify, royalties, demo):
    app.command()(function)
app.add_typer(seals.app, name="seal")
app.add_typer(ledger.app, name="ledger")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(fgsv.__version__)
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Declare the options that come before any command."""


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version.

    Example: fgsv version
    """
    if as_json:
        print_json({"fgsv": fgsv.__version__})
    else:
        typer.echo(fgsv.__version__)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0, 1 (failed), 2 (bad arguments) or 3 (a payout was refused).

    Errors are printed on one line.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    warnings.filterwarnings("ignore", module="sklearn")  # a run prints each warning of its models once
    try:
        words = [word for word in arguments if word != "--debug"]
        with _forgiving_output(), ended_as_interrupted(), in_command():
            code = _command().main(words, "fgsv", standalone_mode=False, obj=shlex.join(["fgsv", *words]))
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        raise SystemExit(code)
    except BrokenPipeError:  # the reader, such as head, has read enough
        raise SystemExit(1) from None
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
            error.show()
        else:
            path = "fgsv" if error.ctx is None else error.ctx.command_path
            say(f"error: {_one_line(error.format_message())} (see {path} --help)")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("interrupted before the first estimate")
        raise SystemExit(1) from None
    except (ValueError, TypeError, FileNotFoundError, FileExistsError) as error:
        if debug:
            raise
        say(f"error: {_one_line(error)}{'' if _is_on_purpose(error) else TRACEBACK}")
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        say(f"failed: {_one_line(error)}{TRACEBACK}")
        raise SystemExit(1) from None


@cache
def _command() -> Any:
    """Return what parses the arguments: reading the options of every command takes a while."""
    return typer.main.get_command(app)


@contextmanager
def _forgiving_output() -> Iterator[None]:
    """Escape what the output has no letter for; an output that fails, fails once, not again when Python ends."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except OSError:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Treat a request to end the process as Ctrl-C, which keeps the valuation so far.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in ENDINGS if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _is_on_purpose(error: Exception) -> bool:
    """Return whether an error is about what the user gave: a file, or what a raise statement of this package rejects.

    Any other ValueError or TypeError may be a fault of the program.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename).is_relative_to(Path(fgsv.__file__).parent)
    return isinstance(error, OSError) or (ours and (last.line or "").startswith("raise"))


def _one_line(error: Exception | str) -> str:
    return " ".join(str(error).split()) or type(error).__name__
