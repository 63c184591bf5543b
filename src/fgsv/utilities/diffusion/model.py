"""Text-to-image diffusion models made of diffusers' own parts: loaded from a checkpoint, or built small."""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fgsv.types import Images

PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
CHUNK_PIXELS = 2**21
"""Pixels that go through the autoencoder at once: 8 images of 512 x 512."""


@dataclass(frozen=True, eq=False)
class DiffusionModel:
    """The parts of a latent diffusion model with text conditioning, of diffusers and transformers."""

    unet: Any
    vae: Any
    text_encoder: Any
    tokenizer: Any
    scheduler: Any
    """A DDPMScheduler; other schedulers of a checkpoint are read as one of the same noise."""

    @property
    def device(self) -> torch.device:
        """Where the UNet is."""
        return next(iter(self.unet.parameters())).device

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """The (channels, height, width) that the UNet was made for."""
        side = int(self.unet.config.sample_size)
        return int(self.unet.config.in_channels), side, side

    @property
    def image_size(self) -> int:
        """The height and width of the images that belong to `latent_shape`."""
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
        """Return (n, tokens) token numbers, padded to the model's length."""
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
        latents: torch.Tensor = torch.cat(pieces) * self.vae.config.scaling_factor
        return latents

    @torch.no_grad()
    def decode(self, latents: torch.Tensor) -> Images:
        """Return the images of (n, C, H, W) latents, as (n, height, width, 3) bytes."""
        scaled = latents.to(self.device, torch.float32) / self.vae.config.scaling_factor
        chunk = self._chunk
        pieces = [self.vae.decode(scaled[i : i + chunk]).sample for i in range(0, len(scaled), chunk)]
        pixels = torch.cat(pieces).clamp(-1, 1).add(1).mul(127.5).round()
        images: Images = pixels.permute(0, 2, 3, 1).to("cpu", torch.uint8).numpy()
        return images

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder that `load_model` and diffusers' StableDiffusionPipeline read."""
        import diffusers

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


def as_pixels(images: Images, device: torch.device) -> torch.Tensor:
    """Return (n, 3, height, width) floats between -1 and 1."""
    return torch.as_tensor(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2).float() / 127.5 - 1


def load_model(path_or_id: str | Path) -> DiffusionModel:
    """Load a Stable Diffusion checkpoint, such as CompVis/stable-diffusion-v1-4, from a folder or the hub."""
    diffusers, transformers = _libraries()
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
    width, expected = model.text_encoder.config.hidden_size, model.unet.config.cross_attention_dim
    if width != expected:
        raise ValueError(f"the model {name!r} has text embeddings of {width} numbers, but its UNet takes {expected}")
    return model


@dataclass(frozen=True)
class SmallModel:
    """The sizes of the model that is trained here where no checkpoint is to be had."""

    image_size: int = 64
    autoencoder_channels: tuple[int, ...] = (32, 64, 64, 64)
    channels: tuple[int, ...] = (64, 128)
    layers: int = 1
    text_width: int = 64
    text_layers: int = 2
    heads: int = 2
    norm_groups: int = 16


def build_model(sizes: SmallModel, seed: int = 0) -> DiffusionModel:
    """Build a model with random weights of Stable Diffusion's own classes, but small.

    The tokenizer spells words letter by letter; the noise schedule is Stable Diffusion's.
    """
    diffusers, transformers = _libraries()
    tokenizer = spelling_tokenizer()
    levels = len(sizes.channels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vae = diffusers.AutoencoderKL(
            block_out_channels=sizes.autoencoder_channels,
            down_block_types=("DownEncoderBlock2D",) * len(sizes.autoencoder_channels),
            up_block_types=("UpDecoderBlock2D",) * len(sizes.autoencoder_channels),
            latent_channels=4,
            norm_num_groups=sizes.norm_groups,
            layers_per_block=1,
            sample_size=sizes.image_size,
            mid_block_add_attention=False,
        )
        unet = diffusers.UNet2DConditionModel(
            sample_size=sizes.image_size // 2 ** (len(sizes.autoencoder_channels) - 1),
            block_out_channels=sizes.channels,
            layers_per_block=sizes.layers,
            down_block_types=("CrossAttnDownBlock2D",) * levels,
            up_block_types=("CrossAttnUpBlock2D",) * levels,
            cross_attention_dim=sizes.text_width,
            attention_head_dim=sizes.heads,  # by its name the width of a head, in effect their number
            norm_num_groups=sizes.norm_groups,
        )
        text_encoder = transformers.CLIPTextModel(
            transformers.CLIPTextConfig(
                vocab_size=len(tokenizer),
                hidden_size=sizes.text_width,
                intermediate_size=2 * sizes.text_width,
                num_hidden_layers=sizes.text_layers,
                num_attention_heads=4,
                max_position_embeddings=tokenizer.model_max_length,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
    scheduler = diffusers.DDPMScheduler(
        num_train_timesteps=1000,
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        steps_offset=1,
        clip_sample=False,
    )
    return DiffusionModel(unet, vae, text_encoder, tokenizer, scheduler)


def spelling_tokenizer(length: int = 24) -> Any:
    """Return a CLIPTokenizer without merges: one token a character, and another for the last of a word."""
    _, transformers = _libraries()
    characters = string.ascii_lowercase + string.digits + string.punctuation
    tokens = [*characters, *(f"{character}</w>" for character in characters)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    special = {"bos_token": tokens[-2], "eos_token": tokens[-1], "unk_token": tokens[-1], "pad_token": tokens[-1]}
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "vocab.json": json.dumps({token: number for number, token in enumerate(tokens)}),
            "merges.txt": "#version: 0.2\n",
            "tokenizer_config.json": json.dumps(
                {"tokenizer_class": "CLIPTokenizer", "model_max_length": length, **special}
            ),
        }
        for name, content in files.items():
            (Path(folder) / name).write_text(content)
        return transformers.CLIPTokenizer.from_pretrained(folder)


def _libraries() -> tuple[Any, Any]:
    try:
        import diffusers
        import transformers
    except ImportError as error:
        raise ImportError("diffusion models need diffusers: pip install 'fgsv[diffusion]'") from error
    return diffusers, transformers
