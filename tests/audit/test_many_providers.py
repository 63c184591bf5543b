"""An audit of many providers ends, says what it measured, and tells equal copies from near ones."""

import json
import time

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.audit import Audit, AuditPlan, audit, least_budget, shell_companies
from fgsv.audit.shells import MOST_MEASURED, Sample
from fgsv.audit.table_audit import copies_section
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.planning import Watcher


@pytest.fixture
def many():
    """Return a game of 60 groups, whose first has the most players, and its groups."""
    groups = [0] * 5 + [i // 2 for i in range(120)]
    return fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), len(groups)), groups


def test_a_sample_of_many_groups_is_measured(many):
    game, groups = many
    least = least_budget(groups)
    assert least == least_budget(groups[: 5 + 2 * MOST_MEASURED])
    found = audit(game, fgsv.value(game, groups, budget=200), budget=least)
    measured = found.attacks["group"].unique()
    assert found.sample == Sample(MOST_MEASURED, 60)
    assert len(measured) == MOST_MEASURED
    assert "0" in measured  # the largest
    assert found.n_evaluations <= least
    assert len(found.gsv) == 60
    assert "24 of 60 providers" in found.spent_in_words
    again = Audit.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.sample == found.sample


def test_a_budget_for_all_measures_all(many):
    game, groups = many
    table = shell_companies(game, groups, budget=60 * least_budget(groups) // MOST_MEASURED)
    assert table["group"].nunique() == 60
    assert table.attrs["sample"] is None
    assert (table["gain_high"] > 0).all()  # the root is concave: splitting pays


class Pensive(Watcher):
    """Takes its time after each round, and notes what it is told."""

    pondered, done = 0.0, 0

    def measured(self, cost):
        self.cost = cost

    def audit_begins(self, n_evaluations, seconds):
        self.announced = n_evaluations, seconds

    def audited(self, n_evaluations):
        self.done += n_evaluations

    def after_round(self, valuation, half_width, expected, pace):
        time.sleep(0.1)
        self.pondered += 0.1


def test_an_audit_of_a_table_is_announced_and_followed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(160, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] + 0.1 * rng.normal(size=160)
    frame["owner"] = np.arange(160) % 40
    frame["part"] = ["test"] * 40 + ["train"] * 120
    watcher = Pensive()
    table = fgsv.open_table(frame, group="owner", target="y", test_by="part")
    made = value_data(table, budget=200, audit=True, payout=Terms("100", clip=True, pay_anyway=True), watcher=watcher)
    assert watcher.cost.n_evaluations == 200
    most, seconds = watcher.announced
    assert watcher.done == made.audit.n_evaluations <= most
    assert 0 < seconds < 0.5 * watcher.pondered / 200 * most  # those of evaluations, not of all that the run did
    assert made.audit.sample == Sample(MOST_MEASURED, 40)
    policy = next(each for each in made.audit.tables if "policy" in each.title)
    assert len(policy.rows) <= MOST_MEASURED
    assert "24 of 40 providers" in policy.words[0]


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ([0.0] * 8, "8 equal and 0 nearly equal"),
        ([1e-6] * 8, "0 equal and 8 nearly equal"),
        ([0.0] * 5 + [1e-6] * 3, "5 equal and 3 nearly equal"),
    ],
)
def test_near_copies_are_not_called_equal(noise, words):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 5)), columns=list("abcde"))
    frame.iloc[-len(noise) :] = frame.iloc[: len(noise)].to_numpy() + np.array(noise)[:, None]
    frame["y"] = (frame["a"] > 0).astype(int)
    frame["owner"] = ["first"] * 30 + ["second"] * 30
    frame["part"] = "train"
    test = frame.iloc[20:30].assign(part="test", a=lambda each: each["a"] + 0.3)
    table = fgsv.open_table(pd.concat([frame, test]), group="owner", target="y", test_by="part")
    copies = AuditPlan.of(table).copies
    assert (copies.n_exact, copies.n_near) == (noise.count(0.0), noise.count(1e-6))
    assert f"8 rows, {words}" in copies_section(table, copies).words[0]
