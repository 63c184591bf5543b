"""Every plot returns axes that show the numbers it was given."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.planning import HistoryPoint

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def valuation():
    return fgsv.value(fgsv.games.SumOfUnanimity(16), [f"g{i % 4}" for i in range(16)], budget=400, seed=1)


def test_values_and_shares(valuation):
    ax = valuation.plot()
    np.testing.assert_allclose(ax.collections[-1].get_offsets()[:, 0], valuation.values)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(valuation.names)
    ax = fgsv.plots.shares(valuation)
    np.testing.assert_allclose(ax.collections[-1].get_offsets()[:, 0], 100 * valuation.shares())


def test_the_usual_group_value_is_not_called_faithful(valuation):
    usual = fgsv.exact(fgsv.grouped(fgsv.games.SumOfUnanimity(16), valuation.partition))
    assert valuation.plot().get_xlabel() == "faithful value, with 95% intervals"
    assert usual.plot().get_xlabel() == "usual group value (GSV), with 95% intervals"
    assert fgsv.plots.values(usual, confidence=0.999).get_xlabel() == "usual group value (GSV), with 99.9% intervals"


def test_given_axes_are_used_and_returned(valuation):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert fgsv.plots.values(valuation, ax) is ax
    assert valuation.plot(ax=ax) is ax


@pytest.mark.parametrize("path", ["values.png", Path("values.png")])
def test_a_path_instead_of_axes_is_told_how_to_save(valuation, path):
    with pytest.raises(TypeError, match=r"ax must be matplotlib axes.*figure\.savefig\('values\.png'\)"):
        valuation.plot(path)


def test_convergence(valuation):
    rounds = list(fgsv.iterate(fgsv.games.SumOfUnanimity(16), None, budget=400, seed=1))
    ax = fgsv.plots.convergence(rounds)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [each.n_evaluations for each in rounds])
    of_result = fgsv.plots.convergence([HistoryPoint(34, None), HistoryPoint(66, 0.2), HistoryPoint(98, 0.1)])
    np.testing.assert_allclose(of_result.lines[0].get_ydata(), [0.2, 0.1])
    with pytest.raises(ValueError, match=r"fgsv\.iterate"):
        fgsv.plots.convergence(valuation)
    with pytest.raises(ValueError, match="the values are exact, or their errors are unknown"):
        fgsv.plots.convergence(fgsv.iterate(fgsv.games.Airport([1, 2, 3])))


def test_a_dollar_in_a_name_begins_no_formula(tmp_path):
    names = ["$\\frac$", "$b", "c"]
    game = fgsv.Game(lambda masks: masks @ np.eye(3)[:, :2], 3, outputs=["$\\sqrt$", "two"])
    ax = fgsv.exact(game, names).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    ax.figure.savefig(tmp_path / "names.png")


def test_attack():
    gains = pd.DataFrame(
        {
            "group": ["a", "b"],
            "way": "evenly",
            "parts": 2,
            "gain": [0.1, 0.2],
            "gain_low": [0.0, 0.1],
            "gain_high": [0.2, 0.3],
        }
    )
    ax = fgsv.plots.attack(gains)
    assert ax.lines[0].get_xdata().tolist() == pytest.approx([10, 20])


def test_many_groups_and_outputs():
    many = fgsv.value(lambda masks: np.stack([masks.sum(1), masks[:, 0]], 1), list(range(60)), budget=200)
    ax = many.plot()
    assert "the 40 of 60 groups furthest from zero" in ax.get_title(loc="left")
    assert ax.get_legend() is not None


def test_no_legend_covers_an_interval():
    """Its dots would look like values."""
    game = fgsv.Game(lambda masks: masks @ np.array([[1.0, 9.0], [1.0, 1.0], [1.0, 1.0]]), 3, outputs=["one", "two"])
    ax = fgsv.exact(game).plot()
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_of_many_groups_the_largest_are_drawn_in_their_own_order():
    worth = np.where(np.arange(60) % 3 == 2, -5.0 - np.arange(60), 0.01)
    ax = fgsv.value(lambda masks: masks @ worth, list(range(60)), budget=200, seed=0).plot()
    drawn = [int(label.get_text()) for label in ax.get_yticklabels()]
    assert drawn == sorted(drawn)
    assert set(range(2, 60, 3)) <= set(drawn)
    assert len(drawn) == 40


def test_prudence():
    diagnosis = fgsv.diagnose(fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 30), budget=600)
    ax = fgsv.plots.prudence(diagnosis)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), diagnosis.by_size["smoothed"])


def test_differences_at_too_few_sizes_have_no_slope():
    diagnosis = fgsv.diagnose(fgsv.Game(lambda masks: masks.sum(axis=1) + 0.0, 24), budget=600)
    assert np.isnan(diagnosis.second_order.exponent)
    texts = [
        text.get_text() for panel in fgsv.plots.stability(diagnosis).axes for text in panel.get_legend().get_texts()
    ]
    assert "size^-0.00" in texts or "size^0.00" in texts
    assert not any("nan" in text for text in texts)
