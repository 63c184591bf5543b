"""The small model: its spelling tokenizer, and its training from scratch."""

import numpy as np
import pytest
from heavy import Lazy, needs
from tiny_diffusion import tiny_model

from fgsv.experiments.copyright.drawn_logos import MARKS, draw_logos
from fgsv.experiments.copyright.logos import prompt

pytestmark = [pytest.mark.torch, needs("diffusers", "PIL")]
small_model = Lazy("fgsv.experiments.copyright.small_model")


def test_the_tokenizer_spells():
    tokenizer = small_model.spelling_tokenizer()
    prompts = [prompt(mark.brand) for mark in MARKS]
    tokens = tokenizer(prompts, padding="max_length", truncation=True, max_length=24).input_ids
    assert len({tuple(row) for row in tokens}) == 27
    assert tokenizer(["A logo by Google"]).input_ids == tokenizer(["a LOGO by google"]).input_ids


def test_training_lowers_both_losses():
    logos = draw_logos(2, 16)
    model = small_model.build_model(tiny_model(16))
    losses = {"autoencoder": [], "denoiser": []}
    settings = small_model.Pretraining(
        autoencoder_steps=30, autoencoder_batch=8, autoencoder_rate=5e-3, steps=30, batch=8, rate=3e-3
    )

    def report(what, step, steps, loss):
        assert 1 <= step <= steps == 30
        losses[what].append(float(loss))

    small_model.train_autoencoder(model, logos.images, settings, report)
    assert model.encode(logos.images).std().item() == pytest.approx(1, abs=0.1)
    small_model.train_denoiser(model, logos.images, [prompt(brand) for brand in logos.brands], settings, report)
    for trace in losses.values():
        assert len(trace) == 30
        assert np.mean(trace[-5:]) < 0.8 * np.mean(trace[:5])
    assert not any(weight.requires_grad for weight in model.unet.parameters())
