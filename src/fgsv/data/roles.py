"""Roles: what the columns of a file say about its rows, and what happens to the rows about which they say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from fgsv.checks import check_type, whole_number
from fgsv.data.reading import TableError, TableFile, listed_names
from fgsv.words import option

SharedUnits = Literal["co-own", "split"]
"""A unit with rows of several providers: one player owned in proportion to rows, or a player for each."""


@dataclass(frozen=True)
class Roles:
    """Whose the rows are, which of them are one player, and which are test rows."""

    group: Sequence[str]
    """The provider columns, which are not features."""
    regroup: Sequence[str] = ()
    """Further columns to group the players by; a numeric one with many distinct values is cut into three bands."""
    unit: str | None = None
    """Rows with the same value in this column are one player."""
    registered: str | None = None
    """The column that says when each row was registered, which is not a feature."""
    ignore: Sequence[str] = ()
    """Columns that are not features; of a folder, patterns of file names."""
    test_by: str | None = None
    """The column that marks the test rows ("test", true, 1)."""
    test_fraction: float = 0.25
    """About this fraction of rows or units are test rows, if neither a column nor a file of their own names them."""
    split_seed: int = 0
    """With it and a hash of their content (`fgsv.data.choice`), these are chosen."""
    group_missing: str | None = None
    """The provider of rows without one; None: they are refused."""
    unit_size: int | None = None
    """So many rows of a provider are one player (`fgsv.data.pieces`)."""
    max_players: int | None = None
    """The smallest such number that makes at most so many players."""
    shared_units: SharedUnits | None = None
    """What happens to a unit with rows of several providers; None: it is refused."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Roles:
        """Return the roles that arguments of `open_table` or `open_text` give."""
        named = {each.name: given[each.name] for each in fields(cls)}
        return cls(**named | {name: listed_names(given[name]) for name in ("group", "regroup", "ignore")})

    def __post_init__(self) -> None:
        for name in ("unit", "registered", "test_by"):
            if getattr(self, name) is not None:
                check_type(getattr(self, name), str, f"the name of a column as {option(name)}")
        whole_number(option("split_seed"), self.split_seed)
        if self.unit is not None and (self.unit_size or self.max_players):
            pieces = option("max_players" if self.unit_size is None else "unit_size")
            raise TableError(
                f"units are rows with the same value of {option('unit')}, or pieces ({pieces}), not both"
            )
        if self.shared_units not in (None, *get_args(SharedUnits)):
            raise TableError(f"{option('shared_units')} must be co-own or split, got {self.shared_units!r:.200}")

    @property
    def as_written(self) -> list[str]:
        """The columns whose cells are names, and are read as they are written."""
        return [*self.group, *([self.unit] if self.unit else [])]

    def check_provider(self, column: str, role: str, instead: str) -> None:
        """Raise an error if no column has the providers, or if a column with another role has them, too.

        Args:
            column: The column with the other role.
            role: That role, in words.
            instead: What to give if no column has the providers, in words.

        """
        if not self.group:
            raise TableError(f"no provider column: name it with {option('group', 'COLUMN')}, or give {instead}")
        if column in self.group:
            raise TableError(f"column {column!r} is both the provider and the {role}: choose another for one of them")

    def of_file(self, file: TableFile) -> Roles:
        """Return the roles in a file whose rows are their file's, if no provider column is named."""
        return self if self.group or file.by_file is None else replace(self, group=[file.by_file])
