"""What a run of the copyright experiment writes and prints: shares, figures and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fgsv.experiments.royalties import Royalties, figure, royalties, write_shares
from fgsv.experiments.workspace import Workspace

import fgsv
from fgsv.experiments.copyright.scale import Scale
from fgsv.packages import optional
from fgsv.types import Images
from fgsv.utilities.diffusion.game import DiffusionGame


def write_report(
    workspace: Workspace, scale: Scale, game: DiffusionGame, results: Mapping[str, fgsv.Valuation]
) -> dict[str, Royalties]:
    """Write the shares of the four scenarios and their figures, print a summary, and return the shares."""
    clipped = {name: royalties(result, clip=True) for name, result in results.items()}
    tables, summary = write_shares(
        results,
        workspace.folder,
        clipped={name: table.nested() for name, table in clipped.items()},
        seconds=round(workspace.seconds(), 1),
        settings=asdict(scale),
    )
    workspace.say("done\n")
    print(summary)
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
