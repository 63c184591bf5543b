"""Units of fixed size: nobody chooses them, splits along them move nobody, and a next month finds them again."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.pieces import size_for
from fgsv.data.reading import TableError
from fgsv.pipeline import value_data

OPTIONS = {"group": "provider", "target": "y", "model": "knn", "monte_carlo_only": True}


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)).round(3), columns=["a", "b"])
    frame["y"] = (frame["a"] + rng.normal(scale=0.7, size=n) > 0).astype(int)
    return frame.assign(provider=np.array(["north", "south", "east"])[rng.integers(3, size=n)])


TRAIN, TEST = table(), table(60, seed=1)


def members(opened):
    """Return the rows of each player, as sets of features."""
    cells = map(tuple, opened.rows.features.to_numpy().tolist())
    return {frozenset(each) for _, each in pd.Series(list(cells)).groupby(opened.units)}


def test_pieces_do_not_depend_on_the_order_of_rows_and_hold_rows_of_one_provider():
    opened = fgsv.open_table(TRAIN, test=TEST, unit_size=7, split_seed=5, **OPTIONS)
    counts = TRAIN["provider"].value_counts()
    assert opened.game.n_players == sum(-(-n // 7) for n in counts)
    assert pd.Series(opened.units).value_counts().max() == 7
    np.testing.assert_array_equal(
        opened.row_owners().codes, opened.partition.of_parts(pd.factorize(opened.units)[0]).codes
    )
    shuffled = fgsv.open_table(TRAIN.sample(frac=1, random_state=0), test=TEST, unit_size=7, split_seed=5, **OPTIONS)
    assert members(shuffled) == members(opened)
    assert members(fgsv.open_table(TRAIN, test=TEST, unit_size=7, split_seed=6, **OPTIONS)) != members(opened)


def test_the_size_for_so_many_players_is_the_smallest():
    n_rows = np.array([1, 40, 63, 0, 200])
    for most in (4, 9, 50, 400):
        size = size_for(most, n_rows)
        n_players = [int((-(-n_rows // each)).sum()) for each in (size, max(1, size - 1))]
        assert n_players[0] <= most
        assert size == 1 or n_players[1] > most
    opened = fgsv.open_table(TRAIN, test=TEST, max_players=10, **OPTIONS)
    assert opened.game.n_players <= 10


def test_a_split_along_pieces_moves_nobody():
    whole = fgsv.open_table(TRAIN, test=TEST, unit_size=12, **OPTIONS)
    values = fgsv.exact(whole.game, whole.partition)
    names = np.array(values.names)[whole.partition.codes]
    split = values.regroup([f"{name} {player % 2}" for player, name in enumerate(names)])
    sums = pd.Series(split.values, split.names).groupby(lambda name: name.split()[0]).sum()
    np.testing.assert_allclose(sums[list(values.names)], values.values, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unit_size": 4, "max_players": 9}, "give unit_size or max_players, not both"),
        ({"max_players": 2}, "max_players must be at least 3, the number of providers"),
        ({"unit_size": 0}, "unit_size must be at least 1"),
        ({"unit_size": 2.5}, "unit_size must be a whole number"),
        ({"unit_size": 4, "unit": "a"}, "units are rows with the same value of unit, or pieces"),
        ({"unit_size": 4, "regroup": "a"}, 'shared_units="co-own"'),
    ],
)
def test_units_that_cannot_be_made_are_refused(options, words):
    with pytest.raises((TableError, ValueError), match=words):
        fgsv.open_table(TRAIN, test=TEST, **OPTIONS, **options)


def test_the_next_month_has_the_same_pieces_of_providers_who_stayed(tmp_path):
    TRAIN.to_csv(tmp_path / "march.csv", index=False)
    TEST.to_csv(tmp_path / "test.csv", index=False)
    files = {"test": tmp_path / "test.csv"}
    march = fgsv.open_table(tmp_path / "march.csv", max_players=12, split_seed=9, **files, **OPTIONS)
    made = value_data(march, budget=60, ledger=tmp_path / "march.db")
    assert made.source.columns["unit_seed"] == 9
    stayed = TRAIN[TRAIN["provider"] != "east"]
    joined = table(40, seed=3).assign(provider="west")
    pd.concat([stayed, joined]).to_csv(tmp_path / "april.csv", index=False)
    april = fgsv.open_table(tmp_path / "april.csv", start=tmp_path / "march.db", **files, **OPTIONS)
    kept = members(march) & members(april)
    assert sum(map(len, kept)) == len(stayed)
    with pytest.raises(TableError, match="the units of the run to start from have"):
        fgsv.open_table(tmp_path / "april.csv", start=tmp_path / "march.db", unit_size=3, **files, **OPTIONS)


def test_documents_make_units_too():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), 12)) + f" {k}" for k in range(30)]
    frame = pd.DataFrame({"text": words, "by": ["x", "y"] * 15})
    opened = fgsv.open_text(frame, group="by", test=[frame[:3]], unit_size=4)
    assert opened.game.n_players == 8
    assert opened.copies().n_copies == 0
