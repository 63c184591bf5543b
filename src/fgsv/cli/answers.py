"""The command that pays for a month of answers: `fgsv royalties`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fgsv.cli import config
from fgsv.cli.options import Function, Json, command
from fgsv.cli.printing import results_only, say
from fgsv.cli.values import finish

ROYALTIES = Function("answers/paying.py:royalties")
READ = Function("answers/reading.py:read_answers", only="fee drop", optional="fee")
VALUE = Function("answers/valuing.py:value", only="duplicates least")


@command(ROYALTIES, READ, VALUE)
def royalties(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Answers of the month, as JSON lines", metavar="FILE")],
    model: Annotated[
        str, typer.Option(help="Folder or hub name of the causal language model that the contract names")
    ],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Pay a month's fees to the publishers behind its answers.

    These are the publishers of the passages that the answers were made from. A sample of the answers is valued.
    The exit code is 3 if the payout is refused: see --pay-anyway.

    Example: fgsv royalties answers.jsonl --model NAME --fee 0.002 --sample 2000 --seed-from 1.0854 --ledger month.db
    """
    from fgsv import answers

    config.check_place(context)
    read = answers.read_answers(file, **READ.of(given))
    config.save(context)
    say(*(f"left out: {each}" for each in read.left_out if not as_json))
    with results_only():
        how = ROYALTIES.of(given) | VALUE.of(given) | {"command": context.find_root().obj}
        result = answers.royalties(read.answers, answers.HF(model), **how)
    finish(result, given.get("out"), as_json)
