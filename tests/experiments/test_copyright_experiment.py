"""The copyright experiment at a tiny size: what it writes, finds again, and reports."""

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
    from experiments.copyright import Scale
    from experiments.diffusion_model import Pretraining
    from fgsv.utilities.diffusion.fine_tuning import Settings

    return Scale(
        per_brand=3,
        large=2,
        generated=2,
        model=tiny_model(8),
        pretraining=Pretraining(autoencoder_steps=2, autoencoder_batch=8, steps=2, batch=8),
        settings=Settings(rank=2, learning_rate=1e-2, epochs=1, denoising_steps=2, trajectories=2),
        stderr=1e-9,
        budget=66,
    )


@pytest.fixture(scope="module")
def finished(tiny, experiment, tmp_path_factory):
    out = tmp_path_factory.mktemp("copyright")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.copyright.SMALL", tiny)
        yield out, *experiment("copyright", out, "--small", "--device", "cpu")


def test_the_experiment_writes_everything(finished):
    out, table, record = finished
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "copyright.json", "copyright.csv", "copyright.png", "copyright_clipped.png", "valuation.json", "ledger.db",
        "model", "generated.npy", "generated.png", "generated_before.png", "players.png",
    }  # fmt: skip
    assert 34 <= record["evaluations"] <= 66
    assert record["stopped"].startswith("budget of 66 reached")
    assert sorted(set(table[table.scenario == "split"].player)) == PARTS
    assert record["split minus whole"] < 1e-9 * max(map(abs, record["gain"].values()))
    sums = table.groupby(["prompt", "rule", "scenario"])[["share", "clipped"]].sum(min_count=1)
    for brand in BRANDS:
        expected = 1 if record["gain"][brand] > 0 else np.nan
        np.testing.assert_allclose(sums.loc[brand, "share"], expected)
    assert (table[table.rule == "SRS"]["stderr"].dropna() == 0).all()


def test_a_checkpoint_is_tuned_on_the_other_brands_first(finished, tiny, tmp_path):
    import torch

    from experiments.copyright import base_model
    from fgsv.utilities.diffusion.model import load_model

    out, *_ = finished
    model, logos = base_model(tmp_path, tiny, torch.device("cpu"), torch.float32, checkpoint=str(out / "model"))
    assert len(logos.images) == 27 * 3
    before = load_model(out / "model").unet.state_dict()
    changed = {name for name, weight in model.unet.state_dict().items() if not weight.equal(before[name])}
    assert changed
    assert all(".to_" in name for name in changed)


def test_a_merged_adapter_is_the_adapter():
    pytest.importorskip("diffusers")
    import torch

    from experiments.copyright import TARGETS, adapt, merged
    from experiments.diffusion_model import build_model

    model = build_model(tiny_model(8))
    adapted = adapt(model.unet, rank=2, alpha=4, targets=TARGETS)
    weights = 0.1 * torch.randn(adapted.n_weights, generator=torch.Generator().manual_seed(0))
    inputs = torch.ones(1, *model.latent_shape), torch.tensor([5]), model.embed(["A logo by Red"])
    with adapted.using(weights[None]) as unet:
        expected = unet(*inputs).sample
    with torch.no_grad():
        before = model.unet(*inputs).sample
        torch.testing.assert_close(merged(adapted, weights)(*inputs).sample, expected, rtol=1e-4, atol=1e-5)
    assert (before - expected).abs().max() > 1e-2


def test_what_is_missing_is_reported_before_training(tmp_path):
    pytest.importorskip("diffusers")
    import torch

    from experiments.copyright import run

    with pytest.raises(ValueError, match="precision 'half' is unknown"):
        run(tmp_path, small=True, precision="half")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no GPU; at full size this takes days"):
            run(tmp_path)
    with pytest.raises(FileNotFoundError, match="expected one"):
        run(tmp_path, small=True, images=tmp_path)
