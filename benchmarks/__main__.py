"""Run a benchmark by name.

The modules are imported rather than run, so that worker processes find what they are asked to call.
"""

import sys
from importlib import import_module

NAMES = (
    *("accuracy", "coverage", "few", "ablation", "scale", "peers", "explain", "product", "proxy", "cost", "bits"),
    *(
        "stops",
        "market",
        "months",
        "units",
        "language",
        "twin",
        "seeds",
        "errors",
        "seal",
        "attacks",
        "innocents",
        "chosen",
    ),
    "busy",
    "answers",
)

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} [--help]")
import_module(f"benchmarks.{sys.argv.pop(1)}").main()
