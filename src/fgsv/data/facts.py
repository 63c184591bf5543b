"""Facts: what each provider delivered, in one sentence, beside the average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fgsv.partition import Partition
from fgsv.types import Floats, Masks
from fgsv.words import counted, some

FEWEST = 5
"""Rows of a class from which labels are compared with an out-of-fold model."""
MOST_PAIRS = 5
"""Pairs of providers with equal rows that a warning names."""


def sentences(
    owners: Partition,
    noun: str,
    parts: Mapping[str, Floats | Masks | None],
    sizes: Mapping[str, Floats] | None = None,
) -> dict[str, str]:
    """Return a sentence for each provider about its rows, with the average in brackets.

    >>> sentences(Partition(("n", "s"), np.array([0, 0, 1])), "row", {"of class ill": np.array([1, 0, 0])})
    {'n': '2 rows (average 1.5); 50% of class ill (33%)', 's': '1 row (average 1.5); 0% of class ill (33%)'}

    Args:
        owners: Whose each row is.
        noun: What a row is called.
        parts: Words -> (rows,) flags or fractions, of which the percentage is said; None is left out.
        sizes: Words -> (rows,) numbers, of which the mean is said.

    """
    counts = owners.sizes
    said = [[f"{counted(round(n), noun)} (average {counts.mean():,.4g})"] for n in counts]
    rates = [(words, np.asarray(given, dtype=float), _rate) for words, given in parts.items() if given is not None]
    means = [(words, numbers, "{:,.0f}".format) for words, numbers in (sizes or {}).items()]
    for words, numbers, written in (*rates, *means):
        sums = owners.sums(numbers)
        for k in np.flatnonzero(counts):
            said[k].append(f"{written(sums[k] / counts[k])} {words} ({written(numbers.mean())})")
    return {str(name): "; ".join(each) for name, each in zip(owners.names, said, strict=True)}


def _rate(part: float) -> str:
    return f"{part:.0%}" if part in (0.0, 1.0) or part >= 0.095 else f"{part:.1%}"


def contradicted(numbers: Floats, labels: Any) -> Masks | None:
    """Return (rows,) whether an out-of-fold model is surer of another class than of a row's label.

    Surer: it gives another class more than the average probability that it gives rows of that class (as in confident
    learning), and more than to the label. None where a class has too few rows.
    """
    classes, codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    if len(classes) < 2 or np.bincount(codes).min() < FEWEST:
        return None
    model = make_pipeline(StandardScaler(), GaussianNB())
    folds = StratifiedKFold(FEWEST, shuffle=True, random_state=0)
    likely = cross_val_predict(model, numbers, codes, cv=folds, method="predict_proba")
    level = np.array([likely[codes == each, each].mean() for each in range(len(classes))])
    own = likely[np.arange(len(codes)), codes]
    sure = np.where(likely >= level, likely, 0.0)
    sure[np.arange(len(codes)), codes] = 0.0
    return np.asarray((sure.max(axis=1) > own) & (sure.max(axis=1) > 0))


def equal_rows(contents: Sequence[Any], owners: Partition) -> tuple[Masks, list[str]]:
    """Return (rows,) whether another provider has an equal row, and a warning that names the pairs with most of them.

    >>> equal_rows([b"x", b"y", b"x"], Partition(("n", "s"), np.array([0, 0, 1])))
    (array([ True, False,  True]), ['equal rows of two providers: n and s have 1 in common'])
    """
    frame = pd.DataFrame({"content": pd.factorize(np.array(contents, dtype=object))[0], "owner": owners.codes})
    if frame["content"].nunique() < len(frame) / 2:  # rows of few values: equal ones say nothing
        return np.zeros(len(frame), dtype=bool), []
    shared = (frame.groupby("content")["owner"].transform("nunique") > 1).to_numpy()
    held = frame[shared].drop_duplicates()
    pairs = held.merge(held, on="content").query("owner_x < owner_y").groupby(["owner_x", "owner_y"]).size()
    if not len(pairs):
        return shared, []
    most = pairs.rename("rows").reset_index().sort_values("rows", ascending=False, kind="stable")
    named = [
        f"{owners.names[first]} and {owners.names[second]} have {count:,} in common"
        for first, second, count in most.to_numpy(int).tolist()
    ]
    return shared, [f"equal rows of two providers: {some(named, MOST_PAIRS)}"]
