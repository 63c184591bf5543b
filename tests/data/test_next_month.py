"""Test rows for the next month: held out into a file, or kept beside the ledger."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.holding_out import hold_out
from fgsv.data.reading import TableError
from fgsv.ledger.forgetting import forget
from fgsv.ledger.kept_rows import PROVIDER, path_of_test_rows
from fgsv.pipeline import value_data

OPTIONS = {"group": "provider", "target": "y", "model": "knn", "monte_carlo_only": True}


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n).round(4), "site": rng.choice(["x", "y", None], size=n)})
    frame["y"] = np.where(frame["a"] + rng.normal(scale=0.5, size=n) > 0, "ill", "well")
    return frame.assign(provider=np.array(["north", "south", "east", "west"])[rng.integers(4, size=n)])


def test_held_out_rows_are_those_that_a_run_would_draw(tmp_path):
    path = tmp_path / "all.csv"
    table().to_csv(path, index=False)
    rest, test = hold_out(path, group="provider", split_seed=7)
    assert len(rest) + len(test) == 160
    drawn = fgsv.open_table(path, split_seed=7, **OPTIONS)
    rest.to_csv(tmp_path / "rest.csv", index=False)
    test.to_csv(tmp_path / "test.csv", index=False)
    given = fgsv.open_table(tmp_path / "rest.csv", test=tmp_path / "test.csv", **OPTIONS)
    assert given.game.fingerprint == drawn.game.fingerprint
    with pytest.raises(TableError, match="the test rows include every row of"):
        hold_out(table().drop_duplicates("provider"), group="provider", fraction=0.7)


def test_a_month_starts_though_the_providers_of_test_rows_have_left(tmp_path):
    march, april = tmp_path / "march.csv", tmp_path / "april.csv"
    table().to_csv(march, index=False)
    made = value_data(fgsv.open_table(march, **OPTIONS), budget=60, ledger=tmp_path / "march.db")
    assert "the next month needs the same test rows" in " ".join(made.source.notes)
    joined = table(60, seed=1).assign(provider="new")
    pd.concat([table()[lambda each: each["provider"] != "east"], joined]).to_csv(april, index=False)
    opened = fgsv.open_table(april, start=tmp_path / "march.db", **OPTIONS)
    before = fgsv.open_table(march, **OPTIONS)
    pd.testing.assert_frame_equal(
        opened.rows.test_features.reset_index(drop=True), before.rows.test_features.reset_index(drop=True)
    )
    np.testing.assert_array_equal(opened.rows.test_target, before.rows.test_target)
    trained = set(map(tuple, opened.rows.features.astype(str).to_numpy().tolist()))
    assert not trained & set(map(tuple, before.rows.test_features.astype(str).to_numpy().tolist()))
    value_data(opened, budget=60, start=tmp_path / "march.db", ledger=tmp_path / "april.db")
    kept = [pd.read_csv(path_of_test_rows(tmp_path / f"{month}.db")) for month in ("march", "april")]
    pd.testing.assert_frame_equal(*kept)  # the third month finds them, too


def test_a_run_of_texts_says_at_once_that_the_next_month_needs_its_test_texts():
    texts = pd.DataFrame({"text": [f"word{k} of many words" for k in range(40)], "by": ["x", "y"] * 20})
    drawn = fgsv.open_text(texts, group="by")
    given = fgsv.open_text(texts, group="by", test=pd.DataFrame({"text": ["another text"], "by": ["x"]}))
    assert any("the next month needs the same test texts" in note for note in drawn.source.notes)
    assert not any("next month" in note for note in given.source.notes)


def test_the_test_rows_of_a_provider_are_forgotten_with_it(tmp_path):
    march, ledger = tmp_path / "march.csv", tmp_path / "march.db"
    table().to_csv(march, index=False)
    value_data(fgsv.open_table(march, **OPTIONS), budget=60, ledger=ledger)
    before = pd.read_csv(path_of_test_rows(ledger))
    assert "east" not in path_of_test_rows(ledger).read_text()
    assert set(before[PROVIDER]) != {None}
    erased = forget(ledger, providers=["east"])
    after = pd.read_csv(path_of_test_rows(ledger))
    assert 0 < erased.test_rows == len(before) - len(after)
    table()[lambda each: each["provider"] != "east"].to_csv(march, index=False)
    with pytest.raises(TableError, match="test rows of the earlier run are not in the table any more"):
        fgsv.open_table(march, start=ledger, **OPTIONS)
