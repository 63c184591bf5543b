"""The command `fgsv`."""

from fgsv.cli.commands import app, main

__all__ = ["app", "main"]
