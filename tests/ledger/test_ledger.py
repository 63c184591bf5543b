"""The ledger: what is found again, what is evaluated, and what a second run on the same file does."""

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions, canonical, draw_blocks, join, pack, split, unpack
from fgsv.files import decode
from fgsv.ledger import Ledger, LedgerError, Outcome, WrongLedger
from fgsv.ledger.records import Rows
from fgsv.valuation import End, Reason, RunSettings


class Counted:
    """A game of products, whose last bits depend on the batch, that counts what it is asked."""

    def __init__(self, n_players=20, *, independent_rows=False, fingerprint="counted"):
        self.n_players = n_players
        self.fingerprint = fingerprint
        self.independent_rows = independent_rows
        self.matrix = np.random.default_rng(0).standard_normal((n_players, 9))
        self.asked = 0
        self.coalitions = set()

    def __call__(self, masks):
        self.asked += len(masks)
        self.coalitions.update(map(bytes, np.packbits(masks, axis=1)))
        if self.independent_rows:
            return [float(np.sqrt(1 + (mask @ self.matrix).sum() ** 2)) for mask in masks]
        return np.sqrt(1 + (masks @ self.matrix).sum(axis=1) ** 2)


def bits(result):
    return result.values.tobytes(), result.stderr.tobytes(), result.player_values.tobytes(), result.n_evaluations


@pytest.mark.parametrize("independent_rows", [False, True])
def test_a_second_run_evaluates_nothing_and_has_the_same_bits(tmp_path, independent_rows):
    plain = fgsv.value(Counted(independent_rows=independent_rows), budget=600)
    for expected in (True, False):
        game = Counted(independent_rows=independent_rows)
        result = fgsv.value(game, budget=600, ledger=tmp_path / "run.db")
        assert bits(result) == bits(plain)
        assert bool(game.asked) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["run.db"]


def test_a_larger_budget_evaluates_the_rest_alone(tmp_path):
    game = Counted()
    first = fgsv.value(game, budget=300, ledger=tmp_path / "run.db")
    assert game.asked == first.n_evaluations
    second = fgsv.value(game, ["a", "b"] * 10, budget=900, ledger=tmp_path / "run.db")
    # the budget ended within a round, whose batch is evaluated as a whole
    assert second.n_evaluations <= game.asked <= second.n_evaluations + 36
    assert bits(second) == bits(fgsv.value(Counted(), ["a", "b"] * 10, budget=900))


def test_the_ends_are_found_whatever_the_seed(tmp_path):
    game = Counted(n_players=60)  # so many that no size is worth to be enumerated, which both runs would share
    total = fgsv.value(game, budget=300, ledger=tmp_path / "run.db").n_evaluations
    total += fgsv.value(game, budget=300, seed=1, ledger=tmp_path / "run.db").n_evaluations
    assert game.asked == total - 2


def test_independent_rows_are_found_in_any_batch_and_evaluated_once(tmp_path):
    game = Counted(8, independent_rows=True)
    for method, batch_size in (("gp", 7), ("finite_difference", 11), ("gp", 64)):
        options = {"threshold": 3} if method == "finite_difference" else {}
        budget = 200
        fgsv.value(
            game,
            [0, 1] * 4,
            budget=budget,
            method=method,
            batch_size=batch_size,
            ledger=tmp_path / "a.db",
            **options,
        )
    assert game.asked == len(game.coalitions)


def test_a_game_without_a_fingerprint_must_be_given_a_name(tmp_path):
    with pytest.raises(LedgerError, match=r"no fingerprint.* name it with fgsv\.Game\(fn, n_players, fingerprint="):
        fgsv.value(lambda masks: masks.sum(axis=1), [0, 1, 1], ledger=tmp_path / "run.db")


def test_two_games_with_one_name_are_told_apart(tmp_path):
    fgsv.value(Counted(20), budget=100, ledger=tmp_path / "run.db")
    with pytest.raises(LedgerError, match="Give the two games different fingerprints"):
        fgsv.value(Counted(21), budget=100, ledger=tmp_path / "run.db")


@pytest.mark.parametrize("independent_rows", [False, True])
def test_a_game_of_more_outputs_than_are_recorded_is_named(tmp_path, independent_rows):
    def named(function):
        return fgsv.Game(function, 12, fingerprint="one name", independent_rows=independent_rows)

    fgsv.value(named(lambda masks: masks.sum(axis=1)), budget=60, ledger=tmp_path / "run.db")
    two = named(lambda masks: np.stack([masks.sum(axis=1), masks.any(axis=1)], axis=1))
    with pytest.raises(fgsv.GameError, match="2 outputs, expected 1"):
        fgsv.value(two, budget=120, ledger=tmp_path / "run.db")


def test_runs_are_recorded_with_their_settings_and_their_end(tmp_path):
    result = fgsv.value(Counted(), budget=300, seed=3, ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        (run,) = ledger.runs()
    assert decode(RunSettings, run.settings) == result.settings
    assert run.settings["seed"] == 3
    assert run.end == result.end == End(Reason.BUDGET, "budget of 300 reached")
    assert run.n_evaluations == result.n_evaluations
    assert run.versions["numpy"] == np.__version__
    assert run.started <= run.ended


@pytest.mark.parametrize("n", [1, 7, 8, 1024, 1025, 5000])
def test_packed_coalitions_read_back_in_canonical_form(n):
    rng = np.random.default_rng(n)
    sizes = np.sort(rng.integers(1, n, 20)) if n > 1 else np.empty(0, int)
    drawn = draw_blocks(n, sizes, rng)[0] if n > 1 else Coalitions.ends(n)
    coalitions = Coalitions.concatenate([Coalitions.ends(n), drawn])
    packed = pack(coalitions)
    read = unpack(n, packed)
    np.testing.assert_array_equal(read.masks(), coalitions.masks())
    expected = canonical(coalitions)
    for name in ("listed", "starts", "inverted"):
        np.testing.assert_array_equal(getattr(read, name), getattr(expected, name))
    assert join(split(packed)) == packed
    # a coalition is packed alike alone, in a batch, and from the other list
    other = Coalitions.from_lists(n, [np.flatnonzero(~mask)[::-1] for mask in read.masks()], [True] * len(read))
    assert pack(other) == packed
    assert [pack(read[row : row + 1])[8:] for row in range(len(read))] == split(packed)


def test_a_batch_that_a_round_has_twice_is_evaluated_once(tmp_path):
    game = Counted(6)
    fgsv.value(game, budget=202, batch_size=1, method="permutation", ledger=tmp_path / "run.db")
    assert game.asked == len(game.coalitions) < 202


def test_a_failure_never_hides_a_value(tmp_path):
    game = fgsv.Game(lambda masks: masks.sum(axis=1), 3, fingerprint="sums", independent_rows=True)
    rows = split(pack(Coalitions.ends(3)))
    good = Outcome(np.array([[1.0], [2.0]]), 0.1)
    bad = Outcome(np.empty((1, 0)), 0.1, {"died: of cold": [0]})
    with Ledger(tmp_path / "run.db") as ledger:
        number = ledger.game(game)
        for records in ([(join(rows[:1]), bad)], [(join(rows), good)], [(join(rows[1:]), bad)]):
            ledger.find_rows(number, rows)  # so that there is an index to keep up to date
            ledger.record(number, records)
        found = ledger.find_rows(number, rows)
        assert [found[row].values for row in rows] == [[1.0], [2.0]]
        assert [found[row].failure for row in rows] == [None, None]
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert ledger.find_rows(number, rows) == found


def test_the_index_of_rows_is_a_dictionary(monkeypatch):
    monkeypatch.setattr("fgsv.ledger.records.MOST_NEW", 50)
    rng = np.random.default_rng(0)
    rows, expected = Rows(), {}
    for batch in range(1, 40):
        coalitions = [bytes(row) for row in rng.integers(0, 4, (12, 4), dtype=np.uint8)]
        rows.add(batch, coalitions)
        expected |= {coalition: (batch, row) for row, coalition in enumerate(coalitions)}
    everything = [bytes(row) for row in np.ndindex(4, 4, 4, 4)]
    found = {coalition: (batch, row) for batch, wanted in rows.find(everything).items() for coalition, row in wanted}
    assert found == expected


def test_a_utility_with_its_data_is_found_again_and_another_is_not(tmp_path):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    options = {"budget": 100, "ledger": tmp_path / "run.db"}
    first = fgsv.value(fgsv.utility(Ridge(), X, y, X, y), n_jobs=2, **options)
    again = fgsv.value(fgsv.utility(Ridge(), X.copy(), list(y), X, y), **options)
    assert bits(first) == bits(again)
    y[0] += 1e-9
    fgsv.value(fgsv.utility(Ridge(), X, y, X, y), **options)
    fgsv.value(fgsv.utility(Ridge(2.0), X, y, X, y), **options)
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert len(ledger.games()) == 3
        assert [run.game for run in ledger.runs()] == [1, 1, 2, 3]
        assert [run.id for run in ledger.runs(1)] == [run.id for run in ledger.runs() if run.game == 1]


def test_a_number_of_players_of_numpy_is_stored_as_a_number(tmp_path):
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, np.int64(8), fingerprint="roots")
    first, again = (fgsv.value(roots, budget=60, ledger=tmp_path / "run.db") for _ in range(2))
    np.testing.assert_array_equal(first.values, again.values)
    assert fgsv.verify(first, tmp_path / "run.db") == []


def test_a_game_without_a_fingerprint_is_in_no_ledger(tmp_path):
    fgsv.value(Counted(), budget=40, ledger=tmp_path / "run.db")
    unnamed = fgsv.value(Counted(fingerprint=None), budget=40)
    with pytest.raises(WrongLedger, match=r"^the game has no fingerprint, so it was not recorded in .*run\.db"):
        fgsv.verify(unnamed, tmp_path / "run.db")
