"""Models of diffusers' own parts, saved and loaded again."""

import pytest
from heavy import Lazy, needs
from tiny_diffusion import tiny_model

pytestmark = [pytest.mark.torch, needs("torch", "diffusers", "PIL")]
torch, small_model = Lazy("torch"), Lazy("experiments.diffusion_model")
diffusion, drawn_logos = Lazy("fgsv.utilities.diffusion.model"), Lazy("experiments.drawn_logos")


def test_a_saved_model_is_loaded_again(tmp_path):
    model = small_model.build_model(tiny_model(16))
    assert model.latent_shape == (4, 8, 8)
    assert model.image_size == 16
    model.vae.register_to_config(scaling_factor=0.5)
    model.save(tmp_path / "model")
    again = diffusion.load_model(tmp_path / "model")
    torch.testing.assert_close(again.embed(["A logo by Ford"]), model.embed(["A logo by Ford"]))
    images = drawn_logos.draw_logos(1, 16).images[:3]
    latents = again.encode(images)
    torch.testing.assert_close(latents, model.encode(images))
    assert again.decode(latents).shape == (3, 16, 16, 3)
    assert again.scheduler.config.num_train_timesteps == 1000
    for weight in again.unet.parameters():
        assert not weight.requires_grad


def test_what_is_not_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot load the model"):
        diffusion.load_model(tmp_path)
