"""The copyright experiment at a tiny size: what it writes, finds again, and reports."""

import json

import numpy as np
import pytest
from tiny_diffusion import tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.torch]

BRANDS = ["google", "sprite", "starbucks", "vodafone"]
PARTS = ["googlelarge", "googlesmall", "spritelarge", "spritesmall", "starbucks", "vodafone"]


@pytest.fixture(scope="module")
def tiny():
    """Return a scale at which the whole experiment takes seconds: 12 images, 4 x 4 latents."""
    pytest.importorskip("diffusers")
    from fgsv.experiments.copyright.scale import Scale
    from fgsv.experiments.copyright.small_model import Pretraining
    from fgsv.utilities.diffusion.game import Settings

    return Scale(
        per_brand=3,
        large=2,
        generated=2,
        model=tiny_model(8),
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


@pytest.fixture
def without_figures(monkeypatch):
    """Let a run that repeats `finished` not draw its figures again."""
    monkeypatch.setattr("fgsv.experiments.copyright.report._draw", lambda *_: None)


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


@pytest.mark.usefixtures("without_figures")
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


@pytest.mark.usefixtures("without_figures")
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
    assert f"stopped after 32 evaluations: {reason}" in capsys.readouterr().out
    shares = json.loads((tmp_path / "again" / "shares.json").read_text())
    assert (shares["stopped"], shares["n_evaluations"]) == (reason, 32)
    valuation = fgsv.Valuation.load(tmp_path / "again" / "valuation.json")
    assert (str(valuation.end), valuation.end.reason) == (reason, "target" if max_seconds is None else "time")
    assert valuation.settings.needs == ("stop",)

    def same_rule(progress):
        return reason

    same_rule.reason = valuation.end.reason
    assert verify(valuation, tmp_path / "again" / "ledger.db", stop=same_rule) == []


def test_a_checkpoint_is_tuned_on_the_other_brands_first(finished, tiny, tmp_path):
    from fgsv.experiments.copyright.experiment import base_model
    from fgsv.experiments.workspace import Workspace
    from fgsv.utilities.diffusion.model import load_model

    out, _ = finished
    workspace = Workspace.of(tmp_path, "cpu", "auto", quiet=True)
    model, logos = base_model(workspace, tiny, checkpoint=str(out / "model"))
    assert len(logos) == 27 * 3
    before = load_model(out / "model").unet.state_dict()
    changed = {name for name, weight in model.unet.state_dict().items() if not weight.equal(before[name])}
    assert changed
    assert all(".to_" in name for name in changed)


def test_what_is_missing_is_reported_before_training(tiny, tmp_path):
    import torch

    from fgsv.experiments.copyright.experiment import run

    with pytest.raises(ValueError, match="precision 'half' is unknown"):
        run(tmp_path, scale=tiny, precision="half", quiet=True)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"finds no CUDA GPU here; use device=.cpu"):
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
