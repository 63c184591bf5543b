"""The copyright experiment without the command line's dependencies, for machines where nothing is installed.

    python benchmarks/copyright_gpu.py OUT [--device cuda] [--precision bfloat16] [--small]

It is `fgsv reproduce copyright --out OUT`; a few settings can be changed for trials.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from fgsv.experiments.copyright import FULL, SMALL, run


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--budget", type=int)
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--eager", action="store_true", help="pre-train without CUDA graphs")
    options = parser.parse_args()
    scale = SMALL if options.small else FULL
    if options.learning_rate:
        scale = replace(scale, settings=replace(scale.settings, learning_rate=options.learning_rate))
    if options.guidance:
        scale = replace(scale, settings=replace(scale.settings, guidance=options.guidance))
    if options.eager:
        scale = replace(scale, pretraining=replace(scale.pretraining, record=False))
    if options.budget:
        scale = replace(scale, budget=options.budget)
    run(
        options.out,
        device=options.device,
        precision=options.precision,
        scale=scale,
        max_seconds=options.max_seconds,
    )


if __name__ == "__main__":
    main()
