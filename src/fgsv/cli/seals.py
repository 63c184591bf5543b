"""The commands of sealed runs: `fgsv seal`, `fgsv challenge` and `fgsv check`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import echo, print_json, results_only
from fgsv.cli.opening import opens_data

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset

ProofFile = Annotated[Path, typer.Option(help="File for the proof, such as proof.json")]


@opens_data
def seal(
    table: Dataset,
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="File for the seal, such as seal.json")],
    seed: option.NotSealedSeed = 0,
    start: option.NotSealedStart = None,
    budget: option.Budget = None,
    precision: option.Precision = None,
    confidence: option.Confidence = 0.95,
    on_error: option.OnError = "raise",
    currency: option.Currency = "EUR",
    clip: option.Clip = False,
    floor: option.Floor = None,
    cap: option.Cap = None,
    public_from: Annotated[
        str | None,
        typer.Option(
            help="Which public value will give the seed, and how it is written: 'drand round 5000000, as hex'"
        ),
    ] = None,
    force: option.ForceFile = False,
    as_json: option.Json = False,
) -> None:
    """Fix a run before it is made: write its seal.

    You keep the seal and publish the commitment that is printed. To make the run, call fgsv value with the same
    options and --seal, --public and --ledger.

    Example: fgsv seal train.csv --group provider --target y --budget 20000 --out seal.json
    """
    from fgsv.pipeline import check_file
    from fgsv.results import seal_run

    if floor is None and cap is None and option.was_given(context, "currency"):
        raise typer.BadParameter("--currency can only be used with --floor or --cap: the amount is not sealed")
    check_file(out, force=force)
    made = seal_run(
        table,
        budget=budget,
        precision=precision,
        confidence=confidence,
        on_error=on_error,
        clip=clip,
        floor=floor,
        cap=cap,
        currency=currency,
        public_from=public_from,
    )
    made.save(out)
    warnings = [*table.warnings, *table.source.warnings_of_payments]
    if as_json:
        print_json({"commitment": made.commitment, "seal": str(out), "warnings": warnings})
        return
    echo(f"commitment: {made.commitment}")
    echo(f"publish this line before the public value is known, and keep {out} to yourself")
    for warning in warnings:
        echo(f"warning: {warning}")
    if public_from is None:
        echo("warning: without --public-from, agree in writing on which public value is used and how it is written")


def challenge(
    valuation: option.Saved,
    ledger: Annotated[Path, typer.Option(help="Ledger of the run")],
    random: Annotated[str, typer.Option(help="Random string from the verifier, who already has the result")],
    out: ProofFile,
    records: Annotated[int, typer.Option(help="Records to pick, besides U(0) and U(N)", min=1)] = 300,
    no_values: Annotated[
        bool, typer.Option("--no-values", help="Leave out the values of records that were not picked")
    ] = False,
    force: option.ForceFile = False,
    as_json: option.Json = False,
) -> None:
    """Prove records of a sealed result to a verifier.

    Answers the verifier's challenge: a proof with the records that their random string picks.

    Example: fgsv challenge valuation.json --ledger run.db --records 300 --random "4 2 6 1 1 5" --out proof.json
    """
    from fgsv.pipeline import check_file
    from fgsv.verification import challenge as answer

    check_file(out, force=force)
    proof = answer(valuation, ledger, random=random, n_records=records, with_values=not no_values)
    proof.save(out)
    size = out.stat().st_size
    if as_json:
        print_json({"proof": str(out), "records": len(proof.records), "bytes": size})
    else:
        echo(f"written: {out}, {len(proof.records)} records, {size / 1e6:.2g} MB")


def check(
    proof: Annotated[Path, typer.Argument(help="A proof.json")],
    valuation: option.Saved,
    file: Annotated[
        list[Path] | None, typer.Argument(help="The table that was valued: evaluate the picked records again")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="The file of test rows, if there was one")] = None,
    commitment: Annotated[str | None, typer.Option(help="The commitment as it was published")] = None,
    public: Annotated[str | None, typer.Option(help="The public value, as you know it")] = None,
    random: Annotated[str | None, typer.Option(help="The random string that you gave")] = None,
    records: Annotated[int | None, typer.Option(help="How many records you asked for", min=1)] = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest difference of a value, relative to the largest of its output", min=0)
    ] = 1e-6,
    jobs: option.Jobs = 1,
    as_json: option.Json = False,
) -> None:
    """Check a proof of a sealed result.

    Checks the seal, the seed, the tree, the shares, and with the data the picked records. The exit code is 0 if
    everything matches, 1 if something differs, and 2 if the command cannot tell.

    Example: fgsv check proof.json valuation.json train.csv --commitment 899662b8... --random "4 2 6" --records 300
    """
    from fgsv.verification import Proof, check_proof

    with results_only(), _cannot_tell():
        found = check_proof(
            Proof.load(proof),
            valuation,
            file or None,
            test=test,
            commitment=commitment,
            public=public,
            random=random,
            n_records=records,
            tolerance=tolerance,
            n_jobs=jobs,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        for line in found.lines():
            echo(line)
    raise typer.Exit(found.code)


@contextmanager
def _cannot_tell() -> Iterator[None]:
    """Give a failure of the model or of memory the exit code 2: it is not a difference."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(f"cannot tell: {error}") from error
