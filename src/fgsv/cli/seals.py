"""The commands of sealed runs: `fgsv seal make`, `fgsv seal challenge` and `fgsv seal check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fgsv.cli.help_texts import App
from fgsv.cli.options import ForceFile, Function, Json, Saved, command
from fgsv.cli.printing import echo, print_json, results_only
from fgsv.cli.values import OPEN_TABLE, OPEN_TEXT, Files, open_data

SEAL_RUN = Function("results/seals.py:seal_run")
CHALLENGE = Function("verification/proofs.py:challenge", only="ledger random n_records with_values")
CHECK_PROOF = Function("verification/proof_checks.py:check_proof")

app = App(help="Fix a run before it is made, and prove its records.", no_args_is_help=True)


@app.command()
@command(OPEN_TABLE, OPEN_TEXT, SEAL_RUN, hidden="seed start")
def make(
    context: typer.Context,
    file: Files,
    out: Annotated[Path, typer.Option(help="File for the seal, such as seal.json")],
    force: ForceFile = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Fix a run before it is made: write its seal.

    You keep the seal and publish the commitment that is printed. To make the run, call fgsv value with the same
    options and --seal, --public and --ledger.

    Example: fgsv seal make train.csv --group provider --target y --budget 20000 --out seal.json
    """
    from fgsv.pipeline import check_file
    from fgsv.results import seal_run

    if "currency" in given and not {"floor", "cap"} & set(given):
        raise typer.BadParameter("--currency can only be used with --floor or --cap: the amount is not sealed")
    data = open_data(context, file, given)
    check_file(out, force=force)
    made = seal_run(data, **SEAL_RUN.of(given))
    made.save(out)
    warnings = [*data.warnings, *data.source.warnings_of_payments]
    if as_json:
        print_json({"commitment": made.commitment, "seal": str(out), "warnings": warnings})
        return
    echo(f"commitment: {made.commitment}")
    echo(f"publish this line before the public value is known, and keep {out} to yourself")
    for warning in warnings:
        echo(f"warning: {warning}")
    if "public_from" not in given:
        echo("warning: without --public-from, agree in writing on which public value is used and how it is written")


@app.command()
@command(CHALLENGE)
def challenge(
    context: typer.Context,
    valuation: Saved,
    out: Annotated[Path, typer.Option(help="File for the proof, such as proof.json")],
    force: ForceFile = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Prove records of a sealed result to a verifier.

    Answers the verifier's challenge: a proof with the records that their random string picks.

    Example: fgsv seal challenge valuation.json --ledger run.db --random "4 2 6 1 1 5" --out proof.json
    """
    from fgsv.pipeline import check_file
    from fgsv.verification import challenge as answer

    check_file(out, force=force)
    proof = answer(valuation, **CHALLENGE.of(given))
    proof.save(out)
    size = out.stat().st_size
    if as_json:
        print_json({"proof": str(out), "records": len(proof.records), "bytes": size})
    else:
        echo(f"written: {out}, {len(proof.records)} records, {size / 1e6:.2g} MB")


@app.command()
@command(CHECK_PROOF)
def check(
    context: typer.Context,
    proof: Annotated[Path, typer.Argument(help="A proof.json")],
    valuation: Saved,
    file: Annotated[
        list[Path] | None, typer.Argument(help="The table that was valued: evaluate the picked records again")
    ] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Check a proof of a sealed result.

    Checks the seal, the seed, the tree, the shares, and with the data the picked records. The exit code is 0 if
    everything matches, 1 if something differs, and 2 if the command cannot tell.

    Example: fgsv seal check proof.json valuation.json train.csv --commitment 899662b8... --random "4 2 6"
    """
    from fgsv.verification import Proof, check_proof

    try:
        with results_only():
            found = check_proof(Proof.load(proof), valuation, file or None, **CHECK_PROOF.of(given))
    except RuntimeError as error:  # a failure of the model or of memory is not a difference
        raise ValueError(f"cannot tell: {error}") from error
    if as_json:
        print_json(found.to_dict())
    else:
        for line in found.lines():
            echo(line)
    raise typer.Exit(found.code)
