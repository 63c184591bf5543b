"""Shares from the published utilities: an additive game whose values are known, and files that are refused."""

from itertools import product

import numpy as np
import pytest

from experiments.published import (
    clipped_shares,
    finite_difference_values,
    group_shapley_values,
    read_published,
    swaps,
)

PARTS = ["googlelarge", "googlesmall", "spritelarge", "spritesmall", "starbucks", "vodafone"]
PLAYERS = ["google", *PARTS[:2], "sprite", *PARTS[2:]]
BRANDS = ["google", "sprite", "starbucks", "vodafone"]
SIZES = {"large": 20, "small": 10}
N = 120


def size(name):
    return next((count for suffix, count in SIZES.items() if name.endswith(suffix)), 30)


def coalition_name(parts):
    """Return the published name of a coalition: both parts of a brand are the brand, all parts are 'full'."""
    if not parts or len(parts) == len(PARTS):
        return "full" if parts else "null"
    names = []
    for brand in BRANDS:
        own = [part for part in parts if part.startswith(brand)]
        names += [brand.title()] if len(own) == 2 or own == [brand] else [p.title() for p in own]
    return "_".join(name.replace("large", "Large").replace("small", "Small") for name in dict.fromkeys(names))


@pytest.fixture
def worth():
    """Worth of one image of each brand for each of four prompts and three images."""
    rng = np.random.default_rng(0)
    return {brand: rng.uniform(0.5, 2.0, size=(4, 1)) + rng.normal(0, 0.1, (4, 3)) for brand in BRANDS}


@pytest.fixture
def file(tmp_path, worth):
    """Write a file of the published layout for an additive game, in which every value is known."""

    def brand(name):
        return next(b for b in BRANDS if name.startswith(b))

    sets = [
        [part for part, bit in zip(PARTS, bits, strict=True) if bit]
        for bits in product((False, True), repeat=len(PARTS))
    ]
    group = np.stack([sum((size(p) * worth[brand(p)] for p in s), np.zeros((4, 3))) for s in sets], axis=1)
    ends = np.stack([group[:, 0], group[:, -1]], axis=1)
    pair = np.zeros((len(PLAYERS), 4, 2, N - 1, 2, 3))
    for p, player in enumerate(PLAYERS):
        own = worth[brand(player)]
        total = sum(30 * w for w in worth.values())
        others = (total - size(player) * own) / (N - size(player))
        upper = (own - others)[:, None] * swaps(N, size(player))[None, :, None]
        pair[p, :, 1] = upper[:, :, None]
    path = tmp_path / "published.npz"
    np.savez(
        path,
        group_utility=group,
        group_coalitions=np.array([coalition_name(s) for s in sets]),
        pair_utility=pair.astype(np.float32),
        ends_utility=ends,
        prompts=np.array(BRANDS),
        players=np.array(PLAYERS),
    )
    return path


def test_values_of_an_additive_game_are_known(file, worth):
    utilities = read_published(file)
    assert utilities.brands == tuple(BRANDS)
    assert utilities.parts == tuple(PARTS)
    whole = np.stack([30 * worth[brand] for brand in BRANDS])
    parts = np.stack([size(p) * worth[next(b for b in BRANDS if p.startswith(b))] for p in PARTS])
    np.testing.assert_allclose(group_shapley_values(utilities, utilities.brands), whole, rtol=1e-12)
    np.testing.assert_allclose(group_shapley_values(utilities, utilities.parts), parts, rtol=1e-12)
    # For an additive game the finite difference is exact, up to the factor n/(n - 1) that the authors leave
    # out.
    gain = whole.sum(axis=0)
    for players, exact in ((utilities.brands, whole), (utilities.parts, parts)):
        a = np.array([size(player) / N for player in players])[:, None, None]
        found = finite_difference_values(utilities, players)
        np.testing.assert_allclose(a * gain + (found - a * gain) * N / (N - 1), exact, rtol=1e-5)


def test_group_values_add_up_on_any_table(file):
    with np.load(file) as arrays:
        content = dict(arrays)
    content["group_utility"] = np.random.default_rng(1).normal(size=content["group_utility"].shape)
    np.savez(file, **content)
    utilities = read_published(file)
    names = content["group_coalitions"].tolist()
    gain = content["group_utility"][:, names.index("full")] - content["group_utility"][:, names.index("null")]
    for players in (utilities.brands, utilities.parts):
        np.testing.assert_allclose(group_shapley_values(utilities, players).sum(axis=0), gain, rtol=1e-9)


def test_the_experiment_writes_shares_and_a_figure(file, experiment, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table, record = experiment("published", tmp_path / "out", file)
    assert len(table) == 4 * (4 + 6 + 4 + 6)
    np.testing.assert_allclose(table.groupby(["rule", "scenario", "prompt"])["share"].sum(), 1)
    assert list(record["gain"]) == BRANDS
    assert table[table.player == "spritesmall"]["provider"].unique().tolist() == ["sprite"]
    assert "U(N) - U(0)" in capsys.readouterr().out
    assert (tmp_path / "out" / "published.png").exists()


def test_jackknife_errors_are_those_of_a_mean_where_shares_are_means():
    values = np.random.default_rng(3).uniform(1, 2, size=(1, 2, 20))
    both = np.concatenate([values, 5 - values])  # a constant sum: shares are means over images
    share, error = clipped_shares(both)
    np.testing.assert_allclose(share[0], (values[0] / 5).mean(axis=-1))
    np.testing.assert_allclose(error[0], (values[0] / 5).std(axis=-1, ddof=1) / np.sqrt(20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("ends_utility"), "has no ends_utility"),
        (lambda c: c["pair_utility"].fill(np.nan), "pair_utility has numbers that are not finite"),
        (lambda c: c["group_coalitions"].__setitem__(3, "Pepsi"), "names 'pepsi'"),
    ],
)
def test_a_file_of_another_layout_is_refused(file, change, message):
    with np.load(file) as arrays:
        content = dict(arrays)
    change(content)
    np.savez(file, **content)
    with pytest.raises(ValueError, match=message):
        group_shapley_values(read_published(file), tuple(BRANDS))
