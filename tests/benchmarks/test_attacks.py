"""The benchmark of attacks: what is stopped exactly, at one small draw."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks import attacks
from benchmarks.attack_rules import RULES, detect, detectors, players_of
from benchmarks.attack_worlds import ATTACKS, COPIES, DISGUISED, ROWS, TWINS, honest, sources

RIDGE = "diabetes, ridge"


def split_of(attack, detector=("rows", "0.25")):
    """Return the world of an attack and what each rule gives to each provider."""
    world = attacks.Task(RIDGE, 0, attack=attack).world()
    copies, scores = detect(world, *detector), world.scores()
    shares = {rule: players_of(rule, world, copies).shares(scores) for rule in RULES}
    return world, {rule: dict(zip(world.names, parts, strict=True)) for rule, parts in shares.items()}


@pytest.fixture(scope="module")
def calm():
    return split_of(None)[1]


def gain(world, parts, calm, rule):
    return sum(parts[rule][name] for name in world.attackers) - sum(calm[rule][name] for name in world.before)


def test_every_rule_shares_out_the_whole_pot(calm):
    for parts in (calm, split_of("copies")[1], split_of("copies among own rows", ("model", "0.5"))[1]):
        for rule in RULES:
            assert sum(parts[rule].values()) == pytest.approx(1)


def test_splitting_merging_and_renaming_earn_nothing_where_values_are_faithful(calm):
    for attack in ("split", "merge", "rename"):
        world, parts = split_of(attack)
        for rule in RULES[1:]:
            assert gain(world, parts, calm, rule) == pytest.approx(0, abs=1e-12)
    assert abs(gain(*split_of("merge"), calm, "GSV")) > 0.01


def test_copies_that_are_found_earn_the_first_holder_everything(calm):
    for attack in COPIES:
        world, parts = split_of(attack)
        assert gain(world, parts, calm, "first holder") == pytest.approx(0, abs=1e-12)
        assert gain(world, parts, calm, "precedence") < 0.01
    world, parts = split_of("copies")
    assert gain(world, parts, calm, "FGSV") > 0.05
    assert gain(world, parts, calm, "co-owned") == pytest.approx(calm["FGSV"]["victim"] / 2)
    world, parts = split_of("copies registered first")
    assert gain(world, parts, calm, "first holder") == pytest.approx(calm["FGSV"]["victim"])


def test_look_alikes_are_one_player_of_the_quotient():
    world = attacks.Task(RIDGE, 0, attack="copies, three of each").world()
    found = players_of("quotient", world, detect(world, "rows", "0.25"))
    assert len(found.rows) == 10  # each of the victim's two players with the attacker's copies of it
    shared = found.ownership[:, world.names.index("victim")]
    assert np.sort(shared)[-2:].tolist() == [0.25, 0.25]


def test_twins_are_alike_and_nobody_has_a_row_twice():
    for source in sources().values():
        for twins in TWINS:
            world = honest(source, twins, 0)
            found = detect(world, "rows", "audit").table
            pairs = [{"other twin", "twin"}] if twins == "measured closely" else []
            assert [{row.provider, row.other} for row in found.itertuples()] == pairs
            assert found["near"].sum() > 1.5 * ROWS * len(pairs) - 1
            assert detect(world, "rows", "1").n_copies > 0
            assert not np.isin(world.pool, world.test).any()
            one, other = (world.y[world.rows_of(name)] for name in ("twin", "other twin"))
            assert np.corrcoef(one, other)[0, 1] > 0.5


def test_every_attack_is_of_the_attacker_alone():
    before = honest(sources()[RIDGE], TWINS[0], 0)
    for name, attack in ATTACKS.items():
        world = attack(before, np.random.default_rng(0))
        again = attack(before, np.random.default_rng(0))
        np.testing.assert_array_equal(world.X, again.X)
        assert set(COPIES) | set(DISGUISED) <= set(ATTACKS)
        for owner in ("victim", "twin", "other twin"):
            rows = world.rows_of(owner)
            np.testing.assert_array_equal(world.X[rows], before.X[before.rows_of(owner)], err_msg=name)


def test_the_command_writes_tables_and_a_figure(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(attacks, "ATTACKS", {name: ATTACKS[name] for name in ("split", "copies", "rescaled copies")})
    monkeypatch.setattr(attacks, "THRESHOLDS", (0.25,))
    monkeypatch.setattr("sys.argv", ["attacks", "--quick", "--jobs", "1", "--out", str(tmp_path)])
    attacks.main()
    printed = capsys.readouterr().out
    assert "copies, twins that differ: " in printed
    assert "first holder, rows, 0.25: gain at most 0.00%, loss at most 0.00%" in printed
    document = json.loads((tmp_path / "attacks.json").read_text())
    assert len(document["gains"]) == 3 * len(RULES) * len(detectors((0.25,)))
    assert len(pd.read_csv(tmp_path / "losses.csv")) == len(document["losses"]) == len(TWINS) * len(RULES) * 3
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
