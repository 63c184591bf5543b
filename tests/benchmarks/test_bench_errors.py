"""The benchmark of the error of test rows, tiny: intervals hold, and would not without the folds."""

import sys

import pandas as pd

from benchmarks import errors


def test_intervals_hold_about_as_often_as_they_say(tmp_path, monkeypatch):
    options = ["--runs", "12", "--pool", "4000", "--test-rows", "300", "--scores", "accuracy", "roc_auc"]
    monkeypatch.setattr(sys, "argv", ["errors", *options, "--out", str(tmp_path)])
    errors.main()
    found = pd.read_csv(tmp_path / "errors.csv")
    assert found["score"].tolist() == ["accuracy", "roc_auc"]
    assert found[["values", "shares"]].min().min() > 0.8
    assert (found["width"] > 0).all()
