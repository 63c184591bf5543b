"""The benchmark on the sum-of-unanimity game: checkpoints, the paper's errors, and what it says about them."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from experiments import sou


@pytest.fixture(scope="module")
def small(experiment, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sou, "N_CHECKPOINTS", 5)
        out = tmp_path_factory.mktemp("sou") / "new"
        return out, *experiment("sou", out, 8, 12, "--budget", 400, "--repeats", 2, "--jobs", 1)


def test_the_experiment_writes_a_table_a_record_and_the_figures(small):
    out, summary, record = small
    assert set(summary["n"]) == {8, 12}
    assert set(summary["method"]) == set(sou.LABELS)
    assert (summary["evaluations"] <= 400).all()
    assert record["settings"] == {"n": [8, 12], "budget": 400, "repeats": 2, "seed": 0}
    assert {path.name for path in out.glob("*.png")} == {"figure2.png", "figure5.png"}
    assert any(line.startswith("n = 12, ARE") for line in record["statements"])


def test_checkpoints_are_prefixes_of_one_run():
    game, groups = fgsv.games.SumOfUnanimity(12), np.arange(12) % 4
    estimates, n_evaluations = sou.trace(game, "one_for_all", 600, 0)
    total = game.shapley.sum()
    least = 2 + 2 * 12
    for checkpoint in (6, least - 2):
        np.testing.assert_allclose(estimates[checkpoint // 6 - 1], total / 4)
    whole = fgsv.value(game, groups, method="one_for_all", budget=600, seed=0, round_size=6, batch_size=6)
    np.testing.assert_array_equal(estimates[-1], whole.values)
    assert n_evaluations == whole.n_evaluations <= 600
    prefix = fgsv.value(game, groups, method="one_for_all", budget=300, seed=0, round_size=6, batch_size=6)
    np.testing.assert_array_equal(estimates[49], prefix.values)


def test_errors_are_those_of_the_papers_definitions():
    run = sou.measure((12, "one_for_all", 600, 0, 1))
    game = fgsv.games.SumOfUnanimity(12)
    estimates, _ = sou.trace(game, "one_for_all", 600, 1)
    errors = [np.abs(1 - estimates[:, k] / game.shapley[k::4].sum()) for k in range(4)]
    assert run["AUCC"] == pytest.approx(np.mean(errors))
    assert run["ARE"] == pytest.approx(np.mean([each[-1] for each in errors]))


def test_statements_say_what_the_numbers_say():
    row = {"n": 8, "AUCC_stderr": 0.01, "ARE_stderr": 0.01}
    table = pd.DataFrame(
        [
            {**row, "method": "gp", "AUCC": 0.1, "ARE": 0.1, "seconds": 1.0},
            {**row, "method": "finite_difference", "AUCC": 0.2, "ARE": 0.5, "seconds": 2.0},
            {**row, "method": "kernelshap", "AUCC": 0.4, "ARE": 0.3, "seconds": 3.0},
            {**row, "method": "one_for_all, unseen='zero'", "AUCC": 0.01, "ARE": 0.01, "seconds": 0.1},
        ]
    )
    said = "\n".join(sou.statements(table))
    assert "n = 8, AUCC: as in the paper, Algorithm 1 has 0.2, the best of the others, KernelSHAP, 0.4" in said
    assert "n = 8, ARE: not as in the paper, Algorithm 1 has 0.5, the best of the others, KernelSHAP, 0.3" in said
    assert "the default method has 0.1." in said
    assert "Algorithm 1 is number 1 of 2 from the fastest" in said
    table["ARE_stderr"] = 0.2
    assert "n = 8, ARE: undecided" in "\n".join(sou.statements(table))
