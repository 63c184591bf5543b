"""A hundred thousand providers, and providers with one row each."""

import time

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.audit.shells import MOST_MEASURED, least_budget
from fgsv.cli import console
from fgsv.data.reading import TableError, check_names
from fgsv.partition import Partition
from fgsv.valuation.comparison import regrouped
from fgsv.valuation.display import Section


def test_an_audit_of_providers_with_one_row_each(fgsv_command, tmp_path):
    path = tmp_path / "t.csv"
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(24, 2)), columns=["a", "b"])
    frame.assign(y=2 * frame["a"] + frame["b"], provider=[f"p{i}" for i in range(24)]).to_csv(path, index=False)
    options = ["--group", "provider", "--target", "y", "--test", path, "--budget", 100]
    assert "GSV share" in fgsv_command.done("value", path, "--audit", *options)[0]


def test_a_hundred_thousand_groups_are_valued_at_once():
    n = 100_000
    start = time.monotonic()
    result = fgsv.value(fgsv.Game(lambda masks: masks[:, :50].sum(axis=1) ** 0.5, n), np.arange(n), budget=34)
    assert len(result.values) == n
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("classes", [None, "some"])
def test_the_least_budget_of_an_audit_is_that_of_its_dearest_group(classes):
    """One group of each kind has the cost of all: compared with every group alone."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 60, 400)
    classes = None if classes is None else rng.integers(0, 4, 400)
    partition = Partition.of(labels)
    alone = []
    for group in range(partition.n_groups):
        members = partition.members(group)
        if len(members) > 1:
            alone.append(least_budget(np.zeros(len(members)), classes=None if classes is None else classes[members]))
    assert least_budget(partition, classes=classes) - 2 == min(len(alone), MOST_MEASURED) * (max(alone) - 2)


def test_the_least_budget_of_many_providers_is_found_at_once():
    start = time.monotonic()
    assert least_budget(np.arange(200_000) // 2) == 2 + MOST_MEASURED * (least_budget([0, 0]) - 2)
    assert time.monotonic() - start < 10


def test_twenty_thousand_providers_who_merge_in_pairs_are_compared_at_once():
    n = 40_000
    game = fgsv.Game(lambda masks: masks.sum(axis=1) / n, n, frame="rows", players=range(n))
    before = fgsv.value(game, np.arange(n) // 2, budget=34)
    start = time.monotonic()
    holders = regrouped(before, before.regroup([f"p{i // 4}" for i in range(n)]))
    assert time.monotonic() - start < 5
    assert (len(holders), holders["0"], holders["19999"]) == (n // 2, ("p0",), ("p9999",))


def test_the_names_of_fifty_thousand_columns_are_compared_at_once():
    names = [f"gene {i}" for i in range(50_000)]
    start = time.monotonic()
    check_names("wide.csv", names)
    with pytest.raises(TableError, match="two columns named 'gene 49999'"):
        check_names("wide.csv", [*names, names[-1]])
    assert time.monotonic() - start < 5


def test_a_long_table_is_printed_whole_and_at_once(capsys):
    n = 20_000
    rows = tuple((f"株{i}", f"{(i + 1) / n:.2%}", "0.00% to 100.00%") for i in range(n))
    start = time.monotonic()
    console.show(Section("Shares", (), ("group", "share", "interval"), rows))
    assert time.monotonic() - start < 10
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == n + 2
    assert lines[1].split() == ["group", "share", "interval"]
    assert lines[-1].split() == ["株19999", "100.00%", "0.00%", "to", "100.00%"]
