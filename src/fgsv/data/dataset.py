"""Data as a game: what a table, texts and every further kind of data have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from fgsv.checks import check_type
from fgsv.data.facts import equal_rows
from fgsv.data.pieces import FEW_PLAYERS, in_units
from fgsv.data.players import TrainingRows
from fgsv.data.source import Source
from fgsv.partition import Partition
from fgsv.types import Floats, Masks
from fgsv.valuation import Valuation
from fgsv.words import option

if TYPE_CHECKING:
    from fgsv.audit.copies import Copies


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset(ABC):
    """Data as a game of its rows or units: `fgsv.value(data.game, data.partition)` values it.

    A kind of data has these fields and methods; nothing outside its module asks which it is.
    """

    noun: ClassVar[str]
    """What a row is called."""
    least_gain: ClassVar[float] = 0.0
    """With no more than this between U(0) and U(N), there is nothing to share."""
    by_folder: bool = False
    """Whether rows are in the order of the providers' folders, which does not say who had a row first."""
    game: Any
    rows: TrainingRows
    """Training rows, their units and groupings, and test rows."""
    source: Source
    warnings: tuple[str, ...] = ()
    """What looks wrong with the data: features, test rows, or names of providers."""
    also: tuple[str, ...] = ()
    """The last outputs of the game: other scores and slices of the test rows, without effect on payments."""

    @abstractmethod
    def game_of(self, rows: Masks) -> Any:
        """Return the game of those training rows that a mask selects."""

    @abstractmethod
    def game_of_units(self, units: Any) -> Any:
        """Return the game of the same rows with other units; None: each row is a player."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return which rows several providers have, and what an audit says about that."""

    @abstractmethod
    def facts_of(self, owners: Partition) -> dict[str, str]:
        """Return a sentence about what each of the owners of rows delivered, beside the average."""

    @abstractmethod
    def cheaper_evaluations(self) -> list[str]:
        """Return what would make evaluations cheaper, in words."""

    def facts(self) -> dict[str, str]:
        """Return a sentence about what each provider delivered, beside the average; empty if players are shared."""
        return self.facts_of(self.row_owners()) if self.partition.is_disjoint else {}

    def cheaper(self) -> str:
        """Return what would make a run cheaper, in words; empty if nothing would."""
        ways = self.cheaper_evaluations()
        if self.units is None:
            ways.append(f"larger players ({option('max_players', FEW_PLAYERS)}), which need fewer evaluations")
        return " or ".join(ways)

    def larger_players(self) -> tuple[int, Any, Partition] | None:
        """Return a unit size that makes few players, with their game and partition; None if there is none."""
        partition = self.partition
        if self.units is not None or partition.n_players <= 2 * FEW_PLAYERS or partition.n_groups > FEW_PLAYERS:
            return None
        main = next(iter(self.groupings))
        of_main = replace(self.rows.players, groupings={main: partition}, paid=(main,))
        rows = replace(self.rows, players=of_main)
        larger = in_units(rows, None, FEW_PLAYERS, seed=self.source.split_seed or 0).players
        assert larger.pieces is not None
        return larger.pieces.size, self.game_of_units(larger.units), larger.partition

    def classes(self) -> Any:
        """Return the class of each player, or None where players have none."""
        return None

    def own_test_rows(self) -> pd.DataFrame | None:
        """Return test rows that were drawn from the data, each with a digest of its provider; None if none were."""
        return None

    def describe_player(self, player: int) -> tuple[str, str] | None:
        """Return a player's name and first words; None where players are not for reading."""
        return None

    @property
    def groupings(self) -> dict[str, Partition]:
        """Column -> partition of the players; the first is the main one."""
        return dict(self.rows.players.groupings)

    @property
    def partition(self) -> Partition:
        """Who owns which player, by the main grouping."""
        return self.rows.players.partition

    @property
    def units(self) -> Any:
        """(rows,) the unit of each training row; None where each row is a player."""
        return self.rows.players.units

    def contents(self) -> list[bytes]:
        """Return what the model learns from each training row: rows are equal if these are."""
        return self.rows.contents()

    @cached_property
    def equal_rows(self) -> tuple[Masks, list[str]]:
        """(rows,) whether another provider has an equal row, and a warning that names whose are equal."""
        contents = self.contents()
        if not self.partition.is_disjoint:
            return np.zeros(len(contents), dtype=bool), []
        return equal_rows(contents, self.row_owners())

    def row_owners(self) -> Partition:
        """Return the owner of each training row, even if a player is a unit of several rows."""
        if self.units is None:
            return self.partition
        if not self.partition.is_disjoint:
            raise ValueError(
                "an audit needs one provider for each unit, but some have several: use "
                f"{option('shared_units', 'split')}, or value without {option('audit')}"
            )
        return self.partition.of_parts(pd.factorize(self.units)[0])

    @property
    def notes(self) -> list[str]:
        """The choices that were made, in plain words."""
        return list(self.source.notes)

    @property
    def weights(self) -> Floats | None:
        """The weights with which the outputs make up the score on all test rows; None if it is the only output."""
        return np.array([1.0, *np.zeros(len(self.also))]) if self.also else None

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """The outputs that are valued side by side; None for a single score, even if others are scored too."""
        return self.game.outputs if self.weights is None else None

    def on_all_test_rows(self, valuation: Valuation) -> Valuation:
        """Convert a valuation of the game to one of the score that payments are by, without further scores."""
        return valuation if self.weights is None else valuation.combined(self.weights)

    def __repr__(self) -> str:
        players = f"{self.partition.n_players:,} players of {self.partition.n_groups:,} groups"
        warnings = (f"warning: {each}" for each in self.warnings)
        return "\n".join([f"{self.source.file}: {players}", *self.notes, *warnings])


def check_dataset(given: object) -> None:
    """Raise an error if this is no opened data, such as the path of a file."""
    check_type(given, Dataset, "a table or texts", "fgsv.open_table or fgsv.open_text opens them")
