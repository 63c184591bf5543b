"""Units: pieces of a provider's rows that are players in place of the rows, so that a run needs fewer evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeVar

import numpy as np
import pandas as pd

from fgsv.checks import whole_number
from fgsv.data.players import TrainingRows, partition_of
from fgsv.data.reading import TableError
from fgsv.types import Ints
from fgsv.words import option

R = TypeVar("R", bound=TrainingRows)

FEW_PLAYERS = 256
"""Players of a run that takes minutes, where rows as players take hours."""


@dataclass(frozen=True)
class Pieces:
    """How rows are cut into pieces: `size` rows of one provider, in the order of a hash of their content."""

    size: int
    seed: int
    """Key of the hash: who does not know it when data is delivered cannot choose which rows are together."""

    @classmethod
    def of(
        cls,
        unit_size: int | None,
        max_players: int | None,
        seed: int,
        n_rows: Ints,
        carried: Mapping[str, int] | None,
    ) -> Pieces:
        """Return the pieces that arguments of `open_table` ask for.

        Args:
            unit_size: Rows of a piece.
            max_players: In its place: the smallest such number that makes at most so many players.
            seed: Key of the hash.
            n_rows: (providers,) training rows of each.
            carried: Size and seed in the run to start from, which go before.

        Raises:
            TableError: Both numbers are given, or another size than in that run, or there are more providers than
                players.

        """
        if unit_size is not None and max_players is not None:
            raise TableError(f"give {option('unit_size')} or {option('max_players')}, not both")
        if carried is not None:
            if unit_size not in (None, carried["size"]):
                raise TableError(
                    f"the units of the run to start from have {carried['size']} rows, not {unit_size}: leave out "
                    f"{option('unit_size')}, or run without {option('start')}"
                )
            return cls(**carried)
        if max_players is not None:
            return cls(size_for(whole_number(option("max_players"), max_players), n_rows), seed)
        return cls(whole_number(option("unit_size"), unit_size, least=1), seed)

    def cut(self, contents: Sequence[bytes], owners: Ints) -> Ints:
        """Return (rows,) the piece of each row, from its content and its owner; the last of an owner may be smaller.

        >>> Pieces(2, seed=0).cut([b"a", b"b", b"c", b"d"], np.array([0, 0, 0, 1])).tolist()
        [0, 0, 1, 2]
        """
        key = str(self.seed).encode()
        digests = [blake2b(each, digest_size=16, key=key, person=b"units").hexdigest() for each in contents]
        rows = pd.DataFrame({"owner": owners, "digest": digests}).sort_values(["owner", "digest"], kind="stable")
        place = rows.groupby("owner").cumcount() // self.size
        found = rows.assign(place=place).groupby(["owner", "place"]).ngroup().sort_index()
        return np.asarray(found, dtype=np.int64)


def size_for(max_players: int, n_rows: Ints) -> int:
    """Return the smallest size of pieces that makes at most so many players of providers with these numbers of rows.

    >>> size_for(5, np.array([40, 60]))
    20
    """
    if max_players < (least := int(np.count_nonzero(n_rows))):
        raise TableError(f"{option('max_players')} must be at least {least}, the number of providers with rows")
    low = 1
    high = int(n_rows.max())
    while low < high:
        middle = (low + high) // 2
        if int((-(-n_rows // middle)).sum()) <= max_players:
            high = middle
        else:
            low = middle + 1
    return low


def in_units(
    rows: R, unit_size: int | None, max_players: int | None, *, seed: int, carried: Mapping[str, int] | None = None
) -> R:
    """Return training rows with pieces as players, if arguments ask for them.

    Rows of providers by different columns are in different pieces. Other groupings may share a piece as
    `rows.players.shared_units` says.

    Args:
        rows: Training rows, each of which is a player.
        unit_size: Rows of a piece; None: by `max_players`.
        max_players: Limit on the players that pieces make; None: by `unit_size`. Without both, rows stay players.
        seed: Key of the hash that orders a provider's rows.
        carried: Size and seed of the pieces in the run to start from.

    """
    if carried is None and unit_size is None and max_players is None:
        return rows
    players = rows.players
    labels = {name: np.array(each.names, dtype=object)[each.codes] for name, each in players.groupings.items()}
    paid = pd.DataFrame({name: labels[name] for name in players.paid})
    owners: Ints = np.asarray(paid.groupby(list(paid)).ngroup(), dtype=np.int64)
    pieces = Pieces.of(unit_size, max_players, seed, np.bincount(owners), carried)
    units = pieces.cut(rows.contents(), owners)
    groupings = {
        name: partition_of(labels[name], tuple(map(str, each.names)), units, name, players.shared_units)
        for name, each in players.groupings.items()
    }
    note = (
        f"units of up to {pieces.size} rows of one provider, in the order of a hash of their content with the key "
        f"{pieces.seed}"
    )
    notes = (*players.notes, note)
    return replace(rows, players=replace(players, units=units, groupings=groupings, pieces=pieces, notes=notes))
