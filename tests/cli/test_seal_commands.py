"""The commands of a sealed run, from the first to the last, and their mistakes."""

import json

import pytest
from cli_cases import COLUMNS, providers

from fgsv.results import Result, Seal

BUDGET = ["--budget", 120]


@pytest.fixture
def sealed(fgsv_command, train, tmp_path):
    """Seal and make a run of the table; return a folder with its files, and the commitment that was printed."""
    seal = tmp_path / "seal.json"
    text, _ = fgsv_command.done("seal", "make", train, *COLUMNS, *BUDGET, "--public-from", "the price", "--out", seal)
    commitment = text.splitlines()[0].removeprefix("commitment: ")
    options = ["--seal", seal, "--public", "1.0854", "--ledger", tmp_path / "run.db", "--out", tmp_path / "result"]
    assert fgsv_command.json("value", train, *COLUMNS, *BUDGET, *options)["sealed"]["commitment"] == commitment
    return tmp_path, commitment


def test_five_commands_from_the_seal_to_the_check(fgsv_command, sealed, train):
    folder, commitment = sealed
    saved, proof = folder / "result" / "valuation.json", folder / "proof.json"
    picked = ["--records", 20, "--random", "4 2 6"]
    made = ["seal", "challenge", saved, "--ledger", folder / "run.db", *picked, "--out", proof]
    text, _ = fgsv_command.done(*made)
    assert "22 records" in text
    assert fgsv_command(*made)[0] == 2  # it is there already
    known = ["--commitment", commitment, "--public", "1.0854", "--random", "4 2 6"]
    code, text, _ = fgsv_command("seal", "check", proof, saved, *known)
    assert (code, text.splitlines()[-1]) == (0, "same")
    text, _ = fgsv_command.done("seal", "check", proof, saved, train, *known)
    assert "these 22 records evaluated again: same" in text
    assert "if 1% of the records were forged, 20 evaluated again would show it with 18.2%" in text
    assert "there is no bound on how far forged records could move a share" in text
    code, text, _ = fgsv_command("seal", "check", proof, saved, "--random", "1 2 3", "--json")
    assert code == 1
    assert [each["where"] for each in json.loads(text)["differences"]] == ["random"]
    assert "1.0854" in (folder / "result" / "report.html").read_text(encoding="utf-8")
    other = folder / "other.csv"
    providers(seed=1).to_csv(other, index=False)
    notes = fgsv_command.refused("seal", "check", proof, saved, other)
    assert notes.splitlines()[-1].startswith("error: the seal does not fit: rows was sealed as 52")
    assert fgsv_command(*made[:-1], folder / "small.json", "--no-values")[0] == 0
    code, text, _ = fgsv_command("seal", "check", folder / "small.json", saved)
    assert code == 2
    assert "cannot tell whether the shares follow" in text


def test_the_seal_and_the_earlier_result_are_read_once(fgsv_command, sealed, train, monkeypatch):
    folder, _ = sealed
    loaded = []
    for kind in (Result, Seal):
        load = kind.load
        monkeypatch.setattr(kind, "load", lambda path, load=load: loaded.append(path) or load(path))
    saved = ["--seal", folder / "seal.json", "--before", folder / "result"]
    options = ["--public", "1.0854", "--ledger", folder / "run.db"]
    assert fgsv_command("value", train, *COLUMNS, *BUDGET, *saved, *options)[0] == 0
    assert loaded == [folder / "seal.json", folder / "result"]


def test_a_seal_warns_that_providers_know_the_split_seed(fgsv_command, train, tmp_path):
    words = "warning: providers who know the split seed (0) can choose their test rows: choose a large split seed"
    command = ["seal", "make", train, *COLUMNS, *BUDGET, "--public-from", "the price"]
    command += ["--out", tmp_path / "seal.json", "--force"]
    assert fgsv_command.done(*command)[0].count(words) == 1
    assert [f"warning: {each}"[: len(words)] for each in fgsv_command.json(*command)["warnings"]] == [words]
    for options in (["--split-seed", 83_726_154], ["--test", train]):
        assert words not in fgsv_command.done(*command, *options)[0]
