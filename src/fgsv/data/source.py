"""The source of a valuation: which file, columns, model and score it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgsv.data.choice import REMEDY
from fgsv.data.players import TrainingRows
from fgsv.data.reading import TableFile
from fgsv.data.roles import Roles
from fgsv.files import decode, encode
from fgsv.packages import versions

DEFAULT_SPLIT_SEED = 0
"""Anybody can know it."""


@dataclass(frozen=True)
class Source:
    """What a report needs to say, and another person to check, what was valued."""

    file: str
    sha256: str
    test_file: str | None
    test_sha256: str | None
    rows: int
    test_rows: int
    columns: Mapping[str, Any]
    """Role (group, target, unit, ignored) -> column, or columns."""
    task: str
    model: str
    metric: str
    game: str | None
    """The game's fingerprint."""
    notes: tuple[str, ...]
    """The choices that were made, in plain words."""
    versions: Mapping[str, str]
    features: tuple[str, ...] = ()
    """The columns that the model sees, by name; none for texts."""
    opened_with: Mapping[str, Any] | None = None
    """The other arguments of `open_table`, to open the same data again; None where JSON cannot hold them."""
    frame: Mapping[str, str] | None = None
    """A hash of each thing that values depend on besides the players."""
    split_seed: int | None = None
    """The split seed by which test rows were chosen; None if they were not chosen by it."""

    @classmethod
    def of(
        cls,
        file: TableFile,
        tested: TableFile | None,
        game: Any,
        training: TrainingRows,
        roles: Roles,
        *,
        columns: Mapping[str, Any],
        notes: Sequence[str],
        **said: Any,
    ) -> Source:
        """Return the source of a game.

        Args:
            file: The file of training rows.
            tested: The file of test rows, if they have one of their own.
            game: Its fingerprint and frame are stated.
            training: They know how units were cut, and by which seed test rows were chosen.
            roles: The columns of providers, units and times of registration, and those left out.
            columns: Further roles -> column, or columns.
            notes: The choices that were made besides those of rows and players, in plain words.
            said: The other fields.

        """
        named = {"group": roles.group, "unit": roles.unit, "ignored": roles.ignore, **columns}
        if (pieces := training.players.pieces) is not None:
            named |= {"unit_size": pieces.size, "unit_seed": pieces.seed}
        if roles.registered is not None:
            named["registered"] = roles.registered
        frame = None if game.frame is None else game.frame.items()
        return cls(
            file=file.name,
            sha256=file.sha256,
            test_file=None if tested is None else tested.name,
            test_sha256=None if tested is None else tested.sha256,
            columns=named,
            game=game.fingerprint,
            frame=frame and {name: hashlib.sha256(part.encode()).hexdigest()[:16] for name, part in frame},
            notes=(*training.notes, *training.players.notes, *notes),
            versions=versions(),
            split_seed=training.split_seed,
            **said,
        )

    @property
    def warnings_of_payments(self) -> list[str]:
        """A warning for those who pay by this data: test rows or units that providers could choose."""
        chosen = {"test rows": self.split_seed, "units": self.columns.get("unit_seed")}
        known = [what for what, seed in chosen.items() if seed == DEFAULT_SPLIT_SEED]
        if not known:
            return []
        return [f"providers who know the split seed (0) can choose their {' and '.join(known)}: {REMEDY}"]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        document: dict[str, Any] = encode(self)
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Source | None:
        """Read what `to_dict` returned, among other keys; None where there is no file in it."""
        return decode(cls, document) if "file" in document else None
