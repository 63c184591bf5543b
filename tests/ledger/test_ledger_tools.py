"""Verification, merging and export: what anyone can do with a ledger without the data."""

import json
import sqlite3
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from oracles import Binomial
from typer.testing import CliRunner

import fgsv
from fgsv.cli import app
from fgsv.ledger import Ledger, WrongLedger, schema
from fgsv.ledger import tools as archive
from fgsv.methods.gp import GP
from fgsv.payout import split
from fgsv.results import Result
from fgsv.verification.record_checks import verify_records
from fgsv.verification.verify import verify

N = 12


def utility(masks):
    return np.sqrt((masks * np.arange(1, N + 1)).sum(axis=1))


def game(**options):
    return fgsv.Game(utility, N, fingerprint="roots", **options)


def run(*arguments):
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if outcome.exception and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome.exit_code, outcome.output


RUNS = {
    "default": {"budget": 200},
    "stopped early": {"stderr": 0.2, "budget": 3000},
    "sampled, then enumerated": {"stderr": 1e-9, "budget": 2**13, "learn": "sizes"},
    "ended by the clock": {"max_seconds": 1e-9, "budget": 2**13},
    "enumerated": {"budget": 2**N},
    "banzhaf": {"budget": 200, "semivalue": "beta(4, 1)"},
    "algorithm 1": {"budget": 200, "method": "finite_difference", "threshold": 4},
    "with costs": {"budget": 200, "cost": lambda sizes: 1 + sizes**0.5},
    "small batches": {"budget": 200, "batch_size": 3, "seed": 5},
    "group testing": {"budget": 400, "method": "group_testing"},
    "kernelshap": {"budget": 400, "method": "kernelshap"},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("independent_rows", [False, True])
def test_a_valuation_is_derived_again_from_its_ledger(tmp_path, name, independent_rows):
    labels = ["a", "b", "c"] * (N // 3)
    result = fgsv.value(
        game(independent_rows=independent_rows), labels, ledger=tmp_path / "run.db", **{"seed": 1} | RUNS[name]
    )
    result.save(tmp_path / "valuation.json")
    content = (tmp_path / "run.db").read_bytes()
    assert verify(fgsv.Valuation.load(tmp_path / "valuation.json"), tmp_path / "run.db") == []
    assert (tmp_path / "run.db").read_bytes() == content


def test_a_grouped_game_and_several_outputs_are_derived_again(tmp_path):
    two = fgsv.Game(lambda masks: np.stack([utility(masks)] * 2, axis=1), N, ("x", "y"), fingerprint="two")
    labels = ["a", "b", "c", "d"] * 3
    for number, kind in enumerate((two, fgsv.grouped(two, labels))):
        result = fgsv.value(kind, None if number else labels, budget=400, ledger=tmp_path / "run.db")
        result.save(tmp_path / "valuation.json")
        assert verify(fgsv.Valuation.load(tmp_path / "valuation.json"), tmp_path / "run.db") == []
    regrouped = fgsv.value(two, labels, budget=400, ledger=tmp_path / "run.db").regroup([0] * 6 + [1] * 6)
    assert verify(regrouped, tmp_path / "run.db") == []


def test_commands_write_large_counts_with_commas(tmp_path):
    named = fgsv.Game(game(), 12, fingerprint="twelve", frame="sizes", players=[f"p{k}" for k in range(12)])
    fgsv.value(named, [0, 1] * 6, budget=1_500, ledger=tmp_path / "run.db").save(tmp_path / "valuation.json")
    _, output = run("verify", tmp_path / "valuation.json", "--ledger", tmp_path / "run.db")
    assert output.startswith("same: 2 values from 1,500 recorded evaluations\n")
    code, output = run("ledger", "forget", tmp_path / "run.db", "--player", "p3")
    assert code == 0
    assert " evaluations of 1 player erased from " in output


def test_the_command_says_whether_a_valuation_is_derived_from_its_ledger(tmp_path):
    result = fgsv.value(game(), [0, 1] * 6, budget=400, ledger=tmp_path / "run.db")
    for saved, expected, words in (
        (result, 0, f"same: 2 values from {result.n_evaluations} recorded evaluations\n"),
        (replace(result, ends=np.nextafter(result.ends, np.inf)), 1, "not the same"),
    ):
        saved.save(tmp_path / "valuation.json")
        code, output = run("verify", tmp_path / "valuation.json", "--ledger", tmp_path / "run.db")
        assert (code, words in output, "trust" in output) == (expected, True, False), output


@pytest.mark.parametrize("options", [{"budget": 400}, {"precision": 0.2}, {"stderr": 0.1, "max_seconds": 60}])
def test_the_payout_and_the_end_of_a_run_are_derived_too(tmp_path, options):
    valuation = fgsv.value(game(), [0, 1, 2] * 4, ledger=tmp_path / "run.db", **options)
    paid = split(valuation, "1000.00", floor="1.00")
    path = tmp_path / "valuation.json"
    Result(valuation, payout=paid).save(path)
    assert run("verify", path, "--ledger", tmp_path / "run.db")[0] == 0
    altered = tmp_path / "altered.json"
    altered.write_text(
        path.read_text().replace(json.dumps(str(valuation.end)), json.dumps("every share is within 1e-9"))
    )
    code, output = run("verify", altered, "--ledger", tmp_path / "run.db")
    assert (code, len(output.splitlines())) == (1, 2)  # where it differs, and "not the same"


@dataclass(frozen=True)
class AtMost:
    """A rule of one's own."""

    count: int

    def __call__(self, progress):
        return "enough" if progress.n_evaluations >= self.count else None


class Mine(GP):
    """A method of one's own."""

    name = "mine"


OWN = {
    "stop": {"stop": AtMost(60)},
    "semivalue": {"semivalue": Binomial(0.3)},
    "method": {"method": Mine()},
    "proxy": {"proxy": fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.4, N)},
}


@pytest.mark.parametrize("name", OWN)
def test_a_run_with_an_object_of_ones_own_is_verified_with_that_object(tmp_path, name):
    valuation = fgsv.value(game(), [0, 1, 2] * 4, budget=200, ledger=tmp_path / "run.db", **OWN[name])
    assert valuation.settings.needs == (name,)
    valuation.save(tmp_path / "valuation.json")
    loaded = fgsv.Valuation.load(tmp_path / "valuation.json")
    with pytest.raises(ValueError, match=f"used your own {name}, which no file stores"):
        fgsv.verify(loaded, tmp_path / "run.db")
    assert fgsv.verify(loaded, tmp_path / "run.db", **OWN[name]) == []


def forge(path, shift):
    """Change a value as somebody would who knows how checksums are made."""
    with sqlite3.connect(path) as db:
        row = list(db.execute(f"SELECT {schema.COLUMNS['batch']} FROM batch").fetchone())
        row[5] = (np.frombuffer(row[5]) + shift).tobytes()
        forged = (row[5], schema.checksum(row), row[0])
        db.execute('UPDATE batch SET "values" = ?, checksum = ? WHERE id = ?', forged)
    db.close()


def test_a_forged_value_is_found_by_evaluating_again(tmp_path):
    fgsv.value(game(), budget=400, ledger=tmp_path / "run.db")
    assert verify_records(tmp_path / "run.db", game(), sample=1000) == []
    forge(tmp_path / "run.db", 1e-9)
    (first, *_) = verify_records(tmp_path / "run.db", game(), sample=1000)
    assert first.where == "batch 1, coalition 0, output 0"
    assert verify_records(tmp_path / "run.db", game(), sample=1000, tolerance=1e-6) == []


def test_the_command_evaluates_a_sample_again(tmp_path):
    (tmp_path / "market.py").write_text(
        "import fgsv\ngame = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 9, fingerprint='market')\n"
    )
    from fgsv.packages import load_object

    name = f"{tmp_path / 'market.py'}:game"
    fgsv.value(load_object(name), budget=300, ledger=tmp_path / "run.db")
    fgsv.value(game(), budget=300, ledger=tmp_path / "run.db")  # another game, of which nothing is evaluated
    code, output = run("ledger", "verify", tmp_path / "run.db", "--game", name)
    with Ledger(tmp_path / "run.db", read_only=True) as opened:
        of_market = [
            len(list(opened.batches(number))) for number, each in opened.games() if each.fingerprint == "market"
        ]
    assert f"{of_market[0]} batches re-evaluated: same" in output
    code, output = run("ledger", "verify", tmp_path / "run.db", "--game", name, "--sample", 3)
    assert code == 0
    odds = "if 5% of the batches had been forged, this sample would have missed it with probability"
    assert f"3 batches re-evaluated: same\n{odds}" in output
    forge(tmp_path / "run.db", 1.0)
    code, output = run("ledger", "verify", tmp_path / "run.db", "--game", name, "--sample", 1000)
    assert (code, output.splitlines()[-1]) == (1, "not the same")


@pytest.mark.parametrize("independent_rows", [False, True])
def test_merged_ledgers_answer_for_all(tmp_path, independent_rows):
    kind = game(independent_rows=independent_rows)
    results = [fgsv.value(kind, budget=300, seed=seed, ledger=tmp_path / f"{seed}.db") for seed in (0, 1)]
    code, output = run("ledger", "merge", tmp_path / "all.db", tmp_path / "0.db", tmp_path / "1.db")
    assert code == 0
    assert "added" in output
    for result in results:
        assert verify(result, tmp_path / "all.db") == []
    again = archive.merge(tmp_path / "all.db", [tmp_path / "0.db"])
    assert (again.added, again.different) == (0, 0)
    with Ledger(tmp_path / "all.db", read_only=True) as ledger:
        assert [run.settings["seed"] for run in ledger.runs()] == [0, 1]


def test_merging_counts_what_differs_and_keeps_what_is_there(tmp_path):
    result = fgsv.value(game(), budget=300, ledger=tmp_path / "a.db")
    fgsv.value(game(), budget=300, ledger=tmp_path / "b.db")
    forge(tmp_path / "b.db", 0.5)
    merged = archive.merge(tmp_path / "a.db", [tmp_path / "b.db"])
    assert (merged.added, merged.different, merged.largest_difference) == (0, 1, 0.5)
    assert verify(result, tmp_path / "a.db") == []


@pytest.mark.parametrize("source", ["none.db", "table.csv"])
def test_no_ledger_is_created_for_one_that_cannot_be_merged(tmp_path, source):
    (tmp_path / "table.csv").write_text("group,value\n" * 500)
    with pytest.raises(WrongLedger, match=source):
        archive.merge(tmp_path / "all.db", [tmp_path / source])
    assert not (tmp_path / "all.db").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_export_has_every_evaluation(tmp_path, suffix):
    result = fgsv.value(game(), budget=300, ledger=tmp_path / "run.db")
    code, output = run("ledger", "export", tmp_path / "run.db", tmp_path / f"out.{suffix}")
    assert (code, output.split()[0]) == (0, str(result.n_evaluations))
    table = (pd.read_csv if suffix == "csv" else pd.read_parquet)(tmp_path / f"out.{suffix}")
    masks = np.zeros((len(table), N), dtype=bool)
    for row, (players, lists) in enumerate(zip(table["players"].fillna(""), table["lists"], strict=True)):
        masks[row, [int(player) for player in str(players).replace(".0", "").split()]] = True
        masks[row] ^= lists == "left out"
    np.testing.assert_array_equal(table["value"], utility(masks))
    np.testing.assert_array_equal(table["size"], masks.sum(axis=1))


def test_show_tells_games_and_runs(tmp_path):
    fgsv.value(game(), budget=300, ledger=tmp_path / "run.db")
    code, output = run("ledger", "show", tmp_path / "run.db")
    assert code == 0
    assert "roots" in output
    assert "budget of 300 reached" in output
