"""What a run of the code experiment writes and prints: shares, a figure, and where the texts are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fgsv.experiments.code.sources import Project
from fgsv.experiments.royalties import Royalties, figure, gains_of, write_shares
from fgsv.experiments.workspace import Workspace

import fgsv


def write_report(
    workspace: Workspace,
    settings: Mapping[str, Any],
    projects: Sequence[Project],
    game: str,
    results: Mapping[str, fgsv.Valuation],
) -> dict[str, Royalties]:
    """Write the shares of the four scenarios and their figure, print a summary, and return the shares."""
    sources = [
        {"project": each.name, "version": each.version, "licence": each.licence, "files": len(each.texts)}
        for each in projects
    ]
    tables, summary = write_shares(
        results,
        workspace.folder,
        seconds=round(workspace.seconds(), 1),
        game=game.splitlines(),
        sources=sources,
        settings=dict(settings),
    )
    figure(
        tables,
        workspace.folder / "code.png",
        gains={name: (gain, 0.0) for name, gain in gains_of(results["fsrs_whole"]).items()},
        note="linear shares of U(N) - U(0), nats per token",
    )
    workspace.say("done\n")
    for each in projects:
        print(f"{each.name} {each.version}, {len(each.texts)} files, licence: {each.licence}")
    print("\n" + summary)
    return tables
