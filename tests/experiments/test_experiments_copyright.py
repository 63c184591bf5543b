"""The copyright experiment: shares from published utilities."""

import json
from itertools import product

import numpy as np
import pytest

from fgsv.experiments.copyright.published import (
    finite_difference_values,
    group_shapley_values,
    read_published,
    run_published,
    swaps,
)
from fgsv.experiments.copyright.royalties import clipped, linear

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
    whole = np.stack([30 * worth[brand] for brand in BRANDS], axis=1)
    parts = np.stack([size(p) * worth[next(b for b in BRANDS if p.startswith(b))] for p in PARTS], axis=1)
    np.testing.assert_allclose(group_shapley_values(utilities, utilities.brands), whole, rtol=1e-12)
    np.testing.assert_allclose(group_shapley_values(utilities, utilities.parts), parts, rtol=1e-12)
    # For an additive game the finite difference is exact, up to the factor n/(n - 1) that the authors leave
    # out.
    gain = whole.sum(axis=1, keepdims=True)
    for players, exact in ((utilities.brands, whole), (utilities.parts, parts)):
        a = np.array([size(player) / N for player in players])[None, :, None]
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
        np.testing.assert_allclose(group_shapley_values(utilities, players).sum(axis=1), gain, rtol=1e-9)


def test_run_published_writes_shares_and_figure(file, tmp_path, capsys):
    out = tmp_path / "out"
    tables = run_published(file, out)
    shares = json.loads((out / "shares.json").read_text())
    assert list(shares) == ["srs_whole", "srs_split", "fsrs_whole", "fsrs_split", "stderr"]
    assert list(shares["srs_split"]["google"]) == PARTS
    assert list(shares["stderr"]["fsrs_whole"]["vodafone"]) == BRANDS
    for name in ("srs_whole", "fsrs_split"):
        assert sum(shares[name]["sprite"].values()) == pytest.approx(1)
        assert shares[name]["sprite"]["starbucks"] == tables[name].shares[1, -2]
    assert "U(N) - U(0)" in capsys.readouterr().out
    assert (out / "copyright.png").stat().st_size > 10_000
    assert (out / "shares.csv").read_text().count("\n") == 1 + 4 * (4 + 6 + 4 + 6)


def test_jackknife_errors_are_those_of_a_mean_where_shares_are_means(file):
    from fgsv.experiments.copyright.published import royalties

    values = np.random.default_rng(3).uniform(1, 2, size=(2, 1, 20))
    both = np.concatenate([values, 5 - values], axis=1)  # a constant sum: the share is a mean over images
    table = royalties(both, ("a", "b"), ("x", "y"))
    expected = (values[:, 0] / 5).std(axis=-1, ddof=1) / np.sqrt(20)
    np.testing.assert_allclose(table.stderr[:, 0], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("ends_utility"), "has no ends_utility"),
        (lambda c: c.update(ends_utility=c["ends_utility"][:, :1]), "ends_utility has shape"),
        (lambda c: c["pair_utility"].fill(np.nan), "pair_utility holds numbers that are not finite"),
        (lambda c: c["group_coalitions"].__setitem__(3, "Pepsi"), "names 'pepsi'"),
        (lambda c: c["group_coalitions"].__setitem__(3, "null"), "1 group coalitions are missing"),
    ],
)
def test_a_file_of_another_layout_is_refused(file, change, message):
    with np.load(file) as arrays:
        content = dict(arrays)
    change(content)
    np.savez(file, **content)
    with pytest.raises(ValueError, match=message):
        read_published(file)


def test_no_file_and_no_archive(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file of published utilities"):
        read_published(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"not an \.npz file"):
        read_published(tmp_path / "text.npz")


def test_clipped_and_linear_shares():
    values = np.array([[10.0, -4.0, 6.0], [-1.0, -2.0, -3.0]])
    np.testing.assert_allclose(clipped(values), [[0.625, 0, 0.375], [0, 0, 0]])
    np.testing.assert_allclose(linear(values)[0], [10 / 12, -4 / 12, 6 / 12])


@pytest.fixture(scope="module")
def tiny():
    """Return a scale at which the whole experiment takes seconds: 12 images, 4 x 4 latents."""
    pytest.importorskip("diffusers")
    from fgsv.experiments.copyright.experiment import Scale
    from fgsv.experiments.copyright.pretraining import Pretraining
    from fgsv.experiments.copyright.small_model import SmallModel
    from fgsv.utilities.diffusion.game import Settings

    return Scale(
        per_brand=3,
        large=2,
        generated=2,
        model=SmallModel(
            image_size=8,
            autoencoder_channels=(8, 8),
            channels=(8, 16),
            text_width=8,
            text_layers=1,
            heads=4,
            norm_groups=4,
        ),
        pretraining=Pretraining(autoencoder_steps=2, autoencoder_batch=8, steps=2, batch=8),
        settings=Settings(rank=2, learning_rate=1e-2, epochs=1, denoising_steps=2, trajectories=2),
        stderr=1e-9,
        budget=66,
        round_size=32,
    )


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    from fgsv.experiments.copyright.experiment import run

    out = tmp_path_factory.mktemp("copyright")
    return out, run(out, scale=tiny, device="cpu", quiet=True)


def test_the_experiment_writes_everything(finished):
    out, tables = finished
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "shares.json", "shares.csv", "copyright.png", "copyright_clipped.png", "valuation.json", "ledger.db",
        "model", "generated.npz", "generated.png", "generated_before.png", "players.png", "group_utilities.npz",
    }  # fmt: skip
    shares = json.loads((out / "shares.json").read_text())
    assert 34 <= shares["n_evaluations"] <= 66
    assert shares["stopped"].startswith("budget of 66 reached")
    assert list(shares["fsrs_split"]["google"]) == PARTS
    assert list(shares["clipped"]) == ["srs_whole", "srs_split", "fsrs_whole", "fsrs_split"]
    assert shares["split_minus_whole"] < 1e-9 * max(map(abs, shares["gain"].values()))
    for q, query in enumerate(BRANDS):
        if shares["gain"][query] <= 0:
            assert set(shares["srs_whole"][query].values()) == {None}
            continue
        for name, table in tables.items():
            assert table.shares[q].sum() == pytest.approx(1)
            assert (table.stderr[q] == 0).all() == name.startswith("srs")
        whole, split = tables["fsrs_whole"].shares[q], tables["fsrs_split"].shares[q]
        np.testing.assert_allclose([split[0] + split[1], split[2] + split[3], *split[4:]], whole, rtol=1e-9)


def test_group_values_are_those_of_the_grouped_game(finished, tiny):
    import fgsv

    out, tables = finished
    with np.load(out / "group_utilities.npz") as file:
        values = file["values"]
    brands = fgsv.Game(lambda masks: values[masks[:, [0, 0, 1, 1, 2, 3]] @ (1 << np.arange(6))], 4)
    expected = fgsv.exact(brands).values.T
    total = (values[-1] - values[0])[:, None]
    found = tables["srs_whole"].shares
    np.testing.assert_allclose(found, np.where(total > 0, expected / total, np.nan), rtol=1e-9)


def test_a_second_run_finds_everything_again(finished, tiny, monkeypatch):
    from fgsv.experiments.copyright.experiment import run
    from fgsv.utilities.diffusion.game import DiffusionGame

    out, tables = finished

    def no(*_):
        raise AssertionError("evaluated again")

    monkeypatch.setattr(DiffusionGame, "__call__", no)
    monkeypatch.setattr(DiffusionGame, "adapters", no)
    again = run(out, scale=tiny, device="cpu", quiet=True)
    for name, table in tables.items():
        np.testing.assert_array_equal(again[name].shares, table.shares)


@pytest.mark.parametrize(
    ("change", "max_seconds", "reason"),
    [
        ({"stderr": np.inf}, None, "every share's standard error is at most inf"),
        ({}, 0.0, "another round would end after 0 seconds"),
    ],
)
def test_a_run_says_why_it_stopped(finished, tiny, tmp_path, capsys, change, max_seconds, reason):
    import shutil
    from dataclasses import replace

    import fgsv
    from fgsv.experiments.copyright.experiment import run
    from fgsv.running.verification import verify

    out, _ = finished
    shutil.copytree(out, tmp_path / "again")
    run(tmp_path / "again", scale=replace(tiny, **change), device="cpu", max_seconds=max_seconds, quiet=True)
    assert f"stopped after 34 evaluations: {reason}" in capsys.readouterr().out
    shares = json.loads((tmp_path / "again" / "shares.json").read_text())
    assert (shares["stopped"], shares["n_evaluations"]) == (reason, 34)
    valuation = fgsv.Valuation.load(tmp_path / "again" / "valuation.json")
    assert valuation.stopped == f"interrupted: {reason}"
    assert verify(valuation, tmp_path / "again" / "ledger.db") == []


def test_a_checkpoint_is_tuned_on_the_other_brands_first(finished, tiny, tmp_path):
    from fgsv.experiments.copyright.experiment import _base_model, _place
    from fgsv.utilities.diffusion.model import load_model

    out, _ = finished
    where = _place(tmp_path, "cpu", "auto", quiet=True)
    model, logos = _base_model(where, tiny, str(out / "model"), None, None)
    assert len(logos) == 27 * 3
    before = load_model(out / "model").unet.state_dict()
    changed = {name for name, weight in model.unet.state_dict().items() if not weight.equal(before[name])}
    assert changed
    assert all(".to_" in name for name in changed)


def test_what_is_lacking_is_said_first(tiny, tmp_path):
    import torch

    from fgsv.experiments.copyright.experiment import run

    with pytest.raises(ValueError, match="precision 'half' is unknown"):
        run(tmp_path, scale=tiny, precision="half", quiet=True)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no CUDA GPU here; use --device cpu"):
            run(tmp_path, scale=tiny, device="cuda", quiet=True)
        with pytest.raises(ValueError, match="finds no CUDA GPU, and at full size this takes days"):
            run(tmp_path)
    with pytest.raises(ValueError, match="cannot load the model"):
        run(tmp_path, model=str(tmp_path), device="cpu", quiet=True)
    with pytest.raises(ValueError, match="not the folder of its images"):
        run(tmp_path, scale=tiny, annotation=tmp_path / "x.txt", device="cpu", quiet=True)
    with pytest.raises(FileNotFoundError, match="expected one"):
        run(tmp_path, scale=tiny, images=tmp_path, device="cpu", quiet=True)
    (tmp_path / "x_training_set_annotation.txt").write_text("1.png Google 1 0 0 5 5\n")
    with pytest.raises(ValueError, match=r"1 of 1 images cannot be read: 1\.png"):
        run(tmp_path, scale=tiny, images=tmp_path, device="cpu", quiet=True)


def test_the_command_reads_the_published_file(file, tmp_path):
    import typer
    from typer.testing import CliRunner

    from fgsv.cli.copyright import copyright

    app = typer.Typer()
    app.command()(copyright)
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "out"), "--published", str(file)])
    assert result.exit_code == 0, result.output
    assert "fsrs_split" in result.output
    assert (tmp_path / "out" / "shares.json").is_file()
    refused = CliRunner().invoke(app, ["--out", str(tmp_path / "two"), "--published", str(file), "--small"])
    assert "takes --out and --json alone" in str(refused.exception)
    assert not (tmp_path / "two").exists()
