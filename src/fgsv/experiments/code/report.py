"""What a run of the code experiment writes and prints: shares, a figure, and where the texts are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fgsv
from fgsv.experiments.code.sources import Project
from fgsv.experiments.royalties import (
    Royalties,
    figure,
    paid_most_of,
    royalties,
    split_minus_whole,
    text,
    write_csv,
    write_json,
)
from fgsv.experiments.workspace import Workspace


def write_report(
    workspace: Workspace,
    settings: Mapping[str, Any],
    projects: Sequence[Project],
    game: str,
    results: Mapping[str, fgsv.Valuation],
) -> dict[str, Royalties]:
    """Write the shares of the four scenarios and their figure, print a summary, and return the shares."""
    tables = {name: royalties(result) for name, result in results.items()}
    valuation = results["fsrs_whole"]
    outputs = valuation.outputs
    assert outputs is not None
    gains = dict(zip(outputs, np.asarray(valuation.total).tolist(), strict=True))
    paid_most = paid_most_of(tables, outputs)
    gap = split_minus_whole(results)
    write_json(
        tables,
        workspace.folder / "shares.json",
        gain=gains,
        paid_most=paid_most,
        split_minus_whole=gap,
        stopped=valuation.stopped,
        n_evaluations=valuation.n_evaluations,
        seconds=round(workspace.seconds(), 1),
        game=game.splitlines(),
        sources=[
            {"project": each.name, "version": each.version, "licence": each.licence, "files": len(each.texts)}
            for each in projects
        ],
        settings=dict(settings),
    )
    write_csv(tables, workspace.folder / "shares.csv")
    valuation.save(workspace.folder / "valuation.json")
    figure(
        tables,
        workspace.folder / "code.png",
        gains={name: (gain, 0.0) for name, gain in gains.items()},
        note="linear shares of U(N) - U(0), nats per token",
    )
    workspace.say("done\n")
    for each in projects:
        print(f"{each.name} {each.version}, {len(each.texts)} files, licence: {each.licence}")
    print("\n" + text(tables))
    print("\nlinear shares of U(N) - U(0); ± Monte Carlo error, none for SRS, which is exact")
    for output, gain in gains.items():
        most = ", ".join(f"{name}: {project}" for name, project in paid_most[output].items())
        print(f"{output:<12} U(N) - U(0) = {gain:9.4f}; paid most: {most or 'nobody, there is nothing to share'}")
    print(f"parts minus whole, largest difference of FGSV: {gap:.2g}")
    print(f"stopped after {valuation.n_evaluations} evaluations: {valuation.stopped}")
    return tables
