"""How commands open tables and texts: options that all of them share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import results_only
from fgsv.cli.parsers import numbers, settings

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset

NOT_LOADED = dict.fromkeys(("Dataset",), Any)
"""The types of opened data, which annotations name: they are imported only when a command runs."""


def open_data(
    file: option.Files,
    target: option.Target = None,
    text: option.Text = None,
    group: option.Group = None,
    regroup: option.Regroup = None,
    unit: option.Unit = None,
    unit_size: option.UnitSize = None,
    max_players: option.MaxPlayers = None,
    test: option.Test = None,
    test_fraction: option.TestFraction = 0.25,
    test_by: option.TestBy = None,
    split_seed: option.SplitSeed = 0,
    monte_carlo_only: option.MonteCarloOnly = False,
    output_by: option.OutputBy = None,
    prompt: option.Prompt = None,
    model: option.Model = None,
    training: option.Training = None,
    metric: option.Metric = None,
    also_metric: option.AlsoMetric = None,
    also_slice: option.AlsoSlice = None,
    empty: option.Empty = None,
    task: option.TaskName = None,
    ignore: option.Ignore = None,
    group_missing: option.GroupMissing = None,
    target_missing: option.TargetMissing = None,
    shared_units: option.SharedUnits = None,
    refit_preprocessing: option.Refit = False,
    reference: option.Reference = None,
    start: option.Start = None,
    encoding: option.Encoding = "utf-8",
    seed: option.Seed = 0,
    training_seeds: option.TrainingSeeds = "fixed",
    registered: option.Registered = None,
) -> Dataset:
    """Open a table or texts; its parameters become options of every command decorated with `opens_data`."""
    import fgsv
    from fgsv.data.folders import TEXT

    if target is None and text is None and len(file) == 1 and Path(file[0]).is_dir():
        text = TEXT
    if target is not None and text is not None:
        raise typer.BadParameter("--target is for tables and --text for texts: give one of them")
    if target is None and text is None:
        if any(Path(each).is_dir() for each in file):
            raise typer.BadParameter("a folder of texts must be the only FILE: put the providers' folders into one")
        raise typer.BadParameter("name the column to predict with --target, or the column of texts with --text")
    of_tables: dict[str, Any] = {
        "metric": metric,
        "also_metric": also_metric or (),
        "also_slice": also_slice or (),
        "empty": numbers(empty or ()),
        "task": task,
        "refit_preprocessing": refit_preprocessing,
        "reference": reference,
        "training_seeds": training_seeds,
    }
    of_texts: dict[str, Any] = {"output_by": output_by, "prompt": prompt, "training": settings(training or ())}
    others = of_texts if text is None else of_tables | {"training_seeds": training_seeds == "fresh"}
    for name, given in others.items():
        if given:
            needed = "--text" if text is None else "--target"
            raise typer.BadParameter(f"--{name.replace('_', '-')} can only be used with {needed}")
    shared: dict[str, Any] = {
        "group": group or (),
        "regroup": regroup or (),
        "unit": unit,
        "unit_size": unit_size,
        "max_players": max_players,
        "test": test,
        "test_fraction": test_fraction,
        "test_by": test_by,
        "split_seed": split_seed,
        "model": model,
        "monte_carlo_only": monte_carlo_only,
        "ignore": ignore or (),
        "group_missing": group_missing,
        "shared_units": shared_units,
        "encoding": encoding,
        "seed": seed,
        "registered": registered,
    }
    if text is not None:
        missing = cast(Literal["drop"] | None, target_missing)  # another word is refused there
        return fgsv.open_text(file, text=text, text_missing=missing, **of_texts, **shared)
    return fgsv.open_table(
        file, target=target or "", target_missing=target_missing, start=start or (), **of_tables, **shared
    )


def _saved(options: dict[str, Any]) -> dict[str, Any]:
    """Load the seal and the earlier result of a command: an error about them comes before its data is opened."""
    found: dict[str, Any] = {}
    if options.get("seal") is not None:
        from fgsv.results import Seal

        found["seal"] = Seal.load(options["seal"])
    if options.get("before") is not None:
        from fgsv.results import Result

        found["before"] = Result.load(options["before"])
    return found


def opens_data(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of opened data into a command: its options follow those of `open_data`."""
    own = inspect.signature(function, locals=NOT_LOADED, eval_str=True).parameters
    shared = inspect.signature(open_data, locals=NOT_LOADED, eval_str=True).parameters

    @wraps(function)
    def command(**options: Any) -> None:
        if "context" in options:
            option.check_needs(options["context"])
        with results_only():
            options |= _saved(options)
            table = open_data(**{name: options[name] for name in shared})
        function(table, **{name: options[name] for name in own if name != "table"})

    both = {**shared, **own}  # a command may define a shared option in its own way
    parameters = [parameter for name, parameter in both.items() if name != "table"]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
