"""The small diffusion model that the copyright experiment trains where it has no Stable Diffusion checkpoint."""

from __future__ import annotations

import json
import string
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fgsv.utilities.diffusion.model import DiffusionModel, libraries


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
    diffusers, transformers = libraries()
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


def spelling_tokenizer(length: int = 24) -> Any:
    """Return a CLIPTokenizer without merges: a token for each character, and another for it at the end of a word."""
    _, transformers = libraries()
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
