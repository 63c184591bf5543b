"""Test rows are chosen by what they contain: the rest of the file, the grouping and the run do not move them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from fgsv.data.labelled_rows import prepare
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).round(6)
    return pd.DataFrame(
        {
            "provider": rng.choice(["north", "south", "east"], n),
            "patient": rng.integers(0, n // 4, n),
            "age": rng.integers(20, 90, n),
            "kind": rng.choice(["a", "b"], n),
            "x": x,
            "y": (x + rng.normal(size=n) > 0).astype(int),
        }
    )


def prepared(frame, **options):
    roles = Roles(**{"group": ["provider"], "ignore": ["patient"]} | options)
    return prepare(TableFile(frame, "train.csv", "0"), roles, target="y")


def names_of_tested(frame, **options):
    """Return the numbers x of the test rows, which name them here."""
    return set(prepared(frame, **options).test_features["x"])


def refusal(frame, **options):
    """Return the error of a table, or nothing."""
    try:
        prepared(frame, **options)
    except TableError as error:
        return str(error)
    return ""


def test_providers_renamed_split_or_regrouped_move_nothing():
    frame = table()
    before = names_of_tested(frame)
    assert names_of_tested(frame.assign(provider=frame["provider"] + (frame.index % 2).astype(str))) == before
    assert names_of_tested(frame, regroup=["kind"]) == before


def test_rows_that_come_go_or_change_places_move_no_other():
    frame = table()
    before = names_of_tested(frame)
    shuffled = frame.sample(frac=1, random_state=0)[frame.columns[::-1]]
    assert names_of_tested(shuffled.reset_index(drop=True)) == before
    fewer = frame.iloc[::3].reset_index(drop=True)
    assert names_of_tested(fewer) == before & set(fewer["x"])
    more = pd.concat([frame, table(50, seed=1)], ignore_index=True)
    assert names_of_tested(more) & set(frame["x"]) == before


def test_a_missing_cell_elsewhere_does_not_change_how_a_row_is_read():
    """One missing age makes floats of all ages, one age in words makes text of them."""
    frame = table()
    before = names_of_tested(frame)
    strange = pd.concat([frame, frame.head(1).assign(age=np.nan, x=9.0)], ignore_index=True)
    assert names_of_tested(strange) - {9.0} == before
    wordy = frame.assign(age=[*frame["age"].astype(str)[:-1], "old"])
    assert names_of_tested(wordy) - set(frame["x"][399:]) == before - set(frame["x"][399:])


def test_units_stay_on_one_side_whatever_their_rows():
    frame = table()
    units = set(prepared(frame, unit="patient", ignore=[], shared_units="split").test_features.index)
    sides = frame.assign(side=frame.index.isin(units)).groupby("patient")["side"].nunique()
    assert (sides == 1).all()
    changed = frame.assign(x=frame["x"] + 1)
    assert set(prepared(changed, unit="patient", ignore=[], shared_units="co-own").test_features.index) == units


def test_equal_rows_are_on_the_same_side():
    frame = pd.concat([table(), table().head(100).assign(provider="copier")], ignore_index=True)
    data = prepared(frame)
    assert set(data.features["x"]).isdisjoint(data.test_features["x"])
    assert names_of_tested(frame) == names_of_tested(table())


def test_where_most_rows_are_equal_they_are_told_apart_by_their_order():
    """Otherwise whole cells of a table of counts would be tested, and never trained on."""
    frame = table()[["provider", "kind", "y"]].assign(age="adult")
    data = prepared(frame, ignore=[])
    assert any("most rows equal another" in note for note in data.notes)
    assert set(data.features["kind"]) == set(data.test_features["kind"]) == {"a", "b"}
    assert 75 < len(data.test_target) < 125


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_about_the_fraction_is_tested_and_classes_keep_about_their_proportions(fraction):
    frame = table(2000)
    counts = [len(prepared(frame, test_fraction=fraction, split_seed=seed).test_target) for seed in range(20)]
    low, high = binom.ppf([1e-4, 1 - 1e-4], 20 * 2000, fraction)
    assert low <= sum(counts) <= high
    data = prepared(frame, test_fraction=fraction)
    assert abs(data.test_target.mean() - frame["y"].mean()) < 4 * 0.5 / np.sqrt(len(data.test_target))


def test_the_split_seed_chooses_other_rows():
    frame = table()
    assert names_of_tested(frame) == names_of_tested(frame, split_seed=0) != names_of_tested(frame, split_seed=1)


def test_a_provider_whose_rows_are_all_test_rows_is_named_with_a_seed_that_helps():
    frame = table()
    lonely = next(row for row in range(400) if frame["x"][row] in names_of_tested(frame))
    frame.loc[lonely, "provider"] = "alone"
    with pytest.raises(TableError, match=r"every row of 1 of the providers.*: alone: split_seed=(\d+)") as raised:
        prepared(frame)
    seed = int(str(raised.value).partition("split_seed=")[2].split()[0])
    assert "alone" in prepared(frame, split_seed=seed).players.partition.names
    everybody = table(60).assign(provider=np.arange(60))
    with pytest.raises(TableError, match=r"of the providers .*no split_seed up to 50 is better: .*test_by="):
        prepared(everybody)


def test_the_advice_about_classes_without_training_rows_does_not_speak_of_providers():
    words = refusal(table().assign(y=[f"class {row // 2}" for row in range(400)]))
    assert "have classes that no training row has: class " in words
    assert "no split_seed up to 50 is better" in words
    assert "provider" not in words


def test_a_class_of_one_row_is_trained_on_or_refused_with_a_seed_that_helps():
    frame = table(40).assign(y=["rare"] + ["a", "b", "c"] * 13)
    seeds = range(12)
    tested = {seed for seed in seeds if "split_seed=" in refusal(frame, split_seed=seed)}
    assert 0 < len(tested) < 12
    for seed in set(seeds) - tested:
        assert (prepared(frame, split_seed=seed).target == "rare").sum() == 1


def test_the_run_and_its_seed_do_not_move_the_test_rows(tmp_path):
    import fgsv

    path = tmp_path / "train.csv"
    table(100).to_csv(path, index=False)
    opened = [fgsv.open_table(path, group="provider", target="y", ignore="patient", seed=seed) for seed in (0, 1)]
    assert opened[0].game.fingerprint == opened[1].game.fingerprint
