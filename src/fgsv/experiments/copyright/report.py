"""What a run of the copyright experiment writes and prints: shares, figures and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from fgsv.environment import optional
from fgsv.experiments.copyright.scale import Scale
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
from fgsv.types import Images
from fgsv.utilities.diffusion.game import DiffusionGame


def write_report(
    workspace: Workspace, scale: Scale, game: DiffusionGame, results: Mapping[str, fgsv.Valuation]
) -> dict[str, Royalties]:
    """Write the shares of the four scenarios and their figures, print a summary, and return the shares."""
    tables = {name: royalties(result) for name, result in results.items()}
    clipped = {name: royalties(result, clip=True) for name, result in results.items()}
    valuation = results["fsrs_whole"]
    gains = dict(zip(game.outputs, np.asarray(valuation.total).tolist(), strict=True))
    paid_most = paid_most_of(tables, game.outputs)
    gap = split_minus_whole(results)
    stopped = valuation.stopped
    write_json(
        tables,
        workspace.folder / "shares.json",
        clipped={name: table.nested() for name, table in clipped.items()},
        gain=gains,
        paid_most=paid_most,
        split_minus_whole=gap,
        stopped=stopped,
        n_evaluations=valuation.n_evaluations,
        seconds=round(workspace.seconds(), 1),
        settings=asdict(scale),
    )
    write_csv(tables, workspace.folder / "shares.csv")
    valuation.save(workspace.folder / "valuation.json")
    workspace.say("done\n")
    print(text(tables))
    print("\nlinear shares of U(N) - U(0); ± Monte Carlo error, none for SRS, which is exact")
    for query, gain in gains.items():
        most = ", ".join(f"{name}: {brand}" for name, brand in paid_most[query].items())
        print(f"{query:<12} U(N) - U(0) = {gain:9.4f}; paid most: {most or 'nobody, there is nothing to share'}")
    print(f"parts minus whole, largest difference of FGSV: {gap:.2g}")
    print(f"stopped after {valuation.n_evaluations} evaluations: {stopped}")
    _draw(workspace.folder, game, tables, clipped)
    return tables


def write_contact_sheet(path: Path, images: Images, n_rows: int) -> None:
    """Write images into one file, in `n_rows` rows."""
    image_module: Any = optional("PIL.Image", "images", "diffusion")
    height, width = images.shape[1:3]
    rows = images.reshape(n_rows, -1, height, width, 3).transpose(0, 2, 1, 3, 4)
    image_module.fromarray(rows.reshape(n_rows * height, -1, 3)).save(path)


def _draw(
    folder: Path, game: DiffusionGame, tables: Mapping[str, Royalties], clipped: Mapping[str, Royalties]
) -> None:
    shown = game.model.decode(game.generated[:, :4].flatten(0, 1))
    shown = shown.reshape(len(game.outputs), -1, *shown.shape[1:])
    images = dict(zip(game.outputs, shown, strict=True))
    figure(tables, folder / "copyright.png", images=images, note="linear shares of U(N) - U(0)")
    figure(
        clipped,
        folder / "copyright_clipped.png",
        images=images,
        note="negative values clipped at zero, as the paper's authors do: not faithful",
    )
