"""The references of commands and of Python: generated text, in the repository for readers of a clone.

`python docs/hooks.py` writes it into docs/cli.md and docs/api.md; `tests/docs/test_reference.py` checks that it is
up to date. As a hook of mkdocs, this file puts the full reference there instead.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
COMMANDS = "<!-- commands: written by docs/hooks.py -->"
NAME = re.compile(r"^(?:<!-- )?::: (\S+?)(?: -->)?\n(?:(?!^(?:<!-- )?::: |^## ).*\n)*", re.MULTILINE)
"""A name of the Python reference and the text about it, up to the next name or heading."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the full reference where a page has the generated one."""
    if COMMANDS in markdown:
        return with_commands(markdown)
    return NAME.sub(lambda found: f"::: {found[1]}\n", markdown)


def with_commands(page: str) -> str:
    """Return the page of the command line with the reference of every command."""
    return f"{page.partition(COMMANDS)[0]}{COMMANDS}\n\n{reference().rstrip()}\n"


def with_names(page: str) -> str:
    """Return the page of the Python package with a signature and a sentence for every name."""
    return NAME.sub(lambda found: f"<!-- ::: {found[1]} -->\n{_described(found[1])}\n\n", page).rstrip() + "\n"


def _described(path: str) -> str:
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        break
    if not callable(found) or not found.__module__.startswith("fgsv"):  # a constant, or a type of another package
        return f"**`{path}`**"
    sentence = inspect.cleandoc(found.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if inspect.isclass(found) and not is_dataclass(found):
        return f"**`{path}`**: {sentence}"
    parameters = inspect.signature(found).parameters.values()
    words = [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters]
    words = [word.replace(import_module("fgsv").__version__, "...") for word in words]
    kinds = [parameter.kind for parameter in parameters]
    keywords = [number for number, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words.insert(keywords[0], "*")
    return f"**`{path}({', '.join(words)})`**: {sentence}"


def reference() -> str:
    """Return the reference of every command as Markdown."""
    import typer

    from fgsv.cli import app

    return "\n".join(_sections(typer.main.get_command(app), "fgsv", set()))


def _sections(command: Any, name: str, of_value: set[str]) -> Iterator[str]:
    """Yield the Markdown of a command and those below it; `of_value` collects the rows of `fgsv value`."""
    from typer import Context

    from fgsv.cli.help_texts import in_sections, in_words

    subcommands = getattr(command, "commands", {})
    for sub in subcommands.values():
        yield from _sections(sub, f"{name} {sub.name}", of_value)
    if subcommands:
        return
    words, _, example = inspect.cleandoc(command.help or "").partition("Example:")
    yield f"## {name}\n\n{words.strip()}\n"
    if example:
        yield f"```sh\n{' '.join(example.split())}\n```\n"

    def row(parameter: Any) -> str:
        [written, _] = parameter.get_help_record(Context(command)) or (parameter.name.upper(), "")
        default = "required" if parameter.required else parameter.default
        if isinstance(default, (list, tuple)):
            default = ",".join(map(str, default))
        nothing = default is None or default is False or default in ("", ())  # a default of 0 is shown
        cells = [f"`{in_words(written)}`", parameter.help, "" if nothing or callable(default) else f"`{default}`"]
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    arguments = [
        parameter for parameter in command.params if parameter.param_type_name == "argument" and not parameter.hidden
    ]
    sections = in_sections(command.params)
    titles = [title for title in sections if len(sections) > 1]
    sections[next(iter(sections))][:0] = arguments
    if titles and of_value:
        same = {title: [each for each in sections[title] if row(each) in of_value] for title in titles}
        names = [f"- {title}: {', '.join(map(_names, each))}" for title, each in same.items() if each]
        yield "\n".join(["Options as for [`fgsv value`](#fgsv-value):", "", *names, ""])
        others = [each for title in titles for each in sections[title] if each not in same[title]]
        sections, titles = ({"": others} if others else {}), []
    for title, parameters in sections.items():
        rows = [row(parameter) for parameter in parameters]
        if titles:
            yield f"**{title}**\n"
        yield "\n".join(["| option | meaning | default |", "|---|---|---|", *rows, ""])
        if name == "fgsv value":
            of_value.update(rows)


def _names(parameter: Any) -> str:
    if parameter.opts[0][0] != "-":
        return f"`{parameter.name}`"
    return ", ".join(f"`{name}`" for name in parameter.opts)


if __name__ == "__main__":
    for name, updated in (("cli.md", with_commands), ("api.md", with_names)):
        page = FOLDER / name
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
