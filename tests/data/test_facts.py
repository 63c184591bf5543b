"""One sentence of facts a provider, from counts that are made here by hand."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.facts import contradicted
from fgsv.pipeline import value_data
from fgsv.results import Result


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["y"] = np.where(frame["a"] + frame["b"] > 1.2, "ill", "well")
    frame["provider"] = np.where(np.arange(n) < 100, "small", "large")
    return frame


def test_facts_are_counts_beside_their_average(tmp_path):
    frame = table()
    frame.loc[:49, "c"] = np.nan
    frame = pd.concat([frame, frame[:20].assign(provider="copier")], ignore_index=True)
    opened = fgsv.open_table(frame, group="provider", target="y", test=table(60, seed=1))
    small, large, copier = (opened.facts()[name] for name in ("small", "large", "copier"))
    ill = [(frame["y"] == "ill")[frame["provider"] == name].mean() for name in ("small", "large")]
    assert small.startswith("100 rows (average 140); ")
    assert f"{ill[0]:.0%} of class ill" in small
    assert f"{ill[1]:.0%} of class ill" in large
    assert f"{50 / 300:.0%} of cells missing ({70 / 1260:.1%})" in small
    assert "20% equal to another provider's row" in small
    assert "100% equal to another provider's row" in copier
    assert "equal rows of two providers: small and copier have 20 in common" in opened.warnings
    made = value_data(opened, budget=300, out=tmp_path)
    assert made.facts == opened.facts() == Result.load(tmp_path / "valuation.json").facts
    assert "small and copier have 20 in common" in " ".join(made.warnings)


def test_a_copier_who_changes_the_number_of_a_case_is_named():
    frame = table()
    frame = pd.concat([frame, frame[:20].assign(provider="copier")], ignore_index=True)
    frame["case"] = [f"F{row:05d}" for row in range(len(frame))]
    opened = fgsv.open_table(frame, group="provider", target="y", test_fraction=0.1)
    assert opened.source.features == ("a", "b", "c")
    assert any(warning.startswith("equal rows of two providers: small and copier") for warning in opened.warnings)


def test_labels_that_were_changed_are_contradicted_and_few_others():
    frame = table(2000)
    changed = np.arange(2000) % 10 == 0
    labels = np.where(changed, np.where(frame["y"] == "ill", "well", "ill"), frame["y"])
    found = contradicted(frame[["a", "b", "c"]].to_numpy(), labels)
    assert found[changed].mean() > 0.6
    assert found[~changed].mean() < 0.1
    assert contradicted(np.zeros((6, 1)), ["a"] * 5 + ["b"]) is None


@pytest.mark.parametrize("unit_size", [None, 3])
def test_facts_of_texts_are_documents_characters_and_equal_ones(unit_size):
    texts = ["".join(np.random.default_rng(k).choice(list("abcde "), 40)) + " word" for k in range(12)]
    frame = pd.DataFrame({"text": [*texts, texts[0], texts[1] + "!"], "by": [*["x", "y"] * 6, "y", "z"]})
    opened = fgsv.open_text(frame, group="by", test=[frame[2:6]], unit_size=unit_size)
    assert opened.facts()["x"].startswith("6 documents (average 4.667); 17% equal to another provider's document")
    assert "46 characters a document (45)" in opened.facts()["z"]
    assert "equal rows of two providers: x and y have 1 in common" in opened.warnings


def test_rows_of_few_values_are_equal_by_chance_and_named_by_nobody():
    frame = pd.DataFrame({"a": [0, 1] * 60, "y": [0, 0, 1] * 40, "provider": ["n", "s", "e", "w"] * 30})
    assert not any("equal rows" in each for each in fgsv.open_table(frame, group="provider", target="y").warnings)
