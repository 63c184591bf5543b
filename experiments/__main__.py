"""Run an experiment by name: `python -m experiments NAME --help` shows its options, which are the arguments of `run`.

The modules are imported rather than run, so that worker processes find what they are asked to call.
"""

import sys
from importlib import import_module

import typer

EXPERIMENTS = {
    "motivation": "Figure 1: one group splits, and the value of the other falls, or not",
    "sou": "Figures 2 and 5: nine methods on the sum-of-unanimity game",
    "copyright": "Figure 3: royalties of four brands from a diffusion model",
    "published": "Figure 3 again, from the utilities that the paper's authors published",
    "diabetes": "Figure 4: groups of patients, under seven groupings",
    "federated": "not in the paper: what ten hospitals contribute to a federated run",
    "answers": "not in the paper: whose sentences the answers of a small model rest on",
    "code": "not in the paper: whose code a small language model learns from",
}


def main(name: str, *arguments: str) -> None:
    """Run an experiment, or list all of them."""
    if name not in EXPERIMENTS:
        print("usage: python -m experiments NAME [--help]\n")
        print("\n".join(f"{each:<12}{about}" for each, about in EXPERIMENTS.items()))
        sys.exit(name != "--help")
    import_module("matplotlib")  # for the figures: a missing package is reported before the work, not after it
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(import_module(f"experiments.{name}").run)
    app(arguments, f"python -m experiments {name}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["--help"])
