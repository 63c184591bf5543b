"""The copyright experiment recomputed from the utilities that the paper's authors published.

The authors fine-tuned Stable Diffusion v1.4 on coalitions of 120 logos of four brands and published the
log-likelihoods of 20 generated images per prompt. This module computes SRS and FSRS from that file, by their rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from fgsv.experiments.royalties import Royalties, figure, shares_of, text, write_csv, write_json
from fgsv.game import Game
from fgsv.running.run import exact
from fgsv.types import Floats, Ints, Masks

LARGE, SMALL = "large", "small"
BRAND_SIZE, LARGE_SIZE, SMALL_SIZE = 30, 20, 10


@dataclass(frozen=True, eq=False)
class PublishedUtilities:
    """The published utilities of q prompts, r images and p players (brands, and the parts of split ones)."""

    prompts: tuple[str, ...]
    players: tuple[str, ...]
    coalitions: tuple[frozenset[str], ...]
    """The file's group coalitions as sets of brands and parts; a split brand is both of its parts."""
    group: Floats
    """(q, coalitions, r) utilities of these coalitions."""
    ends: Floats
    """(q, 2, r) utilities of the empty and the full coalition, from the computation of `pairs`, not of `group`."""
    pairs: Floats
    """(p, q, 2, n - 1, replicates, r) lower and upper utilities at each coalition size from 1 to n - 1."""

    @property
    def split_brands(self) -> tuple[str, ...]:
        """The brands that the file also has in parts."""
        return tuple(brand for brand in self.brands if brand + LARGE in self.players)

    @property
    def brands(self) -> tuple[str, ...]:
        """The whole brands, in the file's order."""
        return tuple(player for player in self.players if not player.endswith((LARGE, SMALL)))

    @property
    def parts(self) -> tuple[str, ...]:
        """The players of the split scenario: the parts of split brands, and the other brands."""
        return tuple(
            name
            for brand in self.brands
            for name in ((brand + LARGE, brand + SMALL) if brand in self.split_brands else (brand,))
        )

    @property
    def n_images(self) -> int:
        """Number of training images, n."""
        return BRAND_SIZE * len(self.brands)

    def size(self, player: str) -> int:
        """Return the number of images of a brand or of a part."""
        if player.endswith(LARGE):
            return LARGE_SIZE
        return SMALL_SIZE if player.endswith(SMALL) else BRAND_SIZE


def read_published(path: str | Path) -> PublishedUtilities:
    """Read the published .npz file; one with another layout raises an error that says what differs."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of published utilities at {path}")
    wanted = ("group_utility", "group_coalitions", "pair_utility", "ends_utility", "prompts", "players")
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in wanted if name not in file]
            arrays = {name: file[name] for name in wanted if name in file}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not an .npz file of arrays: {error}") from error
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}; expected the arrays {', '.join(wanted)}")
    prompts = tuple(str(name).lower() for name in arrays["prompts"])
    players = tuple(str(name).lower() for name in arrays["players"])
    group, ends = arrays["group_utility"].astype(float), arrays["ends_utility"].astype(float)
    pairs = arrays["pair_utility"].astype(float)
    utilities = PublishedUtilities(prompts, players, (), group, ends, pairs)
    n_images, n_sizes = group.shape[-1], BRAND_SIZE * len(utilities.brands) - 1
    expected = {
        "group_utility": (len(prompts), len(arrays["group_coalitions"]), n_images),
        "ends_utility": (len(prompts), 2, n_images),
        "pair_utility": (len(players), len(prompts), 2, n_sizes, pairs.shape[-2], n_images),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{path}: {name} has shape {arrays[name].shape}, expected {shape}")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path}: {name} has numbers that are not finite")
    coalitions = tuple(_members(str(name), utilities) for name in arrays["group_coalitions"])
    absent = [
        parts
        for bits in product((False, True), repeat=len(utilities.parts))
        if (parts := frozenset(p for p, bit in zip(utilities.parts, bits, strict=True) if bit)) not in coalitions
    ]
    if absent:
        raise ValueError(f"{path}: {len(absent)} group coalitions are missing, such as {sorted(absent[0])}")
    return replace(utilities, coalitions=coalitions)


def _members(name: str, utilities: PublishedUtilities) -> frozenset[str]:
    """Return the parts in a coalition by its published name, such as 'Google_SpriteLarge', 'null' or 'full'."""
    if name.lower() == "null":
        return frozenset()
    if name.lower() == "full":
        return frozenset(utilities.parts)
    members: set[str] = set()
    for player in name.lower().split("_"):
        if player not in utilities.players:
            raise ValueError(
                f"coalition {name!r} names {player!r}; expected null, full, or some of {', '.join(utilities.players)}"
            )
        members.update([player + LARGE, player + SMALL] if player in utilities.split_brands else [player])
    return frozenset(members)


def group_shapley_values(utilities: PublishedUtilities, players: tuple[str, ...]) -> Floats:
    """Return the exact GSV, (prompts, players, images), of groups from the utilities of their coalitions."""
    position = {coalition: row for row, coalition in enumerate(utilities.coalitions)}
    parts = [_members(player, utilities) for player in players]

    def utility(masks: Masks) -> Floats:
        rows = [position[frozenset[str]().union(*(parts[k] for k in np.flatnonzero(mask)))] for mask in masks]
        return np.moveaxis(utilities.group[:, rows], 1, 0).reshape(len(masks), -1)

    values = exact(Game(utility, len(players))).player_values
    assert values is not None
    return np.moveaxis(values.reshape(len(players), len(utilities.prompts), -1), 0, 1)


def finite_difference_values(utilities: PublishedUtilities, players: tuple[str, ...]) -> Floats:
    """Return the authors' estimate of FGSV, (prompts, players, images).

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
        swapped = swaps(n, size)
        slopes = differences[utilities.players.index(player)] / swapped[None, :, None]
        values.append(a * gain + a * (1 - a) * slopes.sum(axis=1))
    return np.stack(values, axis=1)


def swaps(n: int, group_size: int) -> Ints:
    """Return h for each coalition size from 1 to n - 1: 2 where a central difference is feasible, else 1.

    >>> swaps(6, 3).tolist()
    [1, 2, 2, 2, 1]
    """
    sizes = np.arange(1, n)
    middle = np.round(group_size * sizes / n).astype(np.int64)  # half to even, as in the authors' code
    least, most = np.maximum(0, sizes - (n - group_size)), np.minimum(group_size, sizes)
    return np.where((middle - 1 >= least) & (middle + 1 <= most), 2, 1)


def royalties(values: Floats, prompts: tuple[str, ...], players: tuple[str, ...]) -> Royalties:
    """Return clipped shares of (prompts, players, images) values averaged over images, with jackknife errors."""
    n_images = values.shape[-1]
    shares = shares_of(values.mean(axis=-1), clip=True)
    left_out = (values.sum(axis=-1, keepdims=True) - values) / (n_images - 1)
    jackknife = shares_of(np.moveaxis(left_out, -1, 0), clip=True)
    spread = ((jackknife - jackknife.mean(axis=0)) ** 2).sum(axis=0)
    return Royalties(prompts, players, shares, np.sqrt(spread * (n_images - 1) / n_images))


def run_published(file: str | Path, out: str | Path) -> dict[str, Royalties]:
    """Compute the four tables, print them, and write shares.json, shares.csv and copyright.png into `out`."""
    utilities = read_published(file)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tables = {}
    sums = {}
    for rule, valued in (("srs", group_shapley_values), ("fsrs", finite_difference_values)):
        for scenario, players in (("whole", utilities.brands), ("split", utilities.parts)):
            values = valued(utilities, players)
            tables[f"{rule}_{scenario}"] = royalties(values, utilities.prompts, players)
            sums[f"{rule}_{scenario}"] = values.mean(axis=-1).sum(axis=-1)
    gains = utilities.ends[:, 1] - utilities.ends[:, 0]
    gain, error = gains.mean(axis=-1), gains.std(axis=-1, ddof=1) / np.sqrt(gains.shape[-1])
    print(text(tables))
    print("\nshares: negative values clipped at zero, as the authors do; ± over the images (jackknife)\n")
    print(f"{'prompt':<12}{'U(N) - U(0)':>14}{'sum of FGSVs':>16}{'... split':>12}")
    for q, prompt in enumerate(utilities.prompts):
        print(f"{prompt:<12}{gain[q]:>14.3f}{sums['fsrs_whole'][q]:>16.3f}{sums['fsrs_split'][q]:>12.3f}")
    write_json(tables, out / "shares.json")
    write_csv(tables, out / "shares.csv")
    figure(
        tables,
        out / "copyright.png",
        gains={prompt: (gain[q], error[q]) for q, prompt in enumerate(utilities.prompts)},
        note="from published utilities; negative values clipped at zero; error bars over the images",
    )
    return tables
