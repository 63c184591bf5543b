"""Documents: rows become players with their groups, texts and test texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.data.choice import Choice, marked
from fgsv.data.folders import FILE, PROVIDER
from fgsv.data.pieces import in_units
from fgsv.data.players import Rows, TrainingRows, complete, labels_of, without_training_rows
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles
from fgsv.types import Masks
from fgsv.utilities.language.read_texts import WORD
from fgsv.words import option

SHOWN = 60
"""Characters of a document that a report shows."""
EVERYTHING = "all"
"""The domain of all test texts, where no column tells domains apart."""
NEXT_MONTH = "the next month needs the same test texts: hold them out into a file of their own before"

TestText = str | tuple[str, str]


@dataclass(frozen=True, eq=False)
class Documents(TrainingRows):
    """Training documents and test texts: all that a game and a valuation need."""

    texts: NDArray[Any]
    """(rows,) the training documents, as in the file."""
    names: NDArray[Any]
    """(rows,) what a report calls them: a file, or a row's number."""
    tests: dict[str, list[TestText]]
    """Domain -> its test texts, or pairs of prompt and answer."""
    by_folder: bool = False
    """Whether each provider has a folder: then documents are in the order of the providers' names."""

    def contents(self) -> list[bytes]:
        """Return the content of each training document."""
        return [str(text).encode("utf-8", "surrogatepass") for text in self.texts]

    @property
    def test_texts(self) -> list[str]:
        """The texts that are scored, of all domains."""
        return [text if isinstance(text, str) else text[1] for texts in self.tests.values() for text in texts]

    @cached_property
    def player_of(self) -> NDArray[Any]:
        """(rows,) the number of the player that each document is part of."""
        units = self.players.units
        return np.arange(len(self.texts)) if units is None else pd.factorize(units)[0]

    def by_player(self, rows: Masks | None = None) -> list[list[str]]:
        """Return the documents of each player: of all of them, or of those with documents that a mask selects."""
        chosen = slice(None) if rows is None else rows
        players = pd.factorize(self.player_of[chosen])[0]
        return [each.tolist() for _, each in pd.Series(self.texts[chosen]).groupby(players)]

    def describe_player(self, player: int) -> tuple[str, str]:
        """Return a player's name and the first words of its first document."""
        rows = np.flatnonzero(self.player_of == player)
        names = self.names if self.players.units is None else self.players.units
        name = str(names[rows[0]])
        words = " ".join(str(self.texts[rows[0]])[: 4 * SHOWN].split())
        return name, words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


def prepare_texts(
    table: TableFile,
    roles: Roles,
    *,
    text: str,
    text_missing: Literal["drop"] | None = None,
    test: TableFile | None = None,
    output_by: str | None = None,
    prompt: str | None = None,
) -> Documents:
    """Make documents of a table: a row is a document, and a player unless a unit combines several.

    Args:
        table: The rows.
        roles: Their providers, units and test rows.
        text: Column of the documents, and of the test texts.
        text_missing: "drop" leaves rows without words out; None refuses them.
        test: A file of test texts. Default: rows of the table, as `roles` say.
        output_by: Column with the domains of the test texts. Default: one domain.
        prompt: Column with what precedes each test text. Default: nothing.

    Raises:
        TableError: A column is missing or incomplete, or a provider has no documents left.

    """
    roles.check_provider(text, "text", "a folder with one subfolder per provider")
    rows = Rows.of(_with_words(table, text, text_missing), roles)
    for name, labels in rows.labels.items():
        lost = sorted(set(labels_of(table, name, roles.group_missing)) - set(labels))
        if lost:
            raise TableError(f"provider {lost[0]!r} has no documents with text: add some, or remove its rows")
    table = rows.table
    if test is not None:
        tested = _with_words(test, text, text_missing)
        choice = Choice(np.zeros(len(table.frame), dtype=bool), f"{len(tested.frame)} documents of {tested.name}")
    else:
        choice = _choice(rows, text, output_by)
        tested = replace(table, frame=table.frame[choice.is_test])
    players = rows.players(choice.is_test)
    made = Documents(
        texts=table.frame.loc[~choice.is_test, text].to_numpy(object),
        names=_names(table)[~choice.is_test],
        players=players,
        tests=_tests(tested, text, output_by, prompt),
        test_groups={name: tested.frame[name].to_numpy(object) for name in roles.group if name in tested.frame},
        notes=(
            *dict.fromkeys([*table.notes, *tested.notes]),
            f"tested on {choice.note}",
            *([] if test is not None else [NEXT_MONTH]),
        ),
        registered=None if rows.ranks is None else rows.ranks[~choice.is_test],
        split_seed=choice.split_seed,
        warnings=tuple(choice.warnings(rows.labels)),
        by_folder=table.by_file == PROVIDER,
    )
    return in_units(made, roles.unit_size, roles.max_players, seed=roles.split_seed)


def _choice(rows: Rows, text: str, output_by: str | None) -> Choice:
    """Return the test documents: marked in a column, or chosen by their content so that every domain has some."""
    table = rows.table
    test_by = rows.roles.test_by
    # where a column marks the test documents, the others need no domain
    domains = None if output_by is None or test_by is not None else complete(table, output_by, "the domain")

    def problem(is_test: Masks) -> str | None:
        if not is_test.any() or is_test.all():
            return "there are no test documents" if not is_test.any() else "all documents are test documents"
        lost = [] if domains is None else domains[~domains.isin(domains[is_test])].tolist()
        if lost:
            return f"there are no test documents of domain {lost[0]!r}"
        return without_training_rows(rows.labels, is_test)

    if test_by is None:
        return rows.choose([text], problem, "documents")
    choice = marked(table.column(test_by, "marks the test documents"), "documents")
    if not choice.is_test.any() or choice.is_test.all():
        raise TableError(f"{problem(choice.is_test)}. Choose others in the {option('test_by')} column")
    return choice


def _with_words(table: TableFile, text: str, missing: str | None) -> TableFile:
    """Return a table in which every row has a text with words: other rows are refused or dropped."""
    if missing not in (None, "drop"):
        raise TableError(f"documents without text can be left out (drop), got {missing!r}")
    column = table.column(text, "the text")
    absent = ~column.map(lambda cell: isinstance(cell, str) and WORD.search(cell) is not None).to_numpy(bool)
    if not absent.any():
        return table
    if absent.all():
        raise TableError(f"column {text!r} of {table.name} has no text: choose another {option('text')}")
    count = f"{int(absent.sum())} of {len(column)} documents"
    if missing is None:
        raise TableError(
            f"{count} of {table.name} have no text, such as {_names(table)[absent][0]}: leave them out with "
            f"{option('text_missing', 'drop')}"
        )
    frame = table.frame[~absent]  # its index still numbers the rows of the file
    return replace(table, frame=frame, notes=(*table.notes, f"left out {count} of {table.name} without text"))


def _names(table: TableFile) -> NDArray[Any]:
    """Return what each document is called: its file, or the number of its row."""
    if FILE in table.frame.columns and table.by_file is not None and table.by_file != FILE:
        return (table.frame[table.by_file] + "/" + table.frame[FILE]).to_numpy(object)
    return np.array([f"row {number + 1}" for number in table.frame.index], dtype=object)


def _tests(tested: TableFile, text: str, output_by: str | None, prompt: str | None) -> dict[str, list[TestText]]:
    """Return the test texts by domain, in the order in which domains appear."""
    texts: Sequence[TestText] = tested.frame[text].tolist()
    if prompt is not None:
        texts = list(zip(complete(tested, prompt, "the prompt").astype(str), tested.frame[text], strict=True))
    if output_by is None:
        return {EVERYTHING: list(texts)}
    found: dict[str, list[TestText]] = {}
    for domain, each in zip(complete(tested, output_by, "the domain").astype(str), texts, strict=True):
        found.setdefault(domain, []).append(each)
    return found
