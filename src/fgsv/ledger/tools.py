"""Tools for ledgers: summaries, merging, and export to tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from fgsv.checks import check_type
from fgsv.coalitions import n_rows, unpack
from fgsv.files import as_path, to_csv, written_whole
from fgsv.game import Game
from fgsv.ledger import Batch, Ledger, WrongLedger
from fgsv.ledger.copying import copy_batches, copy_runs
from fgsv.ledger.forgetting import FORGOTTEN
from fgsv.packages import how_to_install

CHUNK = 64
"""Batches in memory at a time."""


def summary(ledger: Ledger) -> pd.DataFrame:
    """Return a table of the games: numbers of batches, coalitions, failures and erased evaluations, and seconds."""
    check_type(ledger, Ledger, "an open ledger", "fgsv.ledger.Ledger(path, read_only=True) opens one")
    rows = []
    for number, game in ledger.games():
        n_batches = n_coalitions = n_failed = n_forgotten = 0
        seconds = 0.0
        for batch in ledger.batches(number):
            n_batches += 1
            n_coalitions += n_rows(batch.coalitions)
            forgotten = len(batch.outcome.failures.get(FORGOTTEN, ()))
            n_forgotten += forgotten
            n_failed += sum(map(len, batch.outcome.failures.values())) - forgotten
            seconds += batch.outcome.seconds
        rows.append((game.fingerprint, game.n_players, n_batches, n_coalitions, n_failed, n_forgotten, seconds))
    columns = ["game", "players", "batches", "coalitions", "failed", "forgotten", "seconds"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    added: int
    """Batches that were new."""
    known: int
    """Batches that were already there, with the same values."""
    different: int
    """Batches that were already there with different values, which were kept."""
    largest_difference: float


def merge(into: str | Path, sources: list[Path]) -> Merged:
    """Add the games, evaluations and runs of other ledgers to one, which is created if it does not exist.

    Existing records stay, except failures that succeeded elsewhere. A batch with values different from the existing
    ones (machines of two types differ in the last bits) is counted, never mixed in. If players were forgotten in one
    of the ledgers and not in another, nothing is merged: their evaluations would come back.
    """
    counts = Counter[str]()
    largest = 0.0
    into = as_path(into, "a ledger")
    check_type(sources, (list, tuple), "a list of ledgers to merge")
    for path in sources:
        if as_path(path, "a ledger").resolve() == into.resolve():
            raise WrongLedger(f"{path} cannot be merged into itself")
    with ExitStack() as stack:
        opened = [stack.enter_context(Ledger(path, read_only=True)) for path in sources]  # before `into` is created
        for each in opened:
            each.check_stays_forgotten(opened)
        if Path(into).exists():
            with Ledger(into, read_only=True) as before:
                before.check_stays_forgotten(opened)
                for each in opened:
                    each.check_stays_forgotten([before])
        target = stack.enter_context(Ledger(into))
        for source in opened:
            numbers = {number: target.game(game) for number, game in source.games()}
            runs = copy_runs(source, target, numbers)
            for _, kind, difference in copy_batches(source, target, numbers, runs):
                counts[kind] += 1
                largest = max(largest, difference)
            for run, content in source.statements():
                target.add_statement(runs[run], content)
    return Merged(counts["added"], counts["known"], counts["different"], largest)


def export(ledger: str | Path, path: str | Path) -> int:
    """Write one line per coalition and output to a .csv or .parquet file; return the number of lines."""
    path = as_path(path, "the file to export to")
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"export writes .csv or .parquet, not {path.suffix or 'a file without suffix'!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to export to")
    with Ledger(ledger, read_only=True) as opened:
        return _write_csv(opened, path) if suffix == ".csv" else _write_parquet(opened, path)


def _tables(ledger: Ledger) -> Iterator[pd.DataFrame]:
    for number, game in ledger.games():
        batches = ledger.batches(number)
        while chunk := list(islice(batches, CHUNK)):
            yield pd.concat([_table(game, batch) for batch in chunk], ignore_index=True)


def _table(game: Game, batch: Batch) -> pd.DataFrame:
    coalitions = unpack(game.n_players, batch.coalitions)
    m = len(coalitions)
    values = batch.outcome.values if batch.outcome.values.shape[1] else np.full((m, 1), np.nan)
    q = values.shape[1]
    starts = coalitions.starts.tolist()
    lists = [" ".join(map(str, coalitions.listed[a:b].tolist())) for a, b in pairwise(starts)]
    failed = batch.outcome.failed
    outputs = game.outputs or tuple(map(str, range(q)))
    table = pd.DataFrame(
        {
            "game": game.fingerprint,
            "batch": batch.id,
            "row": np.arange(m),
            "size": coalitions.sizes,
            "lists": np.where(coalitions.inverted, "left out", "members"),
            "players": lists,
            "seconds": batch.outcome.seconds / m,
            "failure": pd.Series([failed.get(row) for row in range(m)], dtype=object),
        }
    )
    table = table.loc[np.repeat(np.arange(m), q)].reset_index(drop=True)
    table.insert(7, "output", list(outputs[:q]) * m)
    table.insert(8, "value", values.reshape(-1))
    return table


def _write_csv(ledger: Ledger, path: Path) -> int:
    count = 0
    with written_whole(path) as file:
        for number, table in enumerate(_tables(ledger)):
            # enough digits to read back bit for bit
            text = to_csv(table, header=number == 0, float_format="%.17g")
            file.write(text.encode("utf-8", errors="backslashreplace"))
            count += len(table)
    return count


def _write_parquet(ledger: Ledger, path: Path) -> int:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise ImportError(f"Parquet needs pyarrow: {how_to_install('parquet')}") from error
    text = pyarrow.string()
    whole = pyarrow.int64()
    real = pyarrow.float64()
    kinds = {"game": text, "batch": whole, "row": whole, "size": whole, "lists": text}
    kinds |= {"players": text, "output": text, "value": real, "seconds": real, "failure": text}
    schema = pyarrow.schema(list(kinds.items()))
    count = 0
    with written_whole(path) as file, ParquetWriter(file, schema) as writer:
        for table in _tables(ledger):
            writer.write_table(pyarrow.Table.from_pandas(table, schema, preserve_index=False))
            count += len(table)
    return count
