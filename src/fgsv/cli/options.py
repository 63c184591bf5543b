"""Options: each is a parameter of a public function, written once, in its signature and its Args.

A command names the functions that it calls, and gets what the user gave of their parameters:

    @command(SPLIT)
    def payout(context: typer.Context, saved: Saved, as_json: Json = False, **given: Any) -> None:
        paid = split(Result.load(saved).valuation, **SPLIT.of(given))

What is not given keeps the default of the function. Where the type or the name of a parameter does not suit a command
line, `EXCEPTIONS` and `fgsv.words.OPTIONS` say so, and nothing else does.

Functions are read as text: importing them takes a second, and help or a misspelt option should not wait for it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import fgsv
from fgsv.cli import config, parsers
from fgsv.cli.help_texts import MANY, VALUES, show_all
from fgsv.words import in_command, option

PYTHON_ONLY: dict[str, Any] = {}
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "amount": {"kind": list[str], "read": parsers.amounts},
    "before": {"kind": Path, "read": parsers.result},
    "budget": {"min": 1},
    "cap": {"kind": str},
    "command": PYTHON_ONLY,
    "confidence": {"read": parsers.a_confidence},
    "data": {"kind": list[Path]},
    "empty": {"kind": list[str], "read": parsers.numbers},
    "fee": {"kind": str},
    "floor": {"kind": str},
    "game": {"kind": str},
    "limits": PYTHON_ONLY,
    "max_players": {"min": 2},
    "max_time": {"kind": str, "read": parsers.duration},
    "model": {"kind": str},
    "on_error": {"kind": str, "read": parsers.on_error},
    "parts": {"kind": list[str], "read": parsers.parts},
    "payout": {"kind": list[str], "read": parsers.amounts},
    "pilot": {"min": 100},
    "player": {"kind": list[str]},
    "provider": {"kind": list[str]},
    "records": {"min": 1},
    "reference": {"kind": str},
    "rows": {"kind": Path},
    "sample": {"min": 1},
    "seal": {"kind": Path, "read": parsers.seal},
    "seed": {"min": 0},
    "split_seed": {"min": 0},
    "start": {"kind": list[Path]},
    "target_missing": {"kind": str},
    "test": {"kind": Path},
    "tolerance": {"min": 0},
    "training": {"kind": list[str], "read": parsers.settings},
    "unit_size": {"min": 1},
    "watcher": PYTHON_ONLY,
}
"""By option: `kind`, its type in a command; `read`, from what was given to the argument; `min`, the least number."""
KINDS: dict[str, Any] = {
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
    "str | Path": Path,
    "str | Sequence[str]": list[str],
}
"""Types of parameters as those of options."""
NEEDS = {
    "payout": ("currency", "clip", "floor", "cap", "pay_anyway"),
    "audit": ("audit_budget", "parts"),
    "data": ("test", "sample", "tolerance"),
    "game": ("sample", "tolerance", "seed"),
    "unit": ("shared_units",),
}
"""Options that say nothing without another one, which is asked for first."""

PACKAGE = Path(fgsv.__file__).parent
ENTRY = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)
"""A parameter and its words in Args."""
AS_IN = "As in "
"""Words of a parameter that another function explains."""
IN_PYTHON = re.compile(r"(?:^|(?<=\. ))In Python\b.*?(?:\. |\.?$)")
"""A sentence that is not for commands."""

Saved = Annotated[Path, typer.Argument(help="A valuation.json or its folder")]
ForceFile = Annotated[bool, typer.Option("--force", help="Replace an existing file")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
OF_LONG_COMMANDS = {
    "config": Annotated[
        Path | None,
        typer.Option(
            help="Options from a TOML file, such as --save-config writes; those of the command line come first",
            is_eager=True,
            callback=config.read,
        ),
    ],
    "save_config": Annotated[Path | None, typer.Option(help="TOML file to write the options of this command to")],
    "help_all": Annotated[
        bool, typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=show_all)
    ],
}


class Parameter(NamedTuple):
    """A parameter of a public function, as an option."""

    name: str
    kind: Any
    default: Any
    """`inspect.Parameter.empty` if it is required."""
    words: str


@dataclass(frozen=True)
class Function:
    """A public function whose parameters are options; its place is like `data/table.py:open_table`."""

    place: str
    only: str = ""
    """Names of parameters that are options. Default: all that are given by name alone."""
    optional: str = ""
    """Names of those that a command may do without, and shows no default of."""
    chosen_by: str = ""
    """The option that calls it in place of another function."""

    @cached_property
    def options(self) -> dict[str, Parameter]:
        """The parameters by option: `max_seconds` is `max_time`."""
        file, _, name = self.place.partition(":")
        source = _source(file)
        head, docstring, _ = source.partition(f"\ndef {name}(")[2].split('"""', 2)
        words = dict(ENTRY.findall(inspect.cleandoc(docstring).partition("Args:\n")[2].partition("\n\n")[0]))
        [tree] = ast.parse(f"def {name}({head}pass").body
        assert isinstance(tree, ast.FunctionDef)
        positional, keywords = tree.args.args, tree.args.kwonlyargs
        required = [None] * (len(positional) - len(tree.args.defaults))
        defaults = [*required, *tree.args.defaults, *tree.args.kw_defaults]
        wanted = self.only.split() or [each.arg for each in keywords]
        found = {}
        for argument, default in zip([*positional, *keywords], defaults, strict=True):
            key = _key(argument.arg)
            if argument.arg not in wanted or EXCEPTIONS.get(key) is PYTHON_ONLY:
                continue
            kind = EXCEPTIONS.get(key, {}).get("kind") or _kind(argument.annotation, source)
            constant = None if argument.arg in self.optional.split() else _constant(default, source)
            found[key] = Parameter(argument.arg, kind, constant, " ".join(words[argument.arg].split()))
        return found

    def of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that options give."""
        return {
            parameter.name: not given[key] if parameter.default is True else given[key]
            for key, parameter in self.options.items()
            if key in given
        }


def command(*functions: Function, hidden: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of `run(context, own parameters, **given)`: the functions' parameters are options, too.

    Of two functions that have a parameter, the first describes it. `hidden` options are accepted only to be refused.
    """

    def decorated(run: Callable[..., None]) -> Callable[..., None]:
        own = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in inspect.signature(run, eval_str=True).parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        taken = {each.name for each in own}
        shared = {key: each for key, each in _described(functions).items() if key not in taken}

        @wraps(run)
        def made(**options: Any) -> None:
            context = options["context"]
            check_needs(context)
            given = {key: _read(key, options[key], context) for key in shared if was_given(context, key)}
            run(**{name: options[name] for name in taken}, **given)

        parameters = [*own, *(_as_option(key, each, hidden.split()) for key, each in shared.items())]
        if len(parameters) >= MANY:
            parameters += [
                inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for key, kind in OF_LONG_COMMANDS.items()
            ]
        made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        made.__annotations__ = {each.name: each.annotation for each in parameters}
        return made

    return decorated


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether a parameter was set by the user, also to its default."""
    source = context.get_parameter_source(name)
    return source is None or source.name != "DEFAULT"


def check_needs(context: typer.Context) -> None:
    """Refuse options that would be ignored, because the one they belong to is not given."""
    given = context.params
    for needed, others in NEEDS.items():
        if needed in given and not given[needed]:
            for name in others:
                if name in given and was_given(context, name):
                    raise typer.BadParameter(f"{_flag(name)} can only be used with {_flag(needed)}")


def _described(functions: Iterable[Function]) -> dict[str, Parameter]:
    """Return the parameters of functions by option, with words for help."""
    found: dict[str, Parameter] = {}
    for function in functions:
        for key, parameter in function.options.items():
            words = IN_PYTHON.sub("", parameter.words).strip().removesuffix(".")
            explained = key in found and (words == found[key].words or words.startswith(AS_IN))
            if function.chosen_by not in ("", key) and not explained:
                before = f"{found[key].words}. " if key in found else ""
                words = f"{before}With {_flag(function.chosen_by)}: {words[0].lower()}{words[1:]}"
            elif key in found:
                continue
            found[key] = parameter._replace(words=words)
    flags = {each.name: _flag(key) for key, each in found.items()}
    return {
        key: each._replace(words=re.sub("`(.*?)`", lambda name: flags.get(name[1], name[1]), each.words))
        for key, each in found.items()
    }


def _as_option(key: str, parameter: Parameter, hidden: Iterable[str]) -> inspect.Parameter:
    """Return a parameter of a command for typer."""
    default = parameter.default
    if parameter.kind is bool:
        default = False  # of one that is True, the option is its opposite
    elif isinstance(default, tuple):
        default = [",".join(map(str, default))] if default else None
    elif default == "":
        default = None
    kind = parameter.kind if default is not None else parameter.kind | None
    flag = typer.Option(
        _flag(key),
        help=parameter.words,
        hidden=key in hidden,
        metavar=next((word for word, names in VALUES.items() if key in names.split()), None),
        min=EXCEPTIONS.get(key, {}).get("min"),
    )
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag])


def _read(key: str, given: Any, context: typer.Context) -> Any:
    """Return the argument that an option gives."""
    try:
        return EXCEPTIONS.get(key, {}).get("read", lambda same: same)(given)
    except typer.BadParameter as error:
        error.ctx, error.param_hint = context, f"'{_flag(key)}'"
        raise


def _key(name: str) -> str:
    """Return the name of a parameter's option, without dashes."""
    with in_command():
        return option(name).removeprefix("--").replace("-", "_")


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _kind(annotation: ast.expr | None, source: str) -> Any:
    """Return the type of an option from that of a parameter."""
    name = ast.unparse(annotation or ast.Name("Any")).removesuffix(" | None")
    if name in KINDS:
        return KINDS[name]
    choices = re.fullmatch(r"Literal\[(.*)\]", _meaning(name, source) if name.isidentifier() else name)
    if choices is None:
        raise TypeError(f"no option has the type {name}: EXCEPTIONS must say its kind")
    return Literal[ast.literal_eval(f"{choices[1]},")]


def _constant(default: ast.expr | None, source: str) -> Any:
    """Return a default: a literal, or a constant with a name."""
    if default is None:
        return inspect.Parameter.empty
    return ast.literal_eval(_meaning(default.id, source) if isinstance(default, ast.Name) else default)


def _meaning(name: str, source: str) -> str:
    """Return what a name is assigned in a file of the package, or in the one that it is imported from."""
    assigned = re.search(rf"^{name} = (.+)$", source, re.MULTILINE)
    if assigned:
        return assigned[1]
    [module] = re.findall(rf"^from fgsv\.([\w.]+) import .*\b{name}\b", source, re.MULTILINE)
    return _meaning(name, _source(f"{module.replace('.', '/')}.py"))


def _source(file: str) -> str:
    return (PACKAGE / file).read_text(encoding="utf-8")
