"""mkdocs hook: writes the command line's reference from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

PLACE = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where a page asks for it."""
    return markdown.replace(PLACE, reference()) if PLACE in markdown else markdown


def reference() -> str:
    """Return the reference of every command as Markdown."""
    import typer

    from fgsv.cli import app

    return "\n".join(_sections(typer.main.get_command(app), "fgsv"))


def _sections(command: Any, name: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", {})
    for sub in subcommands.values():
        yield from _sections(sub, f"{name} {sub.name}")
    if subcommands:
        return
    words, _, example = inspect.cleandoc(command.help or "").partition("Example:")
    yield f"## {name}\n\n{words.strip()}\n"
    if example:
        yield f"```console\n$ {' '.join(example.split())}\n```\n"
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield "\n".join(["| option | meaning | default |", "|---|---|---|", *rows, ""])


def _row(parameter: Any) -> str:
    names = (
        ", ".join(f"`{name}`" for name in parameter.opts) if parameter.opts[0][0] == "-" else f"`{parameter.name}`"
    )
    default = "required" if parameter.required else parameter.default
    nothing = default is None or default is False or default in ("", ())  # a default of 0 is shown
    shown = "" if nothing or callable(default) else f"`{default}`"
    return f"| {names} | {(parameter.help or '').replace('|', ' or ')} | {shown} |"
