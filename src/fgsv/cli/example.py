"""The command `fgsv example`: complete valuations that need no data of yours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside
from fgsv.environment import writable_folder

app = typer.Typer(help="Run a complete valuation that needs no data of yours.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Require an example's name, even while there is only one."""


@app.command()
def code(
    out: Annotated[Path, typer.Option(help="Folder to write to; an interrupted run resumes from it.")],
    device: Annotated[str, typer.Option(help="cuda, cpu, or auto: a GPU if available.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: bfloat16 on a GPU.")] = "auto",
    small: Annotated[bool, typer.Option("--small", help="Small version for a CPU: two or three minutes.")] = False,
    adapters: Annotated[
        int | None, typer.Option(min=1, help="Adapters trained at once (default: as many as fit in GPU memory).")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0, help="Do not start a round of evaluations that would end after this.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the model and the sample.")] = 0,
    as_json: option.Json = False,
) -> None:
    """Value installed open-source projects by what a small code model learns from them: minutes on a GPU.

    Example: fgsv example code --out results --small
    """
    writable_folder(out)
    with prose_aside(as_json):
        from fgsv.experiments.code.experiment import run

        run(
            out,
            device=device,
            precision=precision,
            small=small,
            adapters_at_once=adapters,
            max_seconds=max_seconds,
            seed=seed,
        )
    if as_json:
        print_json(json.loads((out / "shares.json").read_text(encoding="utf-8")))
