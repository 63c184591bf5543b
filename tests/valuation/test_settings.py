"""Settings are data: they go to JSON and back, and a run is run again from them."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fgsv
from fgsv.files import decode, encode
from fgsv.games import SumOfUnanimity
from fgsv.results import Result
from fgsv.valuation import RunSettings

GAME = fgsv.Game(SumOfUnanimity(20), 20, fingerprint="unanimity 20")


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, float, int])
def test_a_run_with_numpy_scalars_is_verified(kind, tmp_path):
    options = {"stderr": kind(1), "max_seconds": kind(1000), "budget": np.int64(3000), "seed": np.int32(3)}
    options |= {"batch_size": np.int64(64)}
    if kind in (np.float64, np.float32, float):
        options |= {"precision": kind(0.25), "confidence": kind(0.9)}
    result = fgsv.value(GAME, ledger=tmp_path / "run.db", **options)
    result.save(tmp_path / "v.json")
    loaded = fgsv.Valuation.load(tmp_path / "v.json")
    assert loaded.settings == result.settings
    assert fgsv.verify(loaded, tmp_path / "run.db") == []


def test_every_field_survives_json():
    settings = RunSettings(
        method="gp",
        semivalue="beta(2.0, 1.0)",
        seed=3,
        budget=100,
        batch_size=8,
        options={"unbiased": np.bool_(False), "a": [np.int64(3), {"b": np.float32(0.5)}], "c": print},
        max_seconds=float("inf"),
        stderr=np.float32(0.5),
        precision=0.25,
        confidence=0.9,
        cost=(1.0, 2.0),
        on_error=np.float64(0.0),
        timeout=3.5,
        fingerprint="x",
        needs=("stop",),
    )
    again = decode(RunSettings, json.loads(json.dumps(encode(settings), allow_nan=False)))
    assert again == settings
    assert type(again.stderr) is type(again.on_error) is float
    assert again.options == {"unbiased": False, "a": [3, {"b": 0.5}], "c": repr(print)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": -1}, "seed must not be negative"),
        ({"budget": 1.5}, "budget must be a whole number"),
        ({"budget": "100"}, "budget must be a whole number"),
        ({"precision": 0}, "precision must be a positive number"),
        ({"stderr": np.nan}, "stderr must be a positive number"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"on_error": np.inf}, "on_error must be"),
        ({"on_error": None}, "on_error must be"),
    ],
)
def test_bad_settings_say_what_was_expected(change, words):
    settings = RunSettings(method="gp", semivalue="shapley", seed=0, budget=100, batch_size=8)
    with pytest.raises(ValueError, match=words):
        replace(settings, **change)


@pytest.mark.parametrize("rule", [{"precision": 0.02}, {"stderr": 4.0}, {"stop": lambda progress: "enough"}])
def test_a_regrouped_valuation_is_verified_by_the_draws_of_its_run(rule, tmp_path):
    result = fgsv.value(GAME, np.arange(20) % 5, budget=3000, ledger=tmp_path / "run.db", **rule)
    own = {name: each for name, each in rule.items() if name == "stop"}
    assert fgsv.verify(result, tmp_path / "run.db", **own) == []
    for groups in ([0] + [1] * 19, None, np.arange(20) % 2):
        regrouped = result.regroup(groups)
        assert fgsv.verify(regrouped, tmp_path / "run.db", **own) == []
    estimate = replace(regrouped.estimate, values=regrouped.estimate.values * (1 + 1e-12))
    assert fgsv.verify(replace(regrouped, estimate=estimate), tmp_path / "run.db", **own)


def test_a_result_keeps_the_confidence_of_its_run(tmp_path):
    valuation = fgsv.value(GAME, precision=0.001, confidence=0.99, budget=200, ledger=tmp_path / "run.db")
    Result(valuation, confidence=0.9).save(tmp_path / "v.json")
    loaded = Result.load(tmp_path / "v.json")
    assert (loaded.confidence, loaded.valuation.settings.confidence) == (0.9, 0.99)
    assert fgsv.verify(loaded.valuation, tmp_path / "run.db") == []
