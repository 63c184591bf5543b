"""Adapters trained per second: B at a time against one after another with peft, as a ratio.

    python benchmarks/adapters.py                      # on a GPU: 12M and 860M UNets, bfloat16 and float32
    python benchmarks/adapters.py --device cpu --models tiny --counts 1,8 --seconds 1

One step is forward, backward and AdamW at batch 4 an adapter, 32 x 32 latents. Both sides start from cached
latents and text embeddings. The share of the matrix rate is the step's matrix and convolution operations,
counted by `torch.utils.flop_counter`, per second, over that of a large square matrix product in the same
precision. In float32 it can exceed one: by torch's defaults matrix products are in full precision, convolutions in
TF32.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from fgsv.packages import optional
from fgsv.utilities.adapters.layers import adapt
from fgsv.utilities.adapters.training import AdamW, Training
from fgsv.utilities.diffusion.fine_tuning import TARGETS, denoising_losses

BATCH, LATENT = 4, 32
MODELS: dict[str, dict[str, Any]] = {
    "tiny": {"block_out_channels": (32, 64), "layers_per_block": 1, "cross_attention_dim": 32},
    "12M": {"block_out_channels": (64, 128, 192), "layers_per_block": 2, "cross_attention_dim": 256},
    "860M": {"block_out_channels": (320, 640, 1280, 1280), "layers_per_block": 2, "cross_attention_dim": 768},
}


def build(name: str, dtype: torch.dtype, device: str) -> torch.nn.Module:
    """Return a UNet of random weights with the blocks of Stable Diffusion v1."""
    settings = MODELS[name]
    levels = len(settings["block_out_channels"])
    torch.manual_seed(0)
    with torch.device(device):
        unet = optional("diffusers", "these models", "diffusion").UNet2DConditionModel(
            sample_size=LATENT,
            attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D",) * (levels - 1) + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * (levels - 1),
            **settings,
        )
    # the plain `to`: diffusers' own logs a warning that does not apply
    return torch.nn.Module.to(unet, dtype).requires_grad_(False).eval()


def inputs(n: int, width: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    """Return noisy latents, timesteps, text embeddings of 77 tokens and the noise to predict."""
    generator = torch.Generator(device).manual_seed(1)
    make: dict[str, Any] = {"generator": generator, "device": device}
    return (
        torch.randn(n, 4, LATENT, LATENT, **make).to(dtype),
        torch.randint(0, 1000, (n,), **make),
        torch.randn(n, 77, width, **make).to(dtype),
        torch.randn(n, 4, LATENT, LATENT, **make).to(dtype),
    )


def seconds_per_call(step: Callable[[], object], device: str, seconds: float) -> float:
    """Return the median time of a call after warm-up, over about `seconds` and at least 5 calls."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    wait()
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        start = time.perf_counter()
        step()
        wait()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def operations(step: Callable[[], object]) -> int:
    """Count the floating-point operations of matrix products, convolutions and attention in one call.

    Attention is made of matrix products for it: torch's counter refuses fused kernels whose queries share keys.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def matrix_rate(dtype: torch.dtype, device: str) -> float:
    """Measure the operations per second of a large square matrix product."""
    n = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 / seconds_per_call(lambda: left @ right, device, 0.3)


def peft_step(unet: torch.nn.Module, width: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """Return one training step of a single adapter, as written with peft and torch's own AdamW."""
    from peft import LoraConfig, inject_adapter_in_model

    model = inject_adapter_in_model(LoraConfig(r=8, lora_alpha=8, target_modules=list(TARGETS)), unet)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-4)
    noisy, timesteps, prompts, target = inputs(BATCH, width, dtype, device)

    def step() -> None:
        optimiser.zero_grad()
        predicted = model(noisy, timesteps, encoder_hidden_states=prompts).sample
        torch.autograd.backward(torch.nn.functional.mse_loss(predicted.float(), target.float()))
        optimiser.step()

    return step


def batched_step(
    unet: torch.nn.Module, count: int, width: int, dtype: torch.dtype, device: str, variant: str
) -> Callable[[], object]:
    """Return one training step of `count` adapters at once."""
    adapted = adapt(unet, targets=TARGETS)
    noisy, timesteps, prompts, target = inputs(BATCH * count, width, dtype, device)
    if "channels_last" in variant:
        unet.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub forgets it
        noisy = noisy.contiguous(memory_format=torch.channels_last)
    unet.forward = (
        torch.compile(type(unet).forward.__get__(unet))
        if "compile" in variant
        else (type(unet).forward.__get__(unet))
    )
    start, losses = adapted.initial(0).repeat(count, 1), partial(denoising_losses, unet)
    training = Training(adapted, start, AdamW(), losses, record="recorded" in variant)
    valid = torch.ones(count, BATCH, dtype=torch.bool, device=device)
    step = (noisy, timesteps, prompts, target, valid)
    return lambda: training.step(step, torch.ones(count, device=device))


def measure(name: str, dtype: torch.dtype, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one model in one precision over the numbers of adapters and the variants; print as it goes."""
    device, width = options.device, MODELS[name]["cross_attention_dim"]
    unet = build(name, dtype, device)
    size = sum(weight.numel() for weight in unet.parameters()) / 1e6
    rate = matrix_rate(dtype, device)
    single = peft_step(copy.deepcopy(unet), width, dtype, device)
    one = seconds_per_call(single, device, options.seconds)
    per_adapter = operations(single)
    words = str(dtype).removeprefix("torch.")
    print(f"\n{name} UNet, {size:.1f}M parameters, {words}; large matrix product {rate / 1e12:.1f} TFLOP/s")
    print(f"peft, one at a time: {one * 1e3:.2f} ms a step, {1 / one:.1f} adapters a second")
    print(f"{'variant':>24}{'B':>6}{'ms a step':>12}{'adapters/s':>12}{'ratio':>8}{'matrix rate':>13}{'GiB':>7}")
    rows = []
    del single
    for variant in options.variants.split(","):
        for count in (int(count) for count in options.counts[name].split(",")):
            try:
                if device == "cuda":
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
                step = batched_step(unet, count, width, dtype, device, variant)
                took = seconds_per_call(step, device, options.seconds)
            except torch.OutOfMemoryError:
                print(f"{variant:>24}{count:>6}   does not fit in memory")
                break
            except Exception as error:  # a compiler that is not there must not lose the other rows
                print(f"{variant:>24}{count:>6}   failed: {type(error).__name__}: {str(error)[:200]}")
                break
            share = count * per_adapter / took / rate
            memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
            ratio = count * one / took
            print(
                f"{variant:>24}{count:>6}{took * 1e3:>12.2f}{count / took:>12.1f}"
                f"{ratio:>8.1f}{share:>13.1%}{memory:>7.1f}",
                flush=True,
            )
            rows.append(
                {
                    "model": name,
                    "parameters": size,
                    "precision": words,
                    "variant": variant,
                    "adapters": count,
                    "one_at_a_time_ms": one * 1e3,
                    "step_ms": took * 1e3,
                    "ratio": ratio,
                    "matrix_share": share,
                    "matrix_rate": rate,
                    "gib": memory,
                }
            )
            del step
    return rows


def main() -> None:
    """Parse the options, measure, and print the best ratio of each model and precision."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", default="12M,860M")
    parser.add_argument("--precisions", default="bfloat16,float32")
    parser.add_argument("--variants", default="eager", help="of eager, recorded, channels_last, compile")
    parser.add_argument("--counts", default=None, help="numbers of adapters, for every model alike")
    parser.add_argument("--seconds", type=float, default=1.5, help="time spent on each measurement")
    parser.add_argument("--json", type=Path, default=None, help="where to write the rows")
    options = parser.parse_args()
    default = {"tiny": "1,4", "12M": "16,64,256,512", "860M": "4,16,32,64"}
    options.counts = {name: options.counts or default[name] for name in MODELS}
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}")
    rows: list[dict[str, Any]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for name in options.models.split(","):
            for precision in options.precisions.split(","):
                rows += measure(name, getattr(torch, precision), options)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
    print("\nbest ratio of each")
    for model, precision in dict.fromkeys((row["model"], row["precision"]) for row in rows):
        best = max(
            (row for row in rows if (row["model"], row["precision"]) == (model, precision)),
            key=lambda row: row["ratio"],
        )
        print(
            f"{model:>6} {precision:<9} {best['ratio']:6.1f} times at B = {best['adapters']} "
            f"({best['variant']}), "
            f"{best['matrix_share']:.1%} of the matrix rate"
        )


if __name__ == "__main__":
    main()
