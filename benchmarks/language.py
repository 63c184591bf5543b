"""Adapters of language models per second: many trained at once, over peft one at a time.

Llama-shaped models with random weights, LoRA of rank 8 on the attention projections, batches of 4 sequences. A step
of peft is uncompiled, with torch's own AdamW. The share of the matrix rate is the step's matrix operations, counted
by `torch.utils.flop_counter`, per second, over that of a large square matrix product in the same precision. The
seconds of compilation, or of recording, are apart: they are what the first step takes longer, under "before s".
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.adapters import matrix_rate, operations, seconds_per_call
from fgsv.packages import optional
from fgsv.utilities.adapters.layers import adapt
from fgsv.utilities.adapters.training import AdamW, Training
from fgsv.utilities.language.network import Compiled, Network, use_plain_attention

BATCH = 4
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
MODELS: dict[str, tuple[dict[str, int], int]] = {
    "2M": ({"vocab_size": 2048, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4}, 6),
    "27M": ({"vocab_size": 8192, "hidden_size": 448, "intermediate_size": 1216, "num_hidden_layers": 8}, 7),
    "1.1B": ({"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}, 32),
}
"""Sizes, and the number of heads."""
KEYS = {"1.1B": 4}
"""Heads of keys and values, where they are fewer."""
COUNTS = {
    "eager": {"2M": "1,4,16", "27M": "16,64,128", "1.1B": "8,16,32"},
    "recorded": {"2M": "4", "27M": "16,64", "1.1B": "8"},
    "compiled": {"2M": "4", "27M": "64,128", "1.1B": "16"},
}
"""Numbers of adapters at once, by variant and model."""


def build(name: str, length: int, dtype: torch.dtype, device: str) -> Any:
    """Return a model of random weights."""
    transformers = optional("transformers", "these models", "language")
    sizes, heads = MODELS[name]
    config = transformers.LlamaConfig(
        **sizes,
        num_attention_heads=heads,
        num_key_value_heads=KEYS.get(name, heads),
        max_position_embeddings=2 * length,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    return model.to(dtype).requires_grad_(False).eval()


def tokens_of(model: Any, n: int, length: int) -> torch.Tensor:
    """Return (n, length) random tokens."""
    generator = torch.Generator(model.device).manual_seed(1)
    return torch.randint(0, model.config.vocab_size, (n, length), generator=generator, device=model.device)


def peft_step(model: Any, length: int) -> Callable[[], object]:
    """Return one training step of a single adapter, as written with peft and torch's own AdamW."""
    peft = optional("peft", "the comparison", "language")
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, target_modules=list(TARGETS)))
    optimiser = torch.optim.AdamW([weight for weight in wrapped.parameters() if weight.requires_grad], lr=1e-4)
    tokens = tokens_of(model, BATCH, length)

    def step() -> None:
        optimiser.zero_grad()
        wrapped(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()

    return step


def batched_step(model: Any, count: int, length: int, variant: str) -> Callable[[], object]:
    """Return one training step of `count` adapters at once."""
    use_plain_attention(model, length)
    network = Network.of(model)
    adapted = adapt(model, rank=8, alpha=16, targets=TARGETS)
    compiled = Compiled.of(network) if variant == "compiled" else None
    losses = partial(network.losses, compiled=compiled)
    start = adapted.initial(0).repeat(count, 1)
    training = Training(adapted, start, AdamW(), losses, record=variant == "recorded", fixed=compiled is not None)
    tokens = tokens_of(model, count * BATCH, length)
    valid = torch.ones(count, BATCH, dtype=torch.bool, device=model.device)
    inputs = tokens, torch.ones_like(tokens, dtype=torch.bool), valid
    return lambda: training.step(inputs, torch.ones(count, device=model.device))


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one model over the variants and numbers of adapters; print as it goes."""
    device, length, dtype = options.device, options.length, getattr(torch, options.precision)
    model = build(name, length, dtype, device)
    size = sum(weight.numel() for weight in model.parameters()) / 1e6
    rate = matrix_rate(dtype, device)
    single = peft_step(copy.deepcopy(model), length)
    one = seconds_per_call(single, device, options.seconds)
    per_adapter = operations(single)
    del single
    print(f"\n{name}: {size:.1f}M parameters, {options.precision}, batch {BATCH} x {length} tokens")
    print(f"large matrix product {rate / 1e12:.2f} TFLOP/s; peft, one at a time: {1 / one:.1f} steps a second")
    print("   variant     B  ms a step   steps/s   ratio  matrix rate    GiB before s")
    rows = []
    for variant in options.variants.split(","):
        for count in (int(count) for count in (options.counts or COUNTS[variant][name]).split(",")):
            torch.compiler.reset()
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            try:
                step = batched_step(model, count, length, variant)
                begun = time.perf_counter()
                step()
                if device == "cuda":
                    torch.cuda.synchronize()
                first = time.perf_counter() - begun
                took = seconds_per_call(step, device, options.seconds)
            except torch.OutOfMemoryError:
                print(f"{variant:>10}{count:>6}   does not fit in memory")
                break
            except Exception as error:  # a compiler that is not there must not lose the other rows
                print(f"{variant:>10}{count:>6}   failed: {type(error).__name__}: {str(error)[:200]}")
                break
            rows.append(
                {
                    "model": name,
                    "parameters": size,
                    "precision": options.precision,
                    "variant": variant,
                    "adapters": count,
                    "peft_ms": one * 1e3,
                    "step_ms": took * 1e3,
                    "ratio": count * one / took,
                    "matrix_share": count * per_adapter / took / rate,
                    "matrix_rate": rate,
                    "gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None,
                    "before_seconds": first - took,
                }
            )
            del step
            show(rows[-1])
    return rows


def show(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    memory = f"{row['gib']:.1f}" if row["gib"] is not None else "-"
    speed = 1e3 * row["adapters"] / row["step_ms"]
    print(
        f"{row['variant']:>10}{row['adapters']:>6}{row['step_ms']:>11.2f}{speed:>10.1f}"
        f"{row['ratio']:>8.1f}{row['matrix_share']:>13.1%}{memory:>7}{row['before_seconds']:>9.1f}",
        flush=True,
    )


def main() -> None:
    """Parse the options, measure, and print the best ratio of each model."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--models", default="27M,1.1B" if on_gpu else "2M", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--precision", default="bfloat16" if on_gpu else "float32")
    parser.add_argument("--variants", default="compiled,eager,recorded" if on_gpu else "eager")
    parser.add_argument("--counts", default=None, help="numbers of adapters, for every variant and model alike")
    parser.add_argument("--length", type=int, default=256 if on_gpu else 64, help="tokens of a sequence")
    parser.add_argument("--seconds", type=float, default=1.5, help="time spent on each measurement")
    parser.add_argument("--json", type=Path, default=None, help="where to write the rows")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}")
    rows: list[dict[str, Any]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for name in options.models.split(","):
            rows += measure(name, options)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    for name in dict.fromkeys(row["model"] for row in rows):
        best = max((row for row in rows if row["model"] == name), key=lambda row: row["ratio"])
        print(f"{name}: at most {best['ratio']:.1f} times peft, at B = {best['adapters']}, {best['variant']}")


if __name__ == "__main__":
    main()
