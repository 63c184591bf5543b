"""A table as providers deliver it: misspelt categories, dates, missing values, and one class that is rare."""

from __future__ import annotations

import numpy as np
import pandas as pd

SITES = ["outpatient", "Outpatient", "out patient", "inpatient", "inpatiant", "emergency", "emergncy ", None]


def made_table(n_rows: int, n_providers: int, rare: float = 0.06, seed: int = 0) -> pd.DataFrame:
    """Return `n_rows` rows of `n_providers` providers; a fraction `rare` of them has the outcome "readmitted"."""
    rng = np.random.default_rng(seed)
    age, score = rng.normal(60, 15, n_rows), rng.normal(size=n_rows)
    site = rng.integers(len(SITES), size=n_rows)
    risk = score + 0.02 * (age - 60) + 0.5 * (site > 4) + rng.normal(size=n_rows)
    readmitted = np.zeros(n_rows, dtype=bool)
    readmitted[np.argsort(-risk)[: round(rare * n_rows)]] = True
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(700, size=n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "provider": [f"clinic {k:02d}" for k in rng.integers(n_providers, size=n_rows)],
            "patient": [f"p{k}" for k in rng.integers(max(2, n_rows // 5), size=n_rows)],
            "admitted": admitted.strftime("%Y-%m-%d"),
            "site": np.array(SITES, dtype=object)[site],
            "age": np.where(rng.random(n_rows) < 0.1, np.nan, age.round()),
            "score": np.where(rng.random(n_rows) < 0.2, np.nan, score.round(3)),
            "outcome": np.where(readmitted, "readmitted", "well"),
        }
    )
    frame["cost"] = (1000 + 300 * risk).round(2)
    return frame
