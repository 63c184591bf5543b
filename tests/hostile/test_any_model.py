"""Any model on any table: a rare class, misspelt categories, dates and missing values end no run."""

import os
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from heavy import Lazy, needs
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.utils import all_estimators

import fgsv
from fgsv.data.models import NAMES, model_of, task_of
from fgsv.utilities.scores import SCORES
from tools.other_peoples_data import made_table

lightgbm, xgboost, torch = Lazy("lightgbm"), Lazy("xgboost"), Lazy("torch")
torch_game = Lazy("fgsv.utilities.torch")
BUDGET = 20
OTHERS = [
    pytest.param("lightgbm", marks=needs("lightgbm")),
    pytest.param("xgboost", marks=needs("xgboost")),
    pytest.param("torch", marks=[needs("torch"), pytest.mark.torch]),
]
TASKS = {"classification": "outcome", "regression": "cost"}
WHOLE = os.environ.get("FGSV_HOSTILE") == "all"

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:random_state of:UserWarning"),
]


def scores_of(task):
    kind = "classifier" if task == "classification" else "regressor"
    return [name for name, score in SCORES.items() if score.kind == kind]


@cache
def opened(task, unit):
    """Return the table of a task, opened once for all models: 200 rows that train, 5% of them of the rare class."""
    frame = made_table(260, 8, rare=0.05)
    frame = frame.drop(columns=[*({"outcome", "cost"} - {TASKS[task]}), *([] if unit else ["patient"])])
    shared = {"unit": unit, "shared_units": "split"} if unit else {}
    return fgsv.open_table(frame, group="provider", target=TASKS[task], metric=scores_of(task), **shared)


def game_of(name, task, unit):
    inputs = opened(task, unit).inputs
    if name == "torch":
        width, outputs = inputs.X.shape[1], 2 if task == "classification" else 1
        rows = inputs.rows
        data = inputs.X, rows.target, inputs.X_test, rows.test_target, inputs.scores.scoring
        sgd = partial(torch.optim.SGD, lr=0.01)
        module = torch.nn.Linear(width, outputs)
        return torch_game.torch_utility(module, *data, optimizer=sgd, n_steps=20, units=rows.players.units)
    if name == "lightgbm":
        model = lightgbm.LGBMClassifier if task == "classification" else lightgbm.LGBMRegressor
        model = model(n_estimators=10, n_jobs=1, verbose=-1, random_state=0)
    elif name == "xgboost":
        model = xgboost.XGBClassifier if task == "classification" else xgboost.XGBRegressor
        model = model(n_estimators=10, n_jobs=1, random_state=0)
    else:
        model = model_of(name, task, 0) if isinstance(name, str) else name
    return replace(inputs, model=model).game()


@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_every_model_by_every_score(name, task, unit):
    if task_of(name if name in NAMES else None) not in (None, task):
        return
    game, table = game_of(name, task, unit), opened(task, unit)
    found = fgsv.value(game, table.partition, budget=BUDGET)
    assert (found.outputs, found.failures) == (tuple(scores_of(task)), None)
    assert np.isfinite(found.values).all()
    np.testing.assert_allclose(found.values.sum(axis=0), found.total, atol=1e-9)


@pytest.mark.parametrize("name", ["hgb", "mlp", *OTHERS[:2]])
def test_values_are_those_of_a_model_fitted_and_scored_by_hand(name):
    """Also on coalitions of one row, of one class, and of the second class alone."""
    game, inputs = game_of(name, "classification", None), opened("classification", None).inputs
    target = inputs.rows.target
    rare = np.flatnonzero(target == "readmitted")
    common = np.flatnonzero(target == "well")
    sets = [common[:1], rare[:1], common[:30], rare, np.r_[common[:1], rare[:1]], np.r_[common[:40], rare]]
    masks = np.zeros((len(sets), game.n_players), dtype=bool)
    for mask, rows in zip(masks, sets, strict=True):
        mask[rows] = True
    truth = (inputs.rows.test_target == "well").astype(int)
    for rows, value in zip(sets, game(masks), strict=True):
        labels = (target[np.sort(rows)] == "well").astype(int)
        if name == "lightgbm" and len(rows) == 1:
            expected = game.defaults[:5]
        else:
            chance = np.full(len(truth), float(labels[0]))
            if len(set(labels)) == 2:
                model = clone(game.learner.model).fit(inputs.X[np.sort(rows)], labels)
                chance = np.asarray(model.predict_proba(inputs.X_test)[:, 1], dtype=float)
            guess = (chance > 0.5).astype(int)
            likely = np.clip(np.stack([1 - chance, chance], axis=1), np.finfo(float).eps, 1 - np.finfo(float).eps)
            chosen = -log_loss(truth, likely / likely.sum(axis=1, keepdims=True))
            area = roc_auc_score(truth, chance)
            expected = [(guess == truth).mean(), balanced_accuracy_score(truth, guess), chosen, area, area]
        np.testing.assert_allclose(value[: len(expected)], expected, rtol=1e-6)  # the rest are folds of the test rows


LEFT_OUT = {  # they need arguments, or are deprecated
    "ClassifierChain", "FixedThresholdClassifier", "MultiOutputClassifier", "OneVsOneClassifier",
    "OneVsRestClassifier", "OutputCodeClassifier", "PassiveAggressiveClassifier", "SelfTrainingClassifier",
    "StackingClassifier", "TunedThresholdClassifierCV", "VotingClassifier",
}  # fmt: skip
CLASSIFIERS = {name: each for name, each in all_estimators("classifier") if name not in LEFT_OUT}


LABELS = [["a", "b", "c"], [1, 0], [2.0, 5.0], [False, True], ["a", "b"], [3, 1, 2]]


@pytest.mark.parametrize("labels", LABELS if WHOLE else LABELS[:2], ids=str)
@pytest.mark.parametrize("name", [*CLASSIFIERS, *OTHERS[:2]] if WHOLE else ["SVC", OTHERS[1]])
def test_a_run_of_any_classifier_ends_unless_all_rows_are_refused(name, labels):
    inputs = opened("classification", None).inputs
    model = CLASSIFIERS[name]() if name in CLASSIFIERS else game_of(name, "classification", None).model
    rng = np.random.default_rng(0)
    y, y_test = (
        np.where(each == "well", labels[0], rng.choice(labels[1:], len(each)))
        for each in (inputs.rows.target, inputs.rows.test_target)
    )
    game = fgsv.utility(model, inputs.X, y, inputs.X_test, y_test, ["accuracy", "balanced_accuracy"], units=None)
    try:
        game(np.ones((1, game.n_players), dtype=bool))
    except fgsv.GameError:
        with pytest.raises(fgsv.GameError, match="failed on the coalition of size"):
            fgsv.value(game, budget=BUDGET, on_error=0.0)
        return
    found = fgsv.value(game, budget=BUDGET, on_error=0.0)
    assert np.isfinite(found.values).all()
    assert found.failures is None or "not finite" not in found.failures.kinds
