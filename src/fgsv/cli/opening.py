"""How commands open a table: options that all of them share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from fgsv.cli import options as option
from fgsv.cli.documents import results_only
from fgsv.cli.parsers import numbers

if TYPE_CHECKING:
    from fgsv.tables.opening import Table
else:
    Table = Any  # imported only when a command runs


def open_table(
    file: option.Files,
    target: option.Target,
    group: option.Group = None,
    regroup: option.Regroup = None,
    unit: option.Unit = None,
    test: option.Test = None,
    test_fraction: option.TestFraction = 0.25,
    test_by: option.TestBy = None,
    split_seed: option.SplitSeed = 0,
    test_error: option.TestError = False,
    model: option.Model = None,
    metric: option.Metric = None,
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
) -> Table:
    """Open a table; its parameters become options of every command decorated with `opens_table`."""
    import fgsv

    return fgsv.open_table(
        file,
        group=group or (),
        target=target,
        regroup=regroup or (),
        unit=unit,
        test=test,
        test_fraction=test_fraction,
        test_by=test_by,
        split_seed=split_seed,
        test_error=test_error,
        model=model,
        metric=metric,
        empty=numbers(empty or ()),
        task=task,
        ignore=ignore or (),
        group_missing=group_missing,
        target_missing=target_missing,
        shared_units=shared_units,
        refit_preprocessing=refit_preprocessing,
        reference=reference,
        start=start or (),
        encoding=encoding,
        seed=seed,
    )


def opens_table(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of a table into a command: its options follow those of `open_table`."""
    own = inspect.signature(function, eval_str=True).parameters
    shared = inspect.signature(open_table, eval_str=True).parameters

    @wraps(function)
    def command(**options: Any) -> None:
        with results_only():
            table = open_table(**{name: options[name] for name in shared})
        function(table, **{name: options[name] for name in own if name != "table"})

    parameters = [*shared.values(), *(own[name] for name in own if name not in shared and name != "table")]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
