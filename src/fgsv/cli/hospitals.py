"""The demonstration: ten hospitals, whose tumour data differ in size and quality, share a sum of money."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from fgsv.files import write_whole

HOSPITALS = {
    "Aurora": 110,
    "Birch": 60,
    "Cedar": 50,
    "Delta": 45,
    "Elm": 40,
    "Fjord": 30,
    "Grove": 25,
    "Harbor": 45,
    "Juniper": 5,
}
N_TEST = 142
N_COPIES = 40


def tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the providers' rows and the test rows: scikit-learn's breast-cancer table, spread over ten hospitals.

    Aurora has many good rows. In Harbor's, four labels of ten are wrong; Fjord's have noisy measurements; Iris's are
    copies of Aurora's. Juniper has five rows.
    """
    rng = np.random.default_rng(seed)
    source = load_breast_cancer(as_frame=True)
    order = rng.permutation(len(source.frame))
    frame = source.frame.iloc[order].reset_index(drop=True)
    frame["diagnosis"] = np.where(frame.pop("target") == 1, "benign", "malignant")
    test, frame = frame.iloc[:N_TEST], frame.iloc[N_TEST:].reset_index(drop=True)
    provider = np.repeat(list(HOSPITALS), list(HOSPITALS.values()))
    rows = frame.iloc[: len(provider)].copy()
    rows.insert(0, "hospital", provider)

    wrong = np.flatnonzero(provider == "Harbor")
    wrong = rng.choice(wrong, round(0.4 * len(wrong)), replace=False)
    other = np.where(rows["diagnosis"].to_numpy()[wrong] == "benign", "malignant", "benign")
    rows.iloc[wrong, rows.columns.get_loc("diagnosis")] = other

    noisy = np.flatnonzero(provider == "Fjord")
    features = list(source.feature_names)
    noise = rng.normal(size=(len(noisy), len(features))) * rows[features].std().to_numpy()
    rows.loc[noisy, features] = rows.loc[noisy, features].to_numpy() + noise

    copied = rng.choice(np.flatnonzero(provider == "Aurora"), N_COPIES, replace=False)
    copies = rows.iloc[copied].assign(hospital="Iris")
    return pd.concat([rows, copies], ignore_index=True), test.reset_index(drop=True)


def write(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """Write hospitals.csv and test.csv; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    providers, test = (table.to_csv(index=False, lineterminator="\n") for table in tables(seed))
    return write_whole(folder / "hospitals.csv", providers), write_whole(folder / "test.csv", test)
