"""Text-to-image diffusion models, made of the parts of diffusers: loading, saving, encoding and decoding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fgsv.packages import optional
from fgsv.types import Images

PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
CHUNK_PIXELS = 2**21
"""Pixels that the autoencoder takes at once: 8 images of 512 x 512."""


@dataclass(frozen=True, eq=False)
class DiffusionModel:
    """The parts of a latent diffusion model with text prompts, from diffusers and transformers."""

    unet: Any
    vae: Any
    text_encoder: Any
    tokenizer: Any
    scheduler: Any
    """A DDPMScheduler; a checkpoint's scheduler of another type is loaded as a DDPMScheduler with the same noise."""

    @property
    def device(self) -> torch.device:
        """The device of the UNet."""
        return next(iter(self.unet.parameters())).device

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """The (channels, height, width) of the UNet's latents."""
        side = int(self.unet.config.sample_size)
        return int(self.unet.config.in_channels), side, side

    @property
    def image_size(self) -> int:
        """The height and width of images with latents of `latent_shape`."""
        return self.latent_shape[1] * 2 ** (len(self.vae.config.block_out_channels) - 1)

    @property
    def _chunk(self) -> int:
        return max(1, CHUNK_PIXELS // self.image_size**2)

    def to(self, device: str | torch.device, dtype: torch.dtype | None = None) -> DiffusionModel:
        """Move the parts to a device; `dtype` is the UNet's precision, the other parts stay in float32."""
        unet = self.unet.to(device)
        if dtype is not None and dtype != unet.dtype:
            unet = torch.nn.Module.to(unet, dtype)  # diffusers' own `to` logs a warning that does not apply
        return replace(self, unet=unet, vae=self.vae.to(device), text_encoder=self.text_encoder.to(device))

    def tokens(self, prompts: Sequence[str]) -> torch.Tensor:
        """Return (n, tokens) token numbers, padded or truncated to the model's length."""
        tokens: torch.Tensor = self.tokenizer(
            list(prompts),
            padding="max_length",
            truncation=True,
            max_length=self.tokenizer.model_max_length,
            return_tensors="pt",
        ).input_ids
        return tokens.to(self.device)

    @torch.no_grad()
    def embed(self, prompts: Sequence[str]) -> torch.Tensor:
        """Return the (n, tokens, d) text embeddings of the prompts, in float32."""
        embedded: torch.Tensor = self.text_encoder(self.tokens(prompts))[0]
        return embedded.float()

    @torch.no_grad()
    def encode(self, images: Images) -> torch.Tensor:
        """Return the (n, C, H, W) latents of images: the mean of the encoder's distribution, scaled."""
        chunk = self._chunk
        pieces = [
            self.vae.encode(as_pixels(images[i : i + chunk], self.device)).latent_dist.mode()
            for i in range(0, len(images), chunk)
        ]
        return torch.cat(pieces) * self.vae.config.scaling_factor

    @torch.no_grad()
    def decode(self, latents: torch.Tensor) -> Images:
        """Return the images of (n, C, H, W) latents, as (n, height, width, 3) bytes."""
        scaled = latents.to(self.device, torch.float32) / self.vae.config.scaling_factor
        chunk = self._chunk
        pieces = [self.vae.decode(scaled[i : i + chunk]).sample for i in range(0, len(scaled), chunk)]
        pixels = torch.cat(pieces).clamp(-1, 1).add(1).mul(127.5).round()
        return pixels.permute(0, 2, 3, 1).to("cpu", torch.uint8).numpy()

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder that `load_model` and diffusers' StableDiffusionPipeline read."""
        diffusers, _ = libraries()
        folder = Path(folder)
        index: dict[str, Any] = {
            "_class_name": "StableDiffusionPipeline",
            "_diffusers_version": diffusers.__version__,
            "feature_extractor": [None, None],
            "safety_checker": [None, None],
            "requires_safety_checker": False,
        }
        for name in PARTS:
            part = getattr(self, name)
            part.save_pretrained(folder / name)
            library = "transformers" if name in ("text_encoder", "tokenizer") else "diffusers"
            index[name] = [library, type(part).__name__]
        (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


def libraries() -> tuple[ModuleType, ModuleType]:
    """Import and return diffusers and transformers, when they are used: they take seconds to load."""
    diffusers = optional("diffusers", "diffusion models", "diffusion")
    return diffusers, optional("transformers", "diffusion models", "diffusion")


def as_pixels(images: Images, device: torch.device) -> torch.Tensor:
    """Return (n, 3, height, width) floats between -1 and 1."""
    return torch.as_tensor(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2).float() / 127.5 - 1


def load_model(path_or_id: str | Path) -> DiffusionModel:
    """Load a Stable Diffusion checkpoint from a folder or, such as CompVis/stable-diffusion-v1-4, from the hub."""
    diffusers, transformers = libraries()
    name = str(path_or_id)
    classes = {
        "unet": diffusers.UNet2DConditionModel,
        "vae": diffusers.AutoencoderKL,
        "text_encoder": transformers.CLIPTextModel,
        "tokenizer": transformers.CLIPTokenizer,
        "scheduler": diffusers.DDPMScheduler,
    }
    try:
        parts = {part: kind.from_pretrained(name, subfolder=part) for part, kind in classes.items()}
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot load the model {name!r}: {error}\nexpected a folder, or a name on the hub, with the parts "
            f"{', '.join(PARTS)} of a Stable Diffusion checkpoint"
        ) from error
    model = DiffusionModel(**parts)
    for part in (model.unet, model.vae, model.text_encoder):
        part.requires_grad_(False).eval()
    width = model.text_encoder.config.hidden_size
    expected = model.unet.config.cross_attention_dim
    if width != expected:
        raise ValueError(f"the model {name!r} has text embeddings of {width} numbers, but its UNet takes {expected}")
    return model
