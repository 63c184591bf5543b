"""Failures are counted where they belong: with the run, the audit or the diagnosis in which they happened."""

import numpy as np
import pytest

import fgsv
from fgsv.audit import shell_companies
from fgsv.evaluation.evaluator import Evaluator
from fgsv.games import SumOfUnanimity

GROUPS = np.arange(12) % 3


def failing(where):
    """Return a game that is not a number where `where` says so."""
    inner = SumOfUnanimity(12)
    return fgsv.Game(
        lambda masks: np.where(where(masks), np.nan, inner(masks)), 12, fingerprint=f"fails {where.__name__}"
    )


def empty(masks):
    return ~masks.any(axis=1)


def with_player_0(masks):
    return masks[:, 0] & (masks.sum(axis=1) < 12)


def test_a_failed_end_belongs_to_every_run_also_where_it_was_evaluated_before(tmp_path):
    with Evaluator(failing(empty), on_error=0.0, ledger=tmp_path / "run.db") as evaluator:
        evaluator.ends()
        runs = [fgsv.value(evaluator, GROUPS, budget=100, seed=seed) for seed in (0, 1)]
    assert [run.failures.coalitions for run in runs] == [1, 1]
    assert "size 0" in runs[1].failures.first
    assert fgsv.verify(runs[1], tmp_path / "run.db") == []


def test_an_audit_and_a_diagnosis_say_what_failed():
    game = failing(with_player_0)
    valuation = fgsv.value(SumOfUnanimity(12), GROUPS, budget=200)
    audited = fgsv.audit.audit(game, valuation, on_error=0.0)
    assert [warning for warning in audited.warnings if warning.startswith("in the audit")]
    assert not [word for word in fgsv.audit.audit(SumOfUnanimity(12), valuation).warnings if "failed" in word]
    found = fgsv.diagnose(game, budget=200, on_error=0.0)
    assert found.failures.coalitions > 0
    assert "evaluations failed and count as 0" in repr(found)
    table = shell_companies(game, GROUPS, on_error=0.0)
    assert table.attrs["failures"].kinds.keys() == {"not finite"}
    assert shell_companies(SumOfUnanimity(12), GROUPS).attrs["failures"] is None


def test_outputs_that_nobody_knows_because_both_ends_failed_must_be_named():
    def game(masks):
        if (masks.sum(axis=1) % 6 == 0).any():
            raise RuntimeError("no such model")
        return np.ones((len(masks), 2))

    with pytest.raises(fgsv.GameError, match="name them"):
        fgsv.value(fgsv.Game(game, 6), on_error=0.0, budget=40)
    named = fgsv.value(fgsv.Game(game, 6, outputs=("a", "b")), on_error=0.0, budget=40)
    assert named.failures.coalitions >= 2


class Counting:
    n_players = 12

    def __init__(self, outputs=None, sign=1):
        self.outputs, self.sign, self.n_evaluations = outputs, sign, 0

    def __call__(self, masks):
        self.n_evaluations += len(masks)
        values = self.sign * SumOfUnanimity(12)(masks)
        return values if self.outputs is None else np.stack([values] * len(self.outputs), axis=1)


REFUSED = {
    "diagnose, an output that is not there": (lambda game: fgsv.diagnose(game, output=3), 2),
    "audit, two outputs": (
        lambda game: fgsv.audit.audit(game, fgsv.value(Counting(("a", "b")), GROUPS, budget=50)),
        0,
    ),
    "audit, nothing to share": (
        lambda game: fgsv.audit.audit(game, fgsv.value(Counting(sign=-1), GROUPS, budget=50)),
        0,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused_before_work_is_spent(name):
    ask, most = REFUSED[name]
    game = Counting()
    with pytest.raises(ValueError, match=r"output|U\(N\)"):
        ask(game)
    assert game.n_evaluations <= most
