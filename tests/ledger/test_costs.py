"""A cost learned from a ledger."""

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions, canonical, pack
from fgsv.ledger import Ledger, Outcome


def record(path, seconds_of, n_batches):
    """Write a ledger whose batches took the seconds that a function of their sizes says."""
    rng = np.random.default_rng(0)
    game = fgsv.Game(lambda masks: masks.sum(axis=1), 30, fingerprint="timed")
    with Ledger(path) as ledger:
        number = ledger.game(game)
        for _ in range(n_batches):
            coalitions = canonical(Coalitions.from_masks(rng.random((8, 30)) < rng.random((8, 1))))
            outcome = Outcome(np.zeros((8, 1)), float(seconds_of(coalitions.sizes).sum()))
            ledger.record(number, [(pack(coalitions), outcome)])


def test_the_cost_of_a_ledger_is_found_again(tmp_path):
    record(tmp_path / "run.db", lambda sizes: 1e-3 + 2e-4 * sizes + 1e-5 * sizes**2, 30)
    cost = fgsv.fit_cost(tmp_path / "run.db")
    np.testing.assert_allclose([cost.constant, cost.linear, cost.quadratic], [1e-3, 2e-4, 1e-5], rtol=1e-6)
    np.testing.assert_allclose(cost(np.array([1, 10])), [1.21e-3, 4e-3], rtol=1e-6)


def test_a_ledger_with_few_times_says_so(tmp_path):
    record(tmp_path / "run.db", lambda sizes: 1.0 + sizes, 2)
    with pytest.raises(ValueError, match="2 timed batches; at least 3"):
        fgsv.fit_cost(tmp_path / "run.db")


def test_a_ledger_of_two_games_must_say_which(tmp_path):
    record(tmp_path / "run.db", lambda sizes: 1e-3 + 2e-4 * sizes, 30)
    fgsv.value(fgsv.Game(lambda masks: masks.sum(axis=1), 5, fingerprint="other"), ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        names = [game.fingerprint for _, game in ledger.games()]
    with pytest.raises(ValueError, match=r"fitted to one game, but .* contains 2 games"):
        fgsv.fit_cost(tmp_path / "run.db")
    with pytest.raises(ValueError, match=r"contains 0 with fingerprint 'third': .* from 'timed', 'other'"):
        fgsv.fit_cost(tmp_path / "run.db", "third")
    assert fgsv.fit_cost(tmp_path / "run.db", names[0]).linear == pytest.approx(2e-4)
