"""Where a benchmark writes its tables, so that a small run does not replace those of a full one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

SAME_TABLES = {"jobs", "only"}
"""Options that do not change what a table holds."""


def parsed(parser: ArgumentParser, name: str) -> Namespace:
    """Read the command line, with --out: bench-out/NAME for the defaults, bench-out/NAME-other for other options."""
    default = Path("bench-out", name)
    parser.add_argument(
        "--out", type=Path, help=f"folder (default: {default}, or {default}-other with other options)"
    )
    read = parser.parse_args()
    if read.out is None:
        others = {each for each, given in vars(read).items() if given != parser.get_default(each)} - SAME_TABLES
        read.out = Path(f"{default}-other") if others else default
    return read
