"""Features that name rows, or that give the target away, are warned of by name; others are not."""

import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import fgsv
from fgsv.pipeline import value_data
from fgsv.results import Result


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(year=2000 + np.arange(n) // 20, flag=x[:, 1] > 0)
    frame["y"] = (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    return frame.assign(provider=rng.choice(["n", "s"], n))


def opened(frame, **options):
    return fgsv.open_table(frame, **{"group": "provider", "target": "y"} | options)


def test_ordinary_features_are_no_leaks_and_are_listed():
    found = opened(table())
    assert found.warnings == ()
    assert found.source.features == ("a", "b", "year", "flag")
    assert any("4 numeric columns" in note and "a, b, year, flag" in note for note in found.notes)


@pytest.mark.parametrize(
    "ids",
    [
        {"Unnamed: 0": np.arange(200)},
        {"number": np.random.default_rng(0).permutation(200)},
        {"number": 1000 + 7 * np.arange(200.0)},
        {"patient_id": np.arange(200) // 4},
    ],
)
def test_row_numbers_and_ids_are_named(ids):
    (warning,) = opened(table().assign(**ids)).warnings
    assert f"with the option ignore: {shlex.quote(next(iter(ids)))}" in warning
    assert opened(table().assign(**ids), ignore=list(ids)).warnings == ()


@pytest.mark.parametrize(
    ("written", "cell"),
    [
        ("€ {:.2f}".format, "'€ 0.00'"),
        (lambda number: f"{1000 + number:,.2f} USD".translate(str.maketrans(",.", ".,")), "'1.000,00 USD'"),
        (lambda number: f"{number % 8}%", "'0%'"),
        (lambda number: "<5" if number < 5 else str(number), "'<5'"),
    ],
)
def test_numbers_that_are_read_as_text_are_named(written, cell):
    frame = table().assign(cost=[written(number) for number in range(200)])
    (warning,) = opened(frame).warnings
    assert f"most look like numbers: cost ({cell}); write plain" in warning


@pytest.mark.parametrize("written", ["E11.{}", "P{}", "{}-5", "1.2.{}", "+49 30 {}/1", "{} mg"])
def test_codes_and_words_are_no_numbers(written):
    assert opened(table().assign(code=[written.format(number % 7) for number in range(200)])).warnings == ()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_gives_the_target_away_is_named(task):
    frame = table()
    if task == "regression":
        frame["y"] = frame["a"] + 0.3 * np.random.default_rng(1).normal(size=200)
    words = np.where(frame["y"] > 0, "ill", "well")
    for leak in (frame["y"] * 2 + 1, -frame["y"], *([words] if task == "classification" else [])):
        warnings = opened(frame.assign(leak=leak), task=task).warnings
        assert len(warnings) == 1, leak
        assert "almost predicts the target by itself: leak (" in warnings[0]
    assert opened(frame, task=task).warnings == ()


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_wine, load_diabetes])
def test_real_data_raise_no_false_alarm(load):
    data = load(as_frame=True).frame.assign(provider=np.arange(load().data.shape[0]) % 3)
    assert [each for each in opened(data, target="target").warnings if "equal rows" not in each] == []


def test_warnings_and_features_are_in_the_result(tmp_path):
    found = opened(table().assign(row_id=np.arange(200)))
    result = value_data(found, budget=60, out=tmp_path)
    assert result.warnings[: len(found.warnings)] == list(found.warnings)
    again = Result.load(tmp_path / "valuation.json")
    assert again.source.features == ("a", "b", "year", "flag", "row_id")
    assert again.warnings == result.warnings


def test_numbers_beyond_single_precision_are_compared_too():
    frame = table()
    leak = (frame["y"] + 0.25 * np.random.default_rng(2).random(200)) * 1e60
    assert "almost predicts the target by itself: leak (" in "; ".join(opened(frame.assign(leak=leak)).warnings)


def test_test_rows_that_are_training_rows_are_counted():
    frame, others = (table(seed=seed).assign(word=["a", "b"] * 100) for seed in (0, 1))
    for n_again in (200, 30, 5, 0):
        test = pd.concat([frame.head(n_again), others.tail(200 - n_again)])[list(reversed(frame.columns))]
        shown = opened(frame, test=test)
        words = f"{n_again} of 200 test rows are also training rows"
        assert [words in each for each in shown.warnings] == [True] * (n_again >= 10)
    marked = pd.concat([frame.assign(split="train"), frame.head(50).assign(split="test", provider="")])
    (warning,) = opened(marked, test_by="split", group_missing="?").warnings
    assert "50 of 50 test rows are also training rows" in warning
    few_values = pd.DataFrame({"a": [0, 1] * 100, "y": [0, 1, 1, 0] * 50, "provider": ["n", "s"] * 100})
    assert opened(few_values, test=few_values).warnings == ()


def test_a_suggested_option_quotes_names_as_the_option_takes_them():
    (warning,) = opened(table().assign(**{"row, id": np.arange(200)})).warnings
    option = shlex.split(warning.split("ignore: ")[1])[0]
    assert opened(table().assign(**{"row, id": np.arange(200)}), ignore=option).warnings == ()


def test_spaces_around_names_of_providers_do_not_count():
    frame = table()
    spaced = frame.assign(provider=frame["provider"].mask(np.arange(200) % 3 == 0, frame["provider"] + " \t"))
    assert opened(spaced).partition.fingerprint == opened(frame).partition.fingerprint


@pytest.mark.parametrize(
    ("other", "column", "kind"),
    [("MÜLLER", "provider", "provider"), ("Mu\u0308ller", "provider", "provider"), ("müller", "y", "class")],
)
def test_names_that_look_alike_are_named(other, column, kind):
    names = np.array(["Müller", "Ash", other])
    (warning,) = opened(table().assign(**{column: names[np.arange(200) % 3]})).warnings
    written = ascii if "\u0308" in other else repr  # they look the same
    assert f"may be one {kind}: " in warning
    assert all(written(name) in warning for name in ("Müller", other))


def test_test_texts_that_are_training_texts_are_counted():
    frame = pd.DataFrame({"body": [f"word{i} and word{i + 1}" for i in range(40)], "by": ["n", "s"] * 20})
    others = frame.assign(body=frame["body"] + " again", question="which words?")
    for n_again, expected in ((40, ["40 of 40 test texts are also training texts"]), (1, [])):
        test = pd.concat([frame.head(n_again), others.tail(40 - n_again)])
        warnings = fgsv.open_text(frame, text="body", group="by", test=test).warnings
        assert [each.partition(":")[0] for each in warnings] == expected
    answers = frame.assign(question="which words?")
    assert fgsv.open_text(frame, text="body", group="by", test=answers, prompt="question").warnings == ()


def test_test_rows_with_one_target_are_named():
    frame = table()
    (warning,) = opened(frame[:150], test=frame[150:].assign(y=1)).warnings
    assert warning == "all test rows have the same target, 1: a constant predicts it, so no data can do better"
