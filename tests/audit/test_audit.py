"""Attacks: what they earn under GSV is what GSV says, under FGSV nothing, and copies are found and undone."""

import tracemalloc
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import fgsv
from benchmarks import innocents
from fgsv.audit import (
    audit,
    find_copies,
    least_budget,
    policy_gains,
    shell_companies,
    table_audit,
)
from fgsv.data.choice import contents_with_target
from fgsv.payout import Terms

PAIRS = ["provider", "other", "exact", "near"]
LABELS = [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.fixture(scope="module")
def game():
    return fgsv.games.SumOfUnanimity(12)


def gsv_gain(game, labels, group, cut):
    """Return what cutting a group into the parts that `cut` numbers earns under GSV, from two exact computations."""
    before = fgsv.exact(fgsv.grouped(game, labels))
    parts = iter(cut)
    shells = [("shell", next(parts)) if label == group else label for label in labels]
    after = fgsv.exact(fgsv.grouped(game, shells))
    whole = before.values[before.names.index(group)]
    return (sum(v for v, name in zip(after.values, after.names, strict=True) if isinstance(name, tuple)) - whole) / (
        before.total
    )


def test_gains_are_those_of_the_group_shapley_value():
    labels = [*LABELS, 0, 0]
    game = fgsv.games.SumOfUnanimity(14)
    table = shell_companies(game, labels, ways=["evenly", "one by one"], budget=20_000)
    assert table[table["group"] == "0"]["parts"].tolist() == [2, 3, 5, 6]
    assert table[table["group"] == "1"]["parts"].tolist() == [2]
    for row in table.itertuples():
        cut = np.arange(labels.count(int(row.group))) % row.parts
        assert row.gain == pytest.approx(gsv_gain(game, labels, int(row.group), cut), abs=1e-12)
    np.testing.assert_allclose(table["gain_low"], table["gain_high"])  # enumerated: no error


def test_one_group_gains_nothing_by_splitting(game):
    table = shell_companies(game, ["all"] * 12, budget=2_000)
    assert table["way"].tolist()[-2:] == ["one by one", "found by search"]
    np.testing.assert_array_equal(table[["gain", "gain_low", "gain_high"]], 0)


@pytest.mark.parametrize(
    ("labels", "ways", "budget"),
    [
        ([*range(11), *[0] * 6, *[1] * 5], ["evenly"], 3000),
        ([*range(11), *[0] * 6, *[1] * 5], ["evenly"], 12_000),
        ([*range(5), *[0] * 9], ["one by one"], 400),  # every set of others, but not every set of parts
    ],
)
def test_sampled_gains_have_honest_intervals(labels, ways, budget):
    game = fgsv.games.SumOfUnanimity(len(labels), seed=3)
    truth = shell_companies(game, labels, ways=ways, budget=2**19)
    inside = []
    for seed in range(40 if budget < 10_000 else 16):
        found = shell_companies(game, labels, ways=ways, budget=budget, seed=seed)
        assert found.attrs["n_evaluations"] <= budget
        inside.append((found["gain_low"] <= truth["gain"]) & (truth["gain"] <= found["gain_high"]))
    assert np.mean(inside) >= 0.85


def test_an_audit_keeps_to_its_budget(game):
    spent = []

    def counted(masks):
        spent.append(len(masks))
        return game(masks)

    result = fgsv.value(game, LABELS, budget=200)
    least = least_budget(LABELS)
    for budget in (least, 2 * least, 10_000):
        spent.clear()
        found = audit(counted, result, budget=budget)
        assert sum(spent) == found.n_evaluations <= budget
        assert found.gsv["gsv_share"].sum() == pytest.approx(1)
    with pytest.raises(ValueError, match=f"at least {least}, got {least - 1}"):
        audit(counted, result, budget=least - 1)
    with pytest.raises(ValueError, match="2 or more"):
        audit(counted, result, parts=[1, 2])


def test_the_search_finds_at_least_what_the_plain_ways_find(game):
    rng = np.random.default_rng(0)
    table = shell_companies(game, LABELS, classes=rng.integers(0, 2, 12), budget=20_000)
    plain = table["way"].isin(["evenly", "by class", "one by one"])
    best = table[plain].groupby("group")["gain"].max()
    worst = table[table["way"] == "found by search"].set_index("group")["gain"]
    for group in ("0", "2", "3"):
        assert worst[group] >= best[group] - 1e-12


def test_another_game_than_the_one_that_was_valued_is_refused(game):
    valuation = fgsv.value(game, [i % 3 for i in range(game.n_players)], budget=200)
    for other, message in (
        (lambda masks: 2 * game(masks), "audit the game it is of"),
        (lambda masks: np.stack([game(masks)] * 2, axis=1), "the game has 2 outputs, but the valuation has one"),
    ):
        with pytest.raises(ValueError, match=message):
            audit(fgsv.Game(other, game.n_players), valuation)


def test_audit_needs_something_to_share():
    with pytest.raises(ValueError, match="must be positive"):
        shell_companies(lambda masks: -masks.sum(axis=1), LABELS)
    with pytest.raises(ValueError, match="unknown kind of split"):
        shell_companies(lambda masks: masks.sum(axis=1), LABELS, ways=["sideways"])


def test_policies_can_be_gamed_but_the_linear_one_not(game):
    result = fgsv.value(lambda masks: masks @ np.array([10.0, -4, 6]), ["a", "a", "b"])
    linear = policy_gains(result, 100)
    assert all(abs(gain) <= Decimal("0.02") for gain in linear["gain"])
    clipped = policy_gains(result, 100, clip=True)
    losses = clipped[clipped["way"] == "losses apart"]
    assert losses["gain"].tolist() == [Decimal("12.50")]
    assert not clipped.duplicated(["group", "way", "parts"]).any()  # also if a group has fewer players than parts
    floored = policy_gains(result, 100, floor=10)
    assert floored["gain"].max() > 1
    # everybody has the floor, so each further company earns one, as long as there is money for all
    even = fgsv.exact(lambda masks: masks[:, 0] + 1e-6 * masks.sum(axis=1), ["a", *"bbbbb"])
    floored = policy_gains(even, 100, floor=20, parts=[2, 3, 5]).set_index(["group", "way", "parts"])["gain"]
    assert floored["b", "evenly", 2] == 20
    assert floored["b", "evenly", 3] == 40
    assert ("b", "evenly", 5) not in floored  # six floors of 20 would be more than 100


@pytest.mark.parametrize("policy", [{"clip": True}, {"floor": "20.00"}, {"cap": "700.00"}])
def test_gains_are_differences_of_payouts_and_cost_no_intervals(game, policy, monkeypatch):
    rest = [1] * 5 + [2] * 3
    valuation = fgsv.value(game, [0] * 4 + rest, budget=300)
    whole, parts = (
        fgsv.payout.split(each, "1000.00", pay_anyway=True, **policy).payments
        for each in (valuation, valuation.regroup([0, 3, 0, 3, *rest]))
    )
    monkeypatch.setattr("fgsv.payout.splitting._half_widths", None)
    gains = policy_gains(valuation, "1000.00", parts=[2], groups=[0], **policy)
    [gain] = gains.loc[gains["way"] == "evenly", "gain"]
    assert gain == parts[0] + parts[1] - whole[0]


def market(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=60)
    return X, y, np.repeat(["a", "b", "c"], 20)


def test_exact_and_near_copies_are_found():
    X, y, groups = market()
    noisy = X[20:25] + 1e-3
    found = find_copies(
        np.vstack([X, X[:7], noisy]), np.concatenate([y, y[:7], y[20:25]]), [*groups, *["thief"] * 12]
    )
    assert found.table[PAIRS].to_dict("records") == [
        {"provider": "a", "other": "thief", "exact": 7, "near": 0},
        {"provider": "b", "other": "thief", "exact": 0, "near": 5},
    ]
    assert found.n_copies == 12
    np.testing.assert_array_equal(np.flatnonzero(~found.kept), np.arange(60, 72))


def test_missing_numbers_make_no_copies():
    X, y, groups = market()
    classes = y > 0
    X[3] = np.nan  # a row without any number must not hide what the others differ in
    X[40:50, 0] = np.nan
    X[50, 1] = np.inf
    assert find_copies(X, classes, groups).n_copies == 0
    noisy = X[45:50] + 1e-4
    found = find_copies(np.vstack([X, noisy]), [*classes, *classes[45:50]], [*groups, *["thief"] * 5])
    assert found.table[PAIRS].to_dict("records") == [{"provider": "c", "other": "thief", "exact": 0, "near": 5}]


def test_rows_that_all_have_are_no_copies_and_take_little_memory():
    rows = np.repeat(np.eye(3), 2000, axis=0)
    tracemalloc.start()
    found = find_copies(rows, np.zeros(6000), np.arange(6000) % 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.chance.n_others == 6 * 1500  # all rows of every pair, but such rows are equal by chance
    assert found.n_copies == 0
    assert peak < 20e6  # not a pair of numbers for each of six million pairs of equal rows


def test_honest_points_are_no_copies():
    X, y, groups = market()
    assert find_copies(X, y, groups).n_copies == 0
    # a dense cloud of honest points is not all copies of each other
    rng = np.random.default_rng(1)
    dense = rng.uniform(size=(5000, 2))
    found = find_copies(dense, rng.integers(0, 2, 5000), rng.integers(0, 5, 5000))
    assert found.n_copies == 0
    # equal features with another class are no copies
    assert find_copies([[1.0], [1.0], [2.0]], ["x", "y", "x"], ["a", "b", "c"]).n_copies == 0


@pytest.mark.parametrize("kind", innocents.KINDS)
def test_chance_accuses_nobody_and_real_copies_are_found(kind):
    """The campaign is `python -m benchmarks innocents`."""
    found = pd.DataFrame([innocents.measure(innocents.Task(kind, seed)) for seed in range(1000, 1020)])
    assert found["rows alike"].sum() > 5
    assert found["accused"].sum() + found["others accused"].sum() <= 3  # of 40, at most 5% expected
    assert kind == "classes" or found["copier found"].mean() >= 0.75


def test_the_test_is_that_of_fisher():
    rng = np.random.default_rng(0)
    X, owners = rng.integers(0, 12, (90, 1)).astype(float), np.repeat([0, 1, 2], [20, 40, 30])
    tested = rng.integers(0, 12, (50, 1)).astype(float)
    found = find_copies(X, np.zeros(90), owners, test=(tested, np.zeros(50)), tolerance=0).chance
    own = [np.isin(X[owners == each], X[owners == 1]).sum() for each in (0, 2)]
    repeated = sum((X[owners == 1] == value).sum() > 1 for value in X[owners == 1]) / 2
    others = own[1] + np.isin(tested, X[owners == 1]).sum() + repeated
    assert found.found[0, 1] == own[0]
    assert found.expected[0, 1] == pytest.approx(20 * others / (30 + 50 + 20))


def test_a_shuffled_copier_is_in_a_pair_without_direction():
    X, y, groups = market()
    X, y, owners = np.vstack([X, X[:12]]), np.append(y, y[:12]), np.array([*groups, *["thief"] * 12])
    order = np.random.default_rng(0).permutation(len(X))
    found = find_copies(X[order], y[order], owners[order])
    assert [{row.provider, row.other} for row in found.table.itertuples()] == [{"a", "thief"}]
    assert found.table["exact"].tolist() == [12]
    timed = find_copies(X[order], y[order], owners[order], registered=order)
    assert timed.table[PAIRS].to_dict("records") == [{"provider": "thief", "other": "a", "exact": 12, "near": 0}]


def test_one_may_hold_a_row_twice():
    rows = np.arange(40.0)[:, None].repeat(3, axis=0)  # each provider has each of its rows three times
    owners = np.repeat([0, 1, 2, 3], 30)
    rows[:3] = rows[30:33]  # one row of the next, by chance
    assert find_copies(rows, np.zeros(120), owners).n_copies == 0


def test_the_remedy_undoes_copying():
    X, y, groups = market()
    X_test, y_test, _ = market(1)

    def valued(X, y, owners):
        game = fgsv.utility(Ridge(), X, y, X_test, y_test, scoring="neg_mean_squared_error")
        return fgsv.value(game, owners, budget=300, seed=0)

    honest = valued(X[:50], y[:50], groups[:50])
    X_attacked, y_attacked = np.vstack([X[:50], X[:10]]), np.concatenate([y[:50], y[:10]])
    owners = [*groups[:50], *["c"] * 10]
    found = find_copies(X_attacked, y_attacked, owners)
    first = valued(X_attacked[found.kept], y_attacked[found.kept], found.remedy("first"))
    np.testing.assert_array_equal(first.values, honest.values)
    shared = valued(X_attacked[found.kept], y_attacked[found.kept], found.remedy("share"))
    np.testing.assert_allclose(shared.player_values, honest.player_values)
    half = honest.player_values[:10].sum() / 2
    np.testing.assert_allclose(shared.values, honest.values + np.array([-half, 0, half]))
    with pytest.raises(ValueError, match="'first' or 'share'"):
        found.remedy("last")


def test_units_keep_the_rows_that_are_their_own():
    X, y, groups = market()
    X, y = np.vstack([X[:50], X[:10]]), np.concatenate([y[:50], y[:10]])  # b copies ten rows of a
    owners = np.array([*groups[:50], *["b"] * 10])
    units = np.arange(60) // 4  # a's are 0 to 4; b's copies are in 12 (beside two of c's no longer), 13 and 14
    owners[48:50] = "b"
    found = find_copies(X, y, owners)
    np.testing.assert_array_equal(np.flatnonzero(~found.kept), np.arange(50, 60))
    assert found.units_hit(units) == (2, 1)
    first, shared = found.remedy("first", units), found.remedy("share", units)
    assert first.n_players == shared.n_players == 13
    assert first.codes.tolist() == [0] * 5 + [1] * 5 + [2] * 2 + [1]
    # units 0 and 1 are copied whole, of unit 2 two rows of four
    np.testing.assert_allclose(shared.ownership[:4, 0], [0.5, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(shared.ownership[:4, 1], [0.5, 0.5, 0.25, 0.0])


def test_numbers_are_equal_however_a_file_writes_them():
    def equal(frame, y, other, other_y):
        return sum(each in set(contents_with_target(frame, y)) for each in contents_with_target(other, other_y))

    whole = pd.DataFrame({"x": [1, 2, 3], "target": ["a", "b", "c"]})
    gaps = pd.DataFrame({"x": [1, 2, None], "target": ["a", "b", "c"]})  # others are then 1.0 and 2.0
    assert equal(whole, [0, 1, 0], gaps, [0.0, 1.0, 0.0]) == 2
    assert equal(gaps, [0, 1, 0], gaps.astype({"x": "Int64"}), [0, 1, 0]) == 3
    assert equal(whole, [0, 1, 0], whole.assign(target="d"), [0, 1, 0]) == 0
    zeros = pd.DataFrame({"x": [0.0, 1.0]})
    assert equal(zeros, [0, 1], -zeros.iloc[:1], [0]) == 1


def test_random_splits_under_a_policy_have_the_seed_of_the_audit(monkeypatch):
    seeds = []
    monkeypatch.setattr(table_audit, "policy_gains", lambda *_, seed, **__: seeds.append(seed) or pd.DataFrame())
    result = fgsv.value(lambda masks: masks @ np.array([10.0, -4, 6]), ["a", "a", "b"])
    table_audit.policy_sections(result, Terms(100, clip=True), (2,), seed=7)
    assert seeds == [7]
