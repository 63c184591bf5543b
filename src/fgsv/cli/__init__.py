"""The command `fgsv`: options become arguments, and results become tables or JSON."""

from fgsv.cli.command_line import app, main

__all__ = ["app", "main"]
