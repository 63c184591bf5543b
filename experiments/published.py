"""The copyright experiment recomputed from the utilities that the paper's authors published.

The authors fine-tuned Stable Diffusion v1.4 on coalitions of 120 logos of four brands and published the
log-likelihoods of 20 generated images per prompt. This module computes SRS and FSRS from that file, by their rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import fgsv
from experiments import records
from experiments.royalties import draw, shares_of, text, with_providers
from fgsv.types import Floats, Ints, Masks

LARGE, SMALL = "large", "small"
BRAND_SIZE, LARGE_SIZE, SMALL_SIZE = 30, 20, 10
ARRAYS = ("group_utility", "group_coalitions", "pair_utility", "ends_utility", "prompts", "players")


@dataclass(frozen=True, eq=False)
class PublishedUtilities:
    """The published utilities of q prompts, r images and p players (brands, and the parts of split ones)."""

    prompts: tuple[str, ...]
    players: tuple[str, ...]
    coalitions: tuple[str, ...]
    """The names of the group coalitions, such as 'google_spritelarge', 'null' or 'full'."""
    group: Floats
    """(q, coalitions, r) utilities of these coalitions."""
    ends: Floats
    """(q, 2, r) utilities of the empty and the full coalition, from the computation of `pairs`, not of `group`."""
    pairs: Floats
    """(p, q, 2, n - 1, replicates, r) lower and upper utilities at each coalition size from 1 to n - 1."""

    @property
    def brands(self) -> tuple[str, ...]:
        """The whole brands, in the file's order."""
        return tuple(player for player in self.players if not player.endswith((LARGE, SMALL)))

    @property
    def parts(self) -> tuple[str, ...]:
        """The players of the split scenario: the parts of split brands, and the other brands."""
        return tuple(part for brand in self.brands for part in self.parts_of(brand))

    def parts_of(self, player: str) -> tuple[str, ...]:
        """Return the parts of a split brand, and any other player alone."""
        return (player + LARGE, player + SMALL) if player + LARGE in self.players else (player,)

    @property
    def n_images(self) -> int:
        """Number of training images, n."""
        return BRAND_SIZE * len(self.brands)

    def size(self, player: str) -> int:
        """Return the number of images of a brand or of a part."""
        return LARGE_SIZE if player.endswith(LARGE) else SMALL_SIZE if player.endswith(SMALL) else BRAND_SIZE

    def positions(self) -> dict[frozenset[str], int]:
        """Return where the coalitions are in `group`, as sets of parts; raise an error if they are not all there."""
        named: dict[str, Sequence[str]] = {"null": (), "full": self.parts}
        found = {}
        for position, name in enumerate(self.coalitions):
            members = named.get(name, name.split("_"))
            unknown = [player for player in members if player not in self.players]
            if unknown:
                raise ValueError(f"coalition {name!r} names {unknown[0]!r}; expected {', '.join(self.players)}")
            found[frozenset(part for player in members for part in self.parts_of(player))] = position
        if len(found) < 2 ** len(self.parts):
            raise ValueError(f"{2 ** len(self.parts) - len(found)} group coalitions are missing")
        return found


def read_published(path: Path) -> PublishedUtilities:
    """Read the published .npz file; one with another layout raises an error that says what differs."""
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in ARRAYS if name not in file]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; expected the arrays {', '.join(ARRAYS)}")
        group, coalitions, pairs, ends, prompts, players = (file[name] for name in ARRAYS)
    texts = [tuple(str(name).lower() for name in each) for each in (prompts, players, coalitions)]
    numbers = [array.astype(float) for array in (group, ends, pairs)]
    found = PublishedUtilities(texts[0], texts[1], texts[2], *numbers)
    q, r = len(prompts), group.shape[-1]
    shapes = {
        "group_utility": (group, (q, len(coalitions), r)),
        "ends_utility": (ends, (q, 2, r)),
        "pair_utility": (pairs, (len(players), q, 2, found.n_images - 1, pairs.shape[-2], r)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise ValueError(f"{path}: {name} has shape {array.shape}, expected {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} has numbers that are not finite")
    return found


def group_shapley_values(utilities: PublishedUtilities, players: tuple[str, ...]) -> Floats:
    """Return the exact GSV, (players, prompts, images), of groups from the utilities of their coalitions."""
    positions = utilities.positions()
    parts = [utilities.parts_of(player) for player in players]

    def utility(masks: Masks) -> Floats:
        rows = [positions[frozenset(part for k in np.flatnonzero(mask) for part in parts[k])] for mask in masks]
        return np.moveaxis(utilities.group[:, rows], 1, 0).reshape(len(masks), -1)

    return fgsv.exact(fgsv.Game(utility, len(players))).values.reshape(len(players), len(utilities.prompts), -1)


def finite_difference_values(utilities: PublishedUtilities, players: tuple[str, ...]) -> Floats:
    """Return the authors' estimate of FGSV, (players, prompts, images).

    FGSV(S0) = a [U(N) - U(0)] + sum over s of T(s), a = s0/n, T(s) = a (1 - a) (upper - lower) / h averaged
    over replicates; from lower to upper, h players outside S0 are swapped for players of S0. The formula lacks a
    factor n/(n - 1) in T(s), as in the authors' code.
    """
    n = utilities.n_images
    gain = utilities.ends[:, 1] - utilities.ends[:, 0]
    differences = (utilities.pairs[:, :, 1] - utilities.pairs[:, :, 0]).mean(axis=-2)
    values = []
    for player in players:
        size = utilities.size(player)
        a = size / n
        slopes = differences[utilities.players.index(player)] / swaps(n, size)[None, :, None]
        values.append(a * gain + a * (1 - a) * slopes.sum(axis=1))
    return np.stack(values)


def swaps(n: int, group_size: int) -> Ints:
    """Return h for each coalition size from 1 to n - 1: 2 where a central difference is feasible, else 1.

    >>> swaps(6, 3).tolist()
    [1, 2, 2, 2, 1]
    """
    sizes = np.arange(1, n)
    middle = np.round(group_size * sizes / n).astype(np.int64)  # half to even, as in the authors' code
    least, most = np.maximum(0, sizes - (n - group_size)), np.minimum(group_size, sizes)
    return np.where((middle - 1 >= least) & (middle + 1 <= most), 2, 1)


def clipped_shares(values: Floats) -> tuple[Floats, Floats]:
    """Return (players, prompts) clipped shares of values averaged over the images, and their jackknife errors."""
    n_images = values.shape[-1]
    left_out = (values.sum(axis=-1, keepdims=True) - values) / (n_images - 1)
    spread = shares_of(left_out, clip=True).var(axis=-1) * n_images
    return shares_of(values.mean(axis=-1), clip=True), np.sqrt(spread * (n_images - 1) / n_images)


def run(file: Path, out: Path = Path("bench-out/published")) -> pd.DataFrame:
    """Share royalties among four brands, from the .npz file of utilities that the authors published: seconds.

    As the authors do, negative values are clipped at zero. Errors are over the images (jackknife).
    """
    utilities = read_published(file)
    frames = []
    for rule, values_of in (("SRS", group_shapley_values), ("FSRS", finite_difference_values)):
        for scenario, players in (("whole", utilities.brands), ("split", utilities.parts)):
            values = values_of(utilities, players)
            share, error = clipped_shares(values)
            frame = pd.DataFrame(product(players, utilities.prompts), columns=["player", "prompt"])
            numbers = {"value": values.mean(axis=-1).ravel(), "share": share.ravel(), "stderr": error.ravel()}
            frames.append(frame.assign(rule=rule, scenario=scenario, **numbers))
    table = with_providers(pd.concat(frames, ignore_index=True))
    gains = pd.DataFrame(utilities.ends[:, 1] - utilities.ends[:, 0], index=utilities.prompts)
    sums = table[table.rule == "FSRS"].groupby(["prompt", "scenario"])["value"].sum().unstack()
    sums["U(N) - U(0)"] = gains.mean(axis=1)
    print(f"{text(table)}\n\nsums of values by FSRS, which should be U(N) - U(0)\n{sums.to_string()}")
    panel = dict(zip(utilities.prompts, zip(gains.mean(axis=1), gains.sem(axis=1), strict=True), strict=True))
    figure = draw(table, panel, "from published utilities; negative values clipped at zero; errors over the images")
    records.save(out, "published", table, {"published": figure}, gain=gains.mean(axis=1).to_dict())
    return table
