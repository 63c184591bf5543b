"""What MLflow gets is what the result has, read back from a store of files."""

import json

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.mlflow import log_to_mlflow


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    package = pytest.importorskip("mlflow")
    package.set_tracking_uri((tmp_path / "runs").as_uri())
    return package


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_a_result_is_a_run(mlflow, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame = frame.assign(y=frame["a"] + frame["b"], provider=np.array(["north", "søuth/=1"])[np.arange(60) % 2])
    result = fgsv.pipeline.value_data(fgsv.open_table(frame, group="provider", target="y"), budget=100)
    with mlflow.start_run() as run:
        log_to_mlflow(result, aggregate_only=True)
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.params["fgsv.metric"] == "r2"
    assert logged.params["fgsv.seed"] == "0"
    shares = [logged.metrics[f"fgsv/share/{name}"] for name in ("north", "s_uth__1")]
    np.testing.assert_allclose(shares, result.valuation.shares())
    assert logged.metrics["fgsv/evaluations"] == result.valuation.n_evaluations
    folder = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="fgsv", dst_path=str(tmp_path))
    document = json.loads((tmp_path / "fgsv" / "valuation.json").read_text(encoding="utf-8"))
    assert document["partition"]["names"] == ["north", "søuth/=1"], folder


@pytest.mark.filterwarnings("ignore")
def test_a_bare_valuation_of_several_outputs(mlflow):
    def game(masks):
        return np.column_stack([masks @ [1.0, 2.0], masks @ [3.0, 1.0]])

    valuation = fgsv.value(fgsv.Game(game, 2, outputs=("first", "second")), ["a", "b"])
    with mlflow.start_run() as run:
        log_to_mlflow(valuation)
    metrics = mlflow.get_run(run.info.run_id).data.metrics
    assert metrics["fgsv/value/b/first"] == pytest.approx(2)
    assert metrics["fgsv/total/second"] == pytest.approx(4)


@pytest.mark.filterwarnings("ignore")
def test_a_result_of_texts_is_a_run(mlflow):
    rows = [(f"the {word} of the {word}", word, "test" if i == 0 else "train") for word in "abc" for i in range(3)]
    frame = pd.DataFrame(rows, columns=["body", "by", "split"])
    opened = fgsv.open_text(frame, text="body", group="by", test_by="split")
    result = fgsv.pipeline.value_data(opened, budget=70)
    with mlflow.start_run() as run:
        log_to_mlflow(result, aggregate_only=True)
    logged = mlflow.get_run(run.info.run_id).data
    assert (logged.params["fgsv.text"], logged.params["fgsv.group"]) == ("body", "by")
