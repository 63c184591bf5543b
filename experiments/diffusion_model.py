"""The small diffusion model that the copyright experiment uses without a Stable Diffusion checkpoint.

It is built of Stable Diffusion's own classes and trained from scratch: its autoencoder, then its UNet and text
encoder together.
"""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from experiments.training import minimise, mixed_precision, shuffled
from fgsv.types import Images
from fgsv.utilities.diffusion.model import DiffusionModel, as_pixels


@dataclass(frozen=True)
class SmallModel:
    """The sizes of the model."""

    image_size: int = 64
    autoencoder_channels: tuple[int, ...] = (32, 64, 64, 64)
    channels: tuple[int, ...] = (64, 128)
    layers: int = 1
    text_width: int = 64
    text_layers: int = 2
    heads: int = 2
    norm_groups: int = 16


def build_model(sizes: SmallModel, seed: int = 0) -> DiffusionModel:
    """Build a model of Stable Diffusion's own classes, small and with random weights.

    The tokenizer spells words letter by letter; the noise schedule is Stable Diffusion's.
    """
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
            attention_head_dim=sizes.heads,  # diffusers takes it as the number of heads, despite its name
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


def spelling_tokenizer() -> Any:
    """Return a CLIPTokenizer without merges: a token for each character, and another for it at the end of a word."""
    characters = string.ascii_lowercase + string.digits + string.punctuation
    tokens = [*characters, *(f"{character}</w>" for character in characters)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    special = {"bos_token": tokens[-2], "eos_token": tokens[-1], "unk_token": tokens[-1], "pad_token": tokens[-1]}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 24, **special}
        files = {
            "vocab.json": json.dumps({token: number for number, token in enumerate(tokens)}),
            "merges.txt": "#version: 0.2\n",
            "tokenizer_config.json": json.dumps(settings),
        }
        for name, content in files.items():
            (Path(folder) / name).write_text(content)
        return transformers.CLIPTokenizer.from_pretrained(folder)


@dataclass(frozen=True)
class Pretraining:
    """Steps, batch sizes and learning rates."""

    autoencoder_steps: int = 1000
    autoencoder_batch: int = 96
    autoencoder_rate: float = 2e-3
    steps: int = 2000
    batch: int = 256
    rate: float = 1e-3
    dropped_prompts: float = 0.1
    """Fraction of samples trained with the empty prompt, which guidance needs."""
    seed: int = 0


def train_autoencoder(model: DiffusionModel, images: Images, settings: Pretraining) -> torch.Tensor:
    """Train the autoencoder in place, scale it so that latents have unit variance, and return the losses."""
    vae = model.vae
    device = model.device
    pixels = as_pixels(images, device)

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        with mixed_precision(device):
            latents = vae.encode(batch).latent_dist.mode()
            decoded = vae.decode(latents).sample
        # A weak penalty on large latents keeps the space compact without blurring the decoded images.
        return (decoded.float() - batch).square().mean() + 1e-4 * latents.float().square().mean()

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        generator = torch.Generator().manual_seed(settings.seed)
        for rows in shuffled(len(images), settings.autoencoder_batch, generator):
            # Colour channels in random order: after few brands, their colours must not be memorised.
            channels = torch.rand(len(rows), 3, generator=generator).argsort(dim=1)
            batch = pixels[rows.to(device)[:, None], channels.to(device)]
            # Rotated and mirrored for the same reason: new shapes have edges at other angles.
            turns, mirrored = (int(number) for number in torch.randint(0, 4, (2,), generator=generator))
            yield (batch.rot90(turns, (2, 3)).flip((3,) if mirrored % 2 else ()).contiguous(),)

    steps, rate = settings.autoencoder_steps, settings.autoencoder_rate
    losses = minimise("autoencoder", vae, loss_of, batches(), steps, rate)
    vae.register_to_config(scaling_factor=1.0)
    spread = float(model.encode(images[:1024]).std())
    vae.register_to_config(scaling_factor=1.0 / spread)
    return losses


def train_denoiser(model: DiffusionModel, images: Images, prompts: list[str], settings: Pretraining) -> torch.Tensor:
    """Train the UNet and the text encoder in place to predict the noise in latents, and return the losses."""
    device = model.device
    parts = torch.nn.ModuleList([model.unet, model.text_encoder])
    latents = model.encode(images)
    distinct = ["", *dict.fromkeys(prompts)]
    tokens = model.tokens(distinct)
    text = torch.tensor([distinct.index(prompt) for prompt in prompts])
    products = model.scheduler.alphas_cumprod.to(device)

    def loss_of(
        noisy: torch.Tensor, timesteps: torch.Tensor, which: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        with mixed_precision(device):
            embedded = model.text_encoder(tokens)[0].index_select(0, which)
            predicted = model.unet(noisy, timesteps, encoder_hidden_states=embedded).sample
        return (predicted.float() - noise).square().mean()

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        generator = torch.Generator().manual_seed(settings.seed + 1)
        for rows in shuffled(len(images), settings.batch, generator):
            noise = torch.randn(len(rows), *latents.shape[1:], generator=generator).to(device)
            timesteps = torch.randint(0, len(products), (len(rows),), generator=generator).to(device)
            dropped = torch.rand(len(rows), generator=generator) < settings.dropped_prompts
            which = torch.where(dropped, 0, text[rows]).to(device)
            product = products[timesteps][:, None, None, None]
            noisy = product.sqrt() * latents[rows.to(device)] + (1 - product).sqrt() * noise
            yield noisy, timesteps, which, noise

    return minimise("denoiser", parts, loss_of, batches(), settings.steps, settings.rate)
