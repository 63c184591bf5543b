"""The small model: its spelling tokenizer, and its training from scratch."""

import pytest
from heavy import Lazy, needs
from tiny_diffusion import tiny_model

from experiments.drawn_logos import MARKS, draw_logos
from experiments.logos import prompt

pytestmark = [pytest.mark.torch, needs("diffusers", "PIL")]
small_model = Lazy("experiments.diffusion_model")


def test_the_tokenizer_spells():
    tokenizer = small_model.spelling_tokenizer()
    prompts = [prompt(mark.brand) for mark in MARKS]
    tokens = tokenizer(prompts, padding="max_length", truncation=True, max_length=24).input_ids
    assert len({tuple(row) for row in tokens}) == 27
    assert tokenizer(["A logo by Google"]).input_ids == tokenizer(["a LOGO by google"]).input_ids


def test_training_lowers_both_losses():
    logos = draw_logos(2, 16)
    model = small_model.build_model(tiny_model(16))
    settings = small_model.Pretraining(
        autoencoder_steps=30, autoencoder_batch=8, autoencoder_rate=5e-3, steps=30, batch=8, rate=3e-3
    )
    of_images = small_model.train_autoencoder(model, logos.images, settings)
    assert model.encode(logos.images).std().item() == pytest.approx(1, abs=0.1)
    of_noise = small_model.train_denoiser(model, logos.images, [prompt(brand) for brand in logos.brands], settings)
    for losses in (of_images, of_noise):
        assert len(losses) == 30
        assert losses[-5:].mean() < 0.8 * losses[:5].mean()
    assert not any(weight.requires_grad for weight in model.unet.parameters())
