"""Providers who write their rows to suit the split seed are noticed; honest ones are not, whatever they hold."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.audit.table_audit import warnings_of_test
from fgsv.data.choice import FALSE_ALARMS, Choice, chosen
from fgsv.data.documents import prepare_texts
from fgsv.data.labelled_rows import prepare
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.results import Result

COUNTS = "numbers of test rows that chance does not explain"
KNOWN = "providers who know the split seed (0) can choose their test rows"


def rows(n=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["y"] = (frame["a"] + 0.3 * rng.normal(size=n) > 0).astype(int)
    return frame.assign(provider=rng.choice(["north", "south", "west"], n, p=[0.4, 0.3, 0.3]))


def chosen_by(frame, provider, fraction, split_seed=0):
    """Return rows of which a provider has moved some by some 1e-9, until this fraction of its own are test rows."""
    frame, mine = frame.copy(), (frame["provider"] == provider).to_numpy()
    wanted = np.random.default_rng(1).random(len(frame)) < fraction
    for _ in range(60):
        choice = chosen(frame[["a", "b", "y"]], None, 0.25, split_seed, lambda _: None)
        frame.loc[mine & (choice.is_test != wanted), "b"] += 1e-9
    return frame


def warnings(frame, test=None, **options):
    return prepare(TableFile(frame, "train.csv", "0"), Roles(["provider"], **options), target="y", test=test).warnings


@pytest.mark.parametrize("fraction", [0.0, 0.6])
def test_a_provider_with_too_few_or_too_many_test_rows_is_named(fraction):
    frame = chosen_by(rows(), "west", fraction)
    (found,) = warnings(frame)
    size = int((frame["provider"] == "west").sum())
    assert found.startswith(f"{COUNTS}: west, ")
    assert f" of {size} different rows (expected {size / 4:.0f}). Perhaps" in found
    assert "north" not in found
    assert "choose a large split seed" in found
    assert "or bring a file of test rows" in found
    assert warnings(frame, split_seed=8_273_551) == ()
    assert warnings(frame, test=TableFile(rows(40, seed=1), "test.csv", "1")) == ()
    assert warnings(frame.assign(fold=np.arange(len(frame)) % 2), test_by="fold") == ()
    table = fgsv.open_table(frame, group="provider", target="y")
    assert found in table.warnings


def test_a_split_seed_may_be_as_long_as_the_key_of_the_hash():
    assert warnings(rows(), split_seed=10**63) == ()
    with pytest.raises(TableError, match="split_seed must have at most 64 digits, got 65"):
        warnings(rows(), split_seed=10**64)


def test_many_companies_of_one_provider_are_noticed_together():
    frame = chosen_by(rows(1500), "west", 0.6)
    west = frame["provider"] == "west"
    frame.loc[west, "provider"] = [f"west {number // 6}" for number in range(west.sum())]
    is_test = chosen(frame[["a", "b", "y"]], None, 0.25, 0, lambda _: None).is_test
    frame = frame[~frame["provider"].isin(set(frame["provider"]) - set(frame["provider"][~is_test]))]
    (found,) = warnings(frame.reset_index(drop=True))
    assert found.startswith(f"{COUNTS}: all providers together, ")


def test_honest_files_are_not_accused():
    for seed in range(60):
        assert warnings(rows(150, seed), split_seed=seed % 3) == ()


def test_false_alarms_are_as_rare_as_they_should_be(monkeypatch):
    """At a level of 10% the exact test errs in at most 10% of files: 400 files, four standard errors."""
    monkeypatch.setattr("fgsv.data.choice.FALSE_ALARMS", 0.1)
    labels = {"provider": np.repeat(["a", "b", "c", "d"], 50)}
    rng = np.random.default_rng(0)
    contents = [str(number).encode() for number in range(200)]
    alarms = [bool(Choice(rng.random(200) < 0.25, "", contents, 0.25, "rows").warnings(labels)) for _ in range(400)]
    assert 0.01 < np.mean(alarms) < 0.1 + 4 * 0.015
    assert FALSE_ALARMS <= 1e-4


def test_rows_that_a_provider_has_many_times_count_once():
    frame = rows(120)
    is_test = chosen(frame[["a", "b", "y"]], None, 0.25, 0, lambda _: None).is_test
    mine = np.flatnonzero(is_test & (frame["provider"] == "west").to_numpy())[:1]
    frame = frame.iloc[[*range(120), *np.repeat(mine, 100)]].reset_index(drop=True)
    assert warnings(frame) == ()
    # if most rows equal another, each has a content of its own
    whole = frame.assign(a=frame["a"].round(), b=0.0)
    assert warnings(whole) == ()


def test_units_are_counted_by_their_names():
    frame = rows().assign(patient=[f"p{number // 4}" for number in range(240)])
    frame["provider"] = np.repeat(["north", "south", "west"], 80)
    unit = {"unit": "patient", "shared_units": "split"}
    assert warnings(frame, **unit) == ()  # 20 units each
    names = pd.DataFrame({"x": [f"w{number}" for number in range(400)]})
    tested = chosen(names, names["x"], 0.25, 0, lambda _: None).is_test
    wanted = [*names["x"][tested][:19], *names["x"][~tested][:1]]
    frame.loc[frame["provider"] == "west", "patient"] = np.repeat(wanted, 4)
    (found,) = warnings(frame, **unit)
    assert "west, 19 of 20 units (expected 5)" in found


def test_documents_are_counted_too():
    texts = pd.DataFrame({"text": [f"a text about {number}" for number in range(900)]})
    tested = chosen(texts, None, 0.25, 0, lambda _: None).is_test
    frame = pd.concat([texts[:200], texts[200:][tested[200:]][:80], texts[200:][~tested[200:]][:20]])
    file = TableFile(
        frame.assign(by=["north"] * 100 + ["south"] * 100 + ["west"] * 100).reset_index(drop=True), "texts.csv", "0"
    )
    (found,) = prepare_texts(file, Roles(["by"]), text="text").warnings
    assert "west, 80 of 100 different documents (expected 25)" in found
    assert prepare_texts(file, Roles(["by"], split_seed=5), text="text").warnings == ()
    corpus = fgsv.open_text(file.frame, group="by")
    assert found in corpus.warnings
    assert corpus.source.split_seed == 0


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({}, True),
        ({"split_seed": 8_273_551}, False),
        ({"test": [rows(40, seed=1)]}, False),
        ({"test_by": "fold"}, False),
    ],
)
def test_who_pays_or_audits_is_told_that_the_split_seed_is_known(options, known, tmp_path):
    frame = rows(80).assign(fold=np.arange(80) % 2)
    table = fgsv.open_table(
        frame, group="provider", target="y", ignore="" if "test_by" in options else "fold", **options
    )
    assert any(KNOWN in each for each in warnings_of_test(table)) == known
    plain = value_data(table, budget=100, without=False)
    assert not any(KNOWN in each for each in plain.warnings)
    paid = plain.paid_by(Terms(100, pay_anyway=True))
    assert sum(KNOWN in each for each in paid.warnings) == known
    paid.save(tmp_path / "valuation.json")
    assert Result.load(tmp_path / "valuation.json").warnings == paid.warnings


def test_test_rows_of_an_earlier_run_are_not_chosen_again(tmp_path):
    frame = rows(80)
    value_data(fgsv.open_table(frame, group="provider", target="y"), budget=100, ledger=tmp_path / "run.db")
    later = fgsv.open_table(frame, group="provider", target="y", start=tmp_path / "run.db")
    assert later.source.split_seed is None
    assert later.source.warnings_of_payments == []
