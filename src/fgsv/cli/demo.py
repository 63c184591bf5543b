"""The command `fgsv demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fgsv.cli.options import Json
from fgsv.cli.printing import say


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write to", metavar="FOLDER")] = Path("fgsv-demo"),
    budget: Annotated[int, typer.Option(help="Evaluations in total", min=100)] = 8_000,
    seed: Annotated[int, typer.Option(help="Random seed: same seed, same result", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a finished valuation")] = False,
    as_json: Json = False,
) -> None:
    """Value ten made-up hospitals and split 100,000 EUR.

    One hospital has wrong labels and one has copied data.

    Example: fgsv demo --out fgsv-demo
    """
    from fgsv.cli.hospitals import write
    from fgsv.pipeline import check_folder

    check_folder(out, force=force)
    hospitals, test = write(out, seed)
    arguments = [str(hospitals), "--group", "hospital", "--target", "diagnosis", "--test", str(test)]
    arguments += ["--metric", "accuracy", "--budget", str(budget), "--seed", str(seed), "--payout", "100000"]
    arguments += ["--audit", "--out"]
    if not as_json:
        again = f"{out if out.name else out.absolute()}-by-hand"
        say(f"ten hospitals in {hospitals}; to run this yourself:")
        say(f"  {shlex.join(['fgsv', 'value', *arguments, again])}")
    options = [str(out), *(["--force"] if force else []), *(["--json"] if as_json else [])]
    assert context.parent is not None
    command = context.parent.command.get_command(context.parent, "value")  # type: ignore[attr-defined]
    words = shlex.join(["fgsv", "value", *arguments, str(out)])
    raise typer.Exit(command.main([*arguments, *options], "value", standalone_mode=False, obj=words))
