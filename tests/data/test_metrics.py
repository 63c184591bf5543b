"""The default score leaves something to share, also where one class is rare, and says why it was chosen."""

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

import fgsv
from fgsv.data.metrics import little_to_share


def write(path, rare=0.05, n=600, classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + rng.normal(size=n)
    y = (score > np.quantile(score, 1 - rare)).astype(int)
    if classes == 3:
        y[score < np.quantile(score, rare)] = 2
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, provider=rng.choice(["n", "s", "e"], n))
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("rare", "classes", "options", "metric"),
    [
        (0.4, 2, {}, "accuracy"),
        (0.05, 2, {}, "roc_auc"),
        (0.05, 3, {}, "roc_auc_ovr"),
        (0.05, 2, {"model": "sklearn.svm:SVC"}, "roc_auc"),
        (0.05, 3, {"model": SVC()}, "accuracy"),
        (0.4, 2, {"task": "regression"}, "r2"),
        (0.05, 2, {"metric": "accuracy"}, "accuracy"),
    ],
)
def test_the_rule(tmp_path, rare, classes, options, metric):
    table = fgsv.open_table(write(tmp_path / "a.csv", rare, classes=classes), group="provider", target="y", **options)
    assert table.source.metric == metric
    reasons = [note for note in table.notes if note.startswith(f"scored by {metric}")]
    assert len(reasons) == (0 if "metric" in options else 1)


def test_little_to_share_is_a_warning_that_names_other_scores():
    nearly_nothing = fgsv.value(lambda masks: masks @ [10.0, -4.0, -5.9], ["a", "b", "c"])
    (warning,) = little_to_share(nearly_nothing, "accuracy", "classification")
    assert "adds 0.1 to the score" in warning
    assert "10000%" in warning
    assert "roc_auc" in warning
    enough = fgsv.value(lambda masks: masks @ [10.0, -4.0, 3.0], ["a", "b", "c"])
    assert little_to_share(enough, "accuracy", "classification") == []


def test_the_worth_of_no_data_can_be_given(tmp_path):
    path = write(tmp_path / "a.csv", 0.4)
    options = {"group": "provider", "target": "y"}
    for metric, empty in (("accuracy", 0.25), (["accuracy", "f1"], [0.25, 0.5])):
        game = fgsv.open_table(path, **options, metric=metric, empty=empty).game
        nothing = game(np.zeros((1, game.n_players), bool)).reshape(11, -1)  # without folds it is the same
        np.testing.assert_array_equal(nothing, np.broadcast_to(empty, nothing.shape))
