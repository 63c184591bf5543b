"""The log of a federated run: whole rounds, files that fit, and errors that name what does not."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from fgsv.federated import RoundLog
from fgsv.federated.log import LogError

MODEL = {"w": np.array([[1.0, 2.0]], dtype=np.float32), "steps": np.array(3), "lora_a": np.zeros(3, dtype=np.float32)}


def moved(by, **others):
    return {name: array + np.asarray(by, dtype=array.dtype) for name, array in MODEL.items()} | others


def two(**options):
    return {"north": moved(1), "south": moved(0)}, {"north": 3, "south": 1}


def test_what_is_written_is_read(tmp_path):
    log = RoundLog(tmp_path / "new" / "rounds", settings={"fraction_train": 1.0})
    names = {"../north/é": moved(1), ("=south", "1"): moved(2), ("=south", "2"): moved(0)}
    folder = log.write(MODEL, names, {"../north/é": 1, ("=south", "1"): 2, ("=south", "2"): 0.5})
    again = RoundLog(log.folder).read(1)
    assert log.rounds == [1]
    assert again.players == (("../north/é", ""), ("=south", "1"), ("=south", "2"))
    assert again.weights.tolist() == [1, 2, 0.5]
    assert again.before["steps"].shape == ()
    for name, array in MODEL.items():
        np.testing.assert_array_equal(again.before[name], array)
        np.testing.assert_array_equal(again.updates[1][name], np.full(array.shape, 2.0))
    assert (folder / "client-%3Dsouth+1.safetensors").is_file()
    assert {path.parent for path in tmp_path.rglob("*.safetensors")} == {folder}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["aggregation"] == {"name": "FedAvg", "settings": {"fraction_train": 1.0}}
    assert manifest["updates"] == "full"


def test_differences_half_precision_and_layers(tmp_path):
    full = RoundLog(tmp_path / "full")
    full.write(MODEL, {"a": moved(0.25)}, {"a": 1})
    changes = {name: np.full_like(array, 0.25) for name, array in MODEL.items()}
    other = RoundLog(tmp_path / "difference")
    other.write(MODEL, {"a": changes}, {"a": 1}, difference=True)
    half = RoundLog(tmp_path / "half", float16=True, layers=["lora*", "w"])
    half.write(MODEL, {"a": moved(0.25)}, {"a": 1})
    for log in (full, other, half):
        np.testing.assert_array_equal(log.read(1).updates[0]["w"], [[0.25, 0.25]])
    assert sorted(half.read(1).before) == ["lora_a", "w"]
    assert half.read(1).before["w"].dtype == np.float32


@pytest.mark.parametrize(
    ("updates", "weights", "message"),
    [
        ({"north": moved(1, w=np.zeros((2, 2)))}, {"north": 1}, r"client 'north': 'w' has shape \(2, 2\)"),
        ({"north": {"w": MODEL["w"]}}, {"north": 1}, "differ in lora_a, steps"),
        ({"north": moved(1, w=np.array([["a", "b"]]))}, {"north": 1}, "'w' .* holds what is no finite number"),
        ({"north": moved(1), "south": moved(1)}, {"north": 0, "south": 0}, "no client has a weight above zero"),
        ({"north": moved(1)}, {"north": -1}, "weight of client 'north' must be 0 or more, got -1"),
        ({"north": moved(1)}, {"north": float("nan")}, "weight of client 'north'"),
        ({"north": moved(1)}, {"south": 1}, "a number for each client: KeyError.'north'"),
        ({"north": moved(0, w=MODEL["w"] * np.nan)}, {"north": 1}, "no finite number"),
        ({}, {}, "no client has a weight above zero"),
    ],
)
def test_what_does_not_fit_is_named_and_leaves_nothing(tmp_path, updates, weights, message):
    log = RoundLog(tmp_path)
    with pytest.raises(LogError, match=message):
        log.write(MODEL, updates, weights)
    assert list(tmp_path.iterdir()) == []


def test_a_round_needs_a_global_model_and_a_place(tmp_path):
    log = RoundLog(tmp_path)
    with pytest.raises(LogError, match="a model has no array to log"):
        log.write({}, {"north": {}}, {"north": 1})
    log.write(MODEL, *two())
    with pytest.raises(LogError, match="has a round 1 already"):
        log.write(MODEL, *two(), number=1)
    with pytest.raises(LogError, match="log of another run"):
        RoundLog(tmp_path).write(MODEL, *two())
    RoundLog(tmp_path, run=log.run).write(MODEL, *two())
    assert log.rounds == [1, 2]
    with pytest.raises(LogError, match="no array to log, of w, steps, lora_a"):
        RoundLog(tmp_path, run=log.run, layers=["head"]).write(MODEL, *two())
    with pytest.raises(LogError, match=r"'w' \(float16\) holds what is no finite"):
        RoundLog(tmp_path, run=log.run, float16=True).write(MODEL, {"north": moved(1e6)}, {"north": 1})


@pytest.mark.parametrize(
    "name", ["SecAggPlus", "DifferentialPrivacyServerSideFixedClipping", "homomorphic_encryption"]
)
def test_what_hides_updates_is_refused_in_one_line(tmp_path, name):
    with pytest.raises(ValueError, match=f"each client's own update, and {name} hides it") as error:
        RoundLog(tmp_path, aggregation=name)
    assert "\n" not in str(error.value)


def test_damage_is_named(tmp_path):
    log = RoundLog(tmp_path)
    folder = log.write(MODEL, *two())
    for file, message in {
        "client-north.safetensors": "file of client 'north' is missing, or is not what was logged",
        "global.safetensors": "file of the global model is missing, or is not what was logged",
    }.items():
        whole = (folder / file).read_bytes()
        (folder / file).write_bytes(whole[:-1] + b"x")
        with pytest.raises(LogError, match=message):
            log.read(1)
        (folder / file).unlink()
        with pytest.raises(LogError, match=message.replace("damaged", "missing")):
            log.read(1)
        (folder / file).write_bytes(whole)
    text = (folder / "manifest.json").read_text()
    for wrong, message in (
        (text.replace('"schema": 1', '"schema": 9'), "install a newer fgsv"),
        (text.replace('"sha256"', '"hash"'), "is not the manifest of a round: KeyError"),
        (text[:50], "is not the manifest of a round"),
    ):
        (folder / "manifest.json").write_text(wrong)
        with pytest.raises(LogError, match=message):
            log.read(1)
    with pytest.raises(LogError, match="round 7 is not in"):
        log.read(7)


def test_a_killed_run_leaves_whole_rounds(tmp_path):
    code = """
        import os, sys
        import numpy as np
        from fgsv.federated import log as room
        log, model = room.RoundLog(sys.argv[1], run="one"), {"w": np.zeros(3)}
        log.write(model, {"a": model}, {"a": 1})
        room.os.fsync = lambda number: os._exit(9)  # the second round ends in the middle of its first file
        log.write(model, {"a": model}, {"a": 1})
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code), tmp_path], env=environment, check=False)
    assert run.returncode == 9
    log = RoundLog(tmp_path, run="one")
    assert log.rounds == [1]
    log.write(MODEL, *two())
    assert log.rounds == [1, 2]
    log.read(2)
