"""The source of a valuation: which file, columns, model and score it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from fgsv.data.choice import REMEDY
from fgsv.data.reading import TableFile
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
    def of(cls, file: TableFile, tested: TableFile | None, game: Any, **said: Any) -> Source:
        """Return what is `said` about a game, beside the game itself, its file, and that of its test rows if any."""
        return cls(
            file=file.name,
            sha256=file.sha256,
            test_file=None if tested is None else tested.name,
            test_sha256=None if tested is None else tested.sha256,
            game=game.fingerprint,
            frame=None if game.frame is None else {name: _hash(part) for name, part in game.frame.items()},
            versions=versions(),
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
        return asdict(self) | {"notes": list(self.notes), "features": list(self.features)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Source | None:
        """Read what `to_dict` returned, among other keys; None where there is no file in it."""
        if "file" not in document:
            return None
        lacking = [each.name for each in fields(cls) if each.name not in document and each.default is MISSING]
        if lacking:
            raise ValueError(f"the settings lack the field {lacking[0]!r}")
        found = {each.name: document[each.name] for each in fields(cls) if each.name in document}
        return cls(**found | {"notes": tuple(found["notes"]), "features": tuple(found["features"])})


def _hash(part: str) -> str:
    """Return the hash of a part of a frame that a result states."""
    return hashlib.sha256(part.encode()).hexdigest()[:16]
