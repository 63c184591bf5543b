"""What a run carries over from an earlier one to reuse its evaluations: preprocessing, test rows, score."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv.data.choice import contents_of
from fgsv.data.joining import read_all
from fgsv.data.preprocessing import Fitted
from fgsv.data.reading import TableError
from fgsv.files import decode
from fgsv.ledger.earlier import last_frame
from fgsv.ledger.kept_rows import PROVIDER, path_of_test_rows
from fgsv.types import Ints
from fgsv.words import option

PARTS = {"preprocessing", "metric", "task", "choice of test rows", "units"}
"""What a table adds to the frame of its game."""


@dataclass(frozen=True)
class CarriedOver:
    """What a table takes from an earlier run."""

    fitted: Fitted
    metric: str
    task: str
    features: tuple[str, ...]
    """The feature columns, used or not; with target and unit they identify a row."""
    test_rows: tuple[str, ...] | None
    """A hash of each test row, in order; None if a file or a column names the test rows."""
    units: Mapping[str, int] | None = None
    """Size and seed of the pieces that are players (`fgsv.data.pieces`); None if they are not such pieces."""
    kept: Path | None = None
    """The test rows beside the ledger, if it has them."""

    def parts(self) -> dict[str, str]:
        """Return the parts of a frame, as text."""
        rows = None if self.test_rows is None else {"features": self.features, "rows": self.test_rows}
        return {
            "preprocessing": json.dumps(asdict(self.fitted) | {"features": self.features}),
            "metric": self.metric,
            "task": self.task,
            "choice of test rows": json.dumps(rows),
            "units": json.dumps(self.units),
        }

    @classmethod
    def of_ledger(cls, path: str | Path) -> CarriedOver:
        """Return what to carry over from the last run of a ledger."""
        frame = last_frame(path)
        if not isinstance(frame, Mapping) or not set(frame) >= PARTS:
            raise TableError(
                f"nothing in {path} can be reused: its last run did not value a table, or its model has no "
                "fingerprint"
            )
        fitted = json.loads(frame["preprocessing"])
        rows = json.loads(frame["choice of test rows"])
        return cls(
            fitted=decode(Fitted, fitted),
            metric=frame["metric"],
            task=frame["task"],
            features=tuple(fitted["features"]),
            test_rows=None if rows is None else tuple(rows["rows"]),
            units=json.loads(frame["units"]),
            kept=path_of_test_rows(path),
        )


def row_hashes(rows: pd.DataFrame) -> list[str]:
    """Return a hash of each row's content: features and target."""
    return [blake2b(content, digest_size=8).hexdigest() for content in contents_of(rows)]


def find_rows(rows: pd.DataFrame, hashes: Sequence[str]) -> Ints:
    """Return where the rows with these hashes are, in that order, and -1 for those that are not there.

    Equal rows are taken in the order of the table.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, found in reversed(list(enumerate(row_hashes(rows)))):
        places[found].append(place)
    return np.array([places[each].pop() if places[each] else -1 for each in hashes], dtype=np.int64)


def kept_rows(carried: CarriedOver, names: Sequence[str], n_missing: int) -> pd.DataFrame:
    """Return the test rows that are kept beside the ledger of the earlier run.

    Args:
        carried: What is taken from that run: the hashes of its test rows, and where they are kept.
        names: The columns by which rows are recognised.
        n_missing: Test rows that the table does not have any more, for the error.

    Returns:
        These columns, and one with a digest of each row's provider.

    Raises:
        TableError: There are no such rows, or other ones.

    """
    hashes = carried.test_rows or ()
    if carried.kept is not None and carried.kept.exists():
        frame = read_all(carried.kept).frame
        if {*names, PROVIDER} <= set(frame) and row_hashes(frame[list(names)]) == list(hashes):
            return frame[[*names, PROVIDER]]
    raise TableError(
        f"{n_missing} of the {len(hashes)} test rows of the earlier run are not in the table any more, or changed, "
        f"and not beside its ledger: nothing can be reused. Run without {option('start')}, and keep the test rows in "
        f"a separate file ({option('test')})"
    )


def check_features(names: Sequence[Any], carried: CarriedOver) -> list[str]:
    """Return notes on feature columns that are new, and raise an error if one of the earlier run is missing."""
    here = set(names)
    missing = [name for name in carried.features if name not in here]
    if missing:
        raise TableError(
            f"column {missing[0]!r} is no feature here, but was one of the run to start from: nothing can be reused "
            "without it"
        )
    before = set(carried.features)
    new = [str(name) for name in names if name not in before]
    return [f"not used, because the run to start from did not have it: {', '.join(new)}"] if new else []
