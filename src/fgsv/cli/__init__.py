"""The command `fgsv`."""

from fgsv.cli.command_line import app, main

__all__ = ["app", "main"]
