"""What a valuation offers: regrouping, shares, tables, files."""

import json

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity


@pytest.fixture(scope="module")
def result():
    return fgsv.value(SumOfUnanimity(24), ["a", "b", "b"] * 8, budget=2000, seed=1)


def test_values_are_sums_of_player_values(result):
    np.testing.assert_array_equal(result.values, fgsv.Partition.of(["a", "b", "b"] * 8).sums(result.player_values))
    assert result.values.sum() == pytest.approx(result.total, rel=1e-12)


def test_regrouping_is_a_run_with_other_groups(result):
    other = np.arange(24) // 5
    regrouped = result.regroup(other)
    direct = fgsv.value(SumOfUnanimity(24), other, budget=2000, seed=1)
    np.testing.assert_array_equal(regrouped.values, direct.values)
    np.testing.assert_array_equal(regrouped.stderr, direct.stderr)
    assert regrouped.names == direct.names


def test_splitting_a_group_moves_nobody_else(result):
    split = result.regroup(["a", "b", "c"] * 8)
    assert split.values[0] == result.values[0]
    assert split.stderr[0] == result.stderr[0]
    assert split.values[1:].sum() == pytest.approx(result.values[1], rel=1e-12)


def test_regrouping_is_refused_where_it_would_lie():
    game = SumOfUnanimity(12)
    with pytest.raises(ValueError, match="regrouped GSV is not"):
        fgsv.exact(fgsv.grouped(game, np.arange(12) % 3)).regroup([0, 0, 1])
    with pytest.raises(ValueError, match="one group at a time"):
        fgsv.value(game, np.arange(12) % 3, method="finite_difference").regroup([0] * 12)


def test_a_grouped_game_keeps_the_names():
    assert fgsv.exact(fgsv.grouped(Airport([1, 2, 4]), ["x", "y", "y"])).names == ("x", "y")


def test_intervals_hold_the_value_in_their_middle(result):
    low, high = result.interval(0.9).T
    np.testing.assert_allclose((low + high) / 2, result.values)
    assert (result.interval(0.99)[:, 0] < low).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        result.interval(95)


def test_shares_sum_to_one_and_need_something_to_share(result):
    assert result.shares().sum() == pytest.approx(1, abs=1e-12)
    nothing = fgsv.exact(lambda masks: -1.0 * masks.sum(axis=1), ["a", "b"])
    with pytest.raises(ValueError, match=r"positive U\(N\) - U\(0\), but it is -2"):
        nothing.shares()
    assert "share" not in nothing.to_frame()


@pytest.mark.parametrize("groups", [["a", "b", "b"] * 8, np.full((24, 2), 0.5), {("x", 1): range(24)}])
def test_a_saved_valuation_is_loaded_bit_for_bit(tmp_path, groups):
    game = SumOfUnanimity(24)
    for made in (
        fgsv.value(game, groups, budget=500),
        fgsv.value(fgsv.Game(lambda masks: np.stack([game(masks), masks.sum(axis=1)], 1), 24), groups, budget=500),
    ):
        made.save(tmp_path / "run.json")
        loaded = fgsv.Valuation.load(tmp_path / "run.json")
        for name in ("values", "stderr", "total", "player_values", "deviations"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(made, name))
        assert repr(loaded) == repr(made)
        np.testing.assert_array_equal(loaded.regroup(range(24)).stderr, made.regroup(range(24)).stderr)


def test_errors_that_are_not_known_survive_the_file(tmp_path):
    made = fgsv.value(SumOfUnanimity(24), ["a", "b"] * 12, method="finite_difference", budget=400)
    made.save(tmp_path / "run.json")
    np.testing.assert_array_equal(fgsv.Valuation.load(tmp_path / "run.json").stderr, made.stderr)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 99}', "\x00"])
def test_a_file_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(
        ValueError, match=r"other.json (is not a saved valuation|cannot be read: it has schema 99.* newer)"
    ):
        fgsv.Valuation.load(path)


def test_the_table_has_a_row_for_each_group(result):
    frame = result.to_frame()
    assert list(frame.columns) == ["group", "players", "value", "stderr", "share", "share_low", "share_high"]
    assert frame["players"].tolist() == [8, 16]
    assert json.loads(frame.to_json())["group"] == {"0": "a", "1": "b"}
    assert "a" in repr(result)


def test_a_sum_of_outputs_is_that_of_their_values(random_game):
    groups = np.arange(12) % 3
    points = fgsv.value(random_game(12, q=5), groups, budget=500)
    mean = points.combined()
    np.testing.assert_allclose(mean.values, points.values.mean(axis=1))
    alone = fgsv.value(lambda masks: random_game(12, q=5)(masks).mean(axis=1), groups, budget=500, learn="sizes")
    assert mean.total == pytest.approx(alone.total)
    assert mean.player_values.sum() == pytest.approx(mean.total)
    total = points.combined([1, 0, 0, 0, -1])
    np.testing.assert_allclose(total.values, points.values[:, 0] - points.values[:, 4])
    np.testing.assert_allclose(points.combined([0, 1, 0, 0, 0]).stderr, points.stderr[:, 1], rtol=1e-5)
    with pytest.raises(ValueError, match=r"each of the 5 outputs.*got shape \(2,\)"):
        points.combined([1, 2])


@pytest.mark.parametrize("weights", [{"acc": 1}, "accuracy", ["all", "none"], [[1], [2, 3]]])
def test_weights_that_are_no_numbers_are_told_the_outputs(weights):
    game = fgsv.Game(lambda masks: np.stack([masks.sum(axis=1), masks[:, 0]], axis=1), 3, outputs=["accuracy", "auc"])
    with pytest.raises(ValueError, match="each of the 2 outputs, in the order 'accuracy', 'auc'; got"):
        fgsv.exact(game).combined(weights)


def test_shares_that_do_not_sum_to_one_say_so():
    game = fgsv.games.SumOfUnanimity(16)
    banzhaf = fgsv.value(game, [i % 4 for i in range(16)], semivalue="banzhaf", budget=2000)
    assert not banzhaf.efficient
    assert banzhaf.shares().sum() < 0.9
    assert f"{banzhaf.shares().sum():.2%}" in banzhaf.about_shares
    assert banzhaf.about_shares in repr(banzhaf)
    shapley = fgsv.value(game, [i % 4 for i in range(16)], budget=2000)
    assert shapley.about_shares is None


def test_a_long_table_of_several_outputs_says_what_it_leaves_out():
    game = fgsv.Game(lambda masks: masks.sum(axis=1)[:, None] * np.arange(1.0, 8), 9)
    assert "... 9 groups in total, each with 7 outputs" in repr(fgsv.exact(game)).splitlines()


def test_a_file_that_cannot_be_saved_is_named_as_it_was_given(tmp_path):
    found = fgsv.exact(fgsv.games.Airport([1, 2]))
    with pytest.raises(IsADirectoryError, match=f"{tmp_path} is a folder: name a file in it"):
        found.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path / 'none'}: create it"):
        found.save(tmp_path / "none" / "x.json")


def test_a_group_by_its_name_is_its_row_of_the_arrays(result):
    game = fgsv.Game(lambda masks: masks[:, :2] * [1.0, 3.0], 4, outputs=("x", "y"))
    for found in (result, fgsv.value(game, ["a", "b", "b", "c"], budget=16)):
        for k, name in enumerate(found):
            row = found[name]
            assert (row.name, row.players) == (name, found.partition.sizes[k])
            np.testing.assert_array_equal(row.value, found.values[k])
            np.testing.assert_array_equal(row.stderr, found.stderr[k])
            np.testing.assert_array_equal(row.interval, found.interval()[k])
            np.testing.assert_array_equal(row.share, found.shares()[k])
            np.testing.assert_array_equal(row.share_interval, found.share_interval()[k])
    assert fgsv.exact(fgsv.Game(lambda masks: -masks.sum(axis=1), 2))[0].share is None
    for unknown in ("nobody", ["a"]):
        with pytest.raises(KeyError, match=r"there is no group .*: the groups are 'a', 'b'"):
            result[unknown]
    result["a"].interval[:] = 0  # a copy
    assert result["a"].interval[0] != 0


def test_a_loop_over_names_computes_intervals_once(result, monkeypatch):
    regrouped = result.regroup(range(24))
    calls, quantile = [], fgsv.valuation.valuation.t_quantile
    counting = lambda *given: calls.append(given) or quantile(*given)  # noqa: E731
    monkeypatch.setattr(fgsv.valuation.valuation, "t_quantile", counting)
    assert sum(regrouped[name].value for name in regrouped) == pytest.approx(result.total)
    assert len(calls) == 2  # once for the values and once for the shares, not for every name


def test_exact_shares_that_differ_by_rounding_alone_are_equal():
    thirds = fgsv.exact(fgsv.Game(lambda masks: np.sqrt(masks @ np.arange(1.0, 9)), 8))
    scaled = fgsv.exact(fgsv.Game(lambda masks: 3 * np.sqrt(masks @ np.arange(1.0, 9)), 8))
    assert (thirds.shares() != scaled.shares()).any()
    assert not fgsv.compare(thirds, scaled)["clear"].any()


def test_an_output_without_shares_is_named():
    game = fgsv.Game(lambda masks: masks[:, :2] * [1.0, 0.0], 3, outputs=("accuracy", "recall"))
    with pytest.raises(ValueError, match="but it is 0 for the output 'recall'"):
        fgsv.exact(game).shares()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("finished", "yes"),
        ("grouped", []),
        ("n_evaluations", 2.5),
        ("n_evaluations", True),
        ("estimate", "none"),
        ("outputs", [1]),
        ("settings", "none"),
        ("info", []),
    ],
)
def test_a_field_of_another_type_is_not_read_as_if_it_were_right(field, wrong, tmp_path):
    path = tmp_path / "valuation.json"
    fgsv.exact(fgsv.games.Airport([1, 2, 3])).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: wrong}))
    with pytest.raises(ValueError, match=rf"valuation\.json: the field '{field}' cannot be read"):
        fgsv.load(path)
