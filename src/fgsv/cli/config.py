"""Options in a file: `--save-config run.toml` writes them with their words, and `--config run.toml` takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from fgsv.cli.help_texts import in_sections, in_words
from fgsv.words import printable

NOT_IN_FILES = {"config", "save-config", "help", "help-all", "force", "json"}
"""What is said of one call of a command."""
WIDTH = 100


def read(context: typer.Context, path: Path | None) -> None:
    """Let the options in a file be the defaults of a command; those that only other commands have are theirs."""
    if path is None:
        return
    import difflib
    import tomllib

    from fgsv.cli.values import FUNCTIONS

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not TOML: {error}") from None
    own = {each.opts[0].removeprefix("--"): each for each in _options(context)}
    known = {*own, *(key.replace("_", "-") for function in FUNCTIONS for key in function.options)} - NOT_IN_FILES
    context.default_map = {}
    for name, given in document.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise typer.BadParameter(f"{path} has {name!r}, which is no option for a file{meant}")
        if name in own:
            context.default_map[own[name].name] = _as_given(own[name], given, f"{path}: {name}")


def check_place(context: typer.Context) -> None:
    """Raise an error if the file for the options of a command exists."""
    path = context.params["save_config"]
    if path is not None and Path(path).exists():
        raise FileExistsError(f"{path} already exists: remove it, or give --save-config another name")


def save(context: typer.Context) -> None:
    """Write the options of a command with their words, if it is asked; those that were not given are comments."""
    import textwrap

    from fgsv.cli.options import was_given
    from fgsv.files import write_whole

    path = context.params["save_config"]
    if path is None:
        return
    lines = [f"# {printable(context.find_root().obj)}", "# To repeat it: --config. The command line comes first.", ""]
    for title, options in in_sections(_options(context)).items():
        lines += [f"# {title}", ""]
        for each in options:
            name, _, kind = in_words(each.get_help_record(context)[0]).removeprefix("--").partition(" ")
            given = was_given(context, each.name)
            value = context.params[each.name]
            lines += textwrap.wrap(each.help, WIDTH, initial_indent="# ", subsequent_indent="# ")
            lines += [f"{'' if given else '# '}{name} = {kind if value is None else _toml(value)}", ""]
    write_whole(Path(path), "\n".join(lines))


def _options(context: typer.Context) -> list[Any]:
    """Return the options of a command that a file may have."""
    options = [each for each in context.command.params if each.param_type_name == "option"]
    return [each for each in options if each.opts[0].removeprefix("--") not in NOT_IN_FILES]


def _as_given(option: Any, value: Any, place: str) -> Any:
    """Return a value of a file as text of a command line; a flag is true or false."""
    items = value if isinstance(value, list) and option.multiple else [value]
    kinds = (bool,) if option.is_flag else (str, int, float)
    if not all(isinstance(each, kinds) and (option.is_flag or not isinstance(each, bool)) for each in items):
        expected = "true or false" if option.is_flag else "a text or a number"
        raise typer.BadParameter(f"{place} must be {expected}, got {value!r:.200}")
    if option.is_flag:
        return value
    return [str(each) for each in items] if option.multiple else str(value)


def _toml(value: Any) -> str:
    r"""Return a value of an option as TOML, which has the texts of JSON.

    >>> print(_toml(True), _toml(0.01), _toml(["a", 'b "c"']))
    true 0.01 ["a", "b \"c\""]
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
