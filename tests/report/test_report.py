"""The report's HTML, without a browser: what is in it, what is not, and how large it is."""

import json
import re
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.audit import Audit
from fgsv.cli import console
from fgsv.data.source import Source
from fgsv.partition import Partition
from fgsv.payout import Terms
from fgsv.report import page as pages
from fgsv.report import render
from fgsv.report.charts import convergence_chart, gains_chart, share_chart
from fgsv.report.panel import quantized
from fgsv.report.sections import sections
from fgsv.results import Result
from fgsv.results.scores_without import ScoresWithout
from fgsv.valuation import End, Estimate, Reason, Valuation
from fgsv.valuation.display import Section
from fgsv.words import significant

vl_convert = pytest.importorskip("vl_convert")


def words_of(html):
    """Return the text of a page outside its scripts and styles, with single spaces."""
    visible = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", visible).split())


def test_an_aggregate_report_holds_no_single_points():
    result = fgsv.value(lambda masks: np.sqrt(masks.sum(axis=1)), ["a", "b", "c", "d"] * 15, budget=300)
    html = render(result, aggregate_only=True)
    data = json.loads(re.search(r'id="whatif-data">(.*?)</script>', html, re.S)[1])
    replicates = len(data["scales"][0])
    assert len(b64decode(data["owner"])) == 4 * 4
    assert [len(b64decode(text)) for text in data["values"]] == [4 * 8]
    assert [len(b64decode(text)) for text in data["deviations"]] == [4 * 2 * replicates]
    assert "leaves out the values of single players" in words_of(html)
    assert "not split" not in words_of(render(result))


def test_large_scores_are_written_without_powers_of_ten():
    result = fgsv.value(lambda masks: 1e5 * np.sqrt(masks.sum(axis=1)), ["a", "b", "c", "d"] * 15, budget=100)
    words = words_of(render(result))
    assert "Together their data is worth 774597 (from 0 with no data to 774597 with all of it)" in words
    assert f"{result.values[0]:.0f} {significant(result.stderr[0], 2)}" in words
    assert "e+0" not in words


def test_what_could_end_a_run_is_said_in_words():
    game, limits = fgsv.games.Airport([1, 2, 3, 4, 5, 6]), {"budget": 40, "max_seconds": 90, "precision": 0.2}
    words = words_of(render(fgsv.value(game, **limits, stderr=0.5)))
    end = "90 seconds; every standard error at most 0.5; every share within 0.2 at 95% confidence"
    assert f"may end by 40 evaluations; {end}" in words


def test_a_level_of_confidence_is_not_rounded():
    result = fgsv.value(fgsv.games.Airport([1, 2, 3, 4, 5, 6]), budget=40)
    paid = fgsv.payout.split(result, 10, confidence=0.999, pay_anyway=True)
    words = words_of(render(Result(result, payout=paid, confidence=0.975)))
    assert "Values and shares, with 97.5% intervals" in words
    assert "Payments in EUR, with 99.9% intervals" in words


def test_without_shares_the_table_promises_neither_shares_nor_intervals():
    result = fgsv.value(lambda masks: -np.sqrt(masks.sum(axis=1)), ["a", "b", "c", "d"] * 15, budget=100)
    html = render(result)
    assert "<h3>Values</h3>" in html
    assert "The standard errors cover the Monte Carlo error of 100 evaluations" in words_of(html)
    assert "with 95% intervals" not in words_of(html)


def large(n):
    rng = np.random.default_rng(0)
    players = rng.normal(1e-3, 1e-2, n)
    partition = Partition.of(rng.integers(0, 20, n))
    deviations = rng.normal(size=(32, n, 1)).astype(np.float32)
    estimate = Estimate(players[:, None], deviations, degrees_of_freedom=31, method="gp")
    return Valuation(estimate, partition, np.array([0.0, players.sum()]), 1000, End(Reason.BUDGET))


def test_the_report_of_50000_players_is_under_10_megabytes():
    html = render(large(50_000))
    assert len(html.encode()) < 10_000_000
    assert 'form data-action="split"' in html
    larger = render(large(200_000))
    assert len(larger.encode()) < 10_000_000
    assert "The values of 200,000 single players would make this page too large" in words_of(larger)


def test_sixteen_bits_are_enough():
    deviations = np.random.default_rng(0).standard_t(3, size=(32, 5000, 1)).astype(np.float32)
    scales, levels = quantized(deviations)
    restored = scales[:, None] * levels
    largest = np.abs(deviations).max(axis=1, keepdims=True)
    assert (np.abs(restored - deviations) <= 1.6e-5 * largest).all()
    for size in (1, 10, 1000):
        before = np.sqrt((deviations[:, :size].sum(axis=1) ** 2).sum())
        after = np.sqrt((restored[:, :size].sum(axis=1) ** 2).sum())
        assert after == pytest.approx(before, rel=1e-3)


def test_a_valuation_without_standard_errors_has_a_page_without_intervals():
    result = fgsv.value(fgsv.games.SumOfUnanimity(12), [0, 1, 2] * 4, method="one_for_all", budget=300)
    assert np.isnan(result.stderr).all()
    html = render(result)
    assert ">unknown</td>" in html
    assert 'id="whatif"' not in html


def test_a_name_cannot_reverse_the_amounts_after_it():
    game = fgsv.Game(lambda masks: masks @ [3.0, -2.0], 2)
    result = Result(fgsv.exact(game, ["north\u202e", "\u2067south"])).paid_by(Terms(1000))
    assert "north\u202e would be 3,000.00 EUR" in str(result.unpaid)
    html = render(result)
    assert "north\N{REPLACEMENT CHARACTER} would be 3,000.00 EUR" in html
    assert not set(html) & set("\u202e\u2067")


def test_scores_of_several_outputs_are_named():
    game = fgsv.Game(lambda masks: 1 + masks.sum(axis=1, keepdims=True) * [1.0, 2.0], 4, outputs=("red", "blue"))
    words = words_of(render(fgsv.exact(game, ["a", "a", "b", "c"])))
    assert "Together their data is worth 4 for red, 8 for blue." in words


def test_one_provider_is_not_called_several():
    html = render(fgsv.exact(fgsv.games.Airport([1, 2]), ["only", "only"]))
    assert "<h1>What the data of 1 provider is worth</h1>" in html
    assert "1 provider supplied 2 players." in html


def test_charts_are_valid_specifications():
    altair = pytest.importorskip("altair")
    frame = fgsv.value(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]).to_frame()
    gain = {"group": "a", "way": "evenly", "parts": 2, "gain": 0.1, "gain_low": 0.05, "gain_high": 0.15}
    charts = [share_chart(frame, name="rows"), share_chart(frame.assign(output="u")), gains_chart([gain])]
    for chart in charts:
        altair.LayerChart.from_dict(chart)  # raises an error at the first part that Vega-Lite does not know
    altair.Chart.from_dict(convergence_chart([[10, 0.2], [100, 0.05]]))


def test_a_chart_of_many_outputs_shows_all_shares_of_the_groups_in_it():
    """A dot that is missing would read as no share at all."""
    worth = np.stack([np.arange(1.0, 31), np.full(30, 9.0), np.arange(30.0, 0, -1)], axis=1)
    game = fgsv.Game(lambda masks: masks @ worth, 30, outputs=("u", "v", "w"))
    result = fgsv.value(game, [f"g{k}" for k in range(30)], budget=300, seed=0)
    rows = share_chart(result.to_frame())["data"]["values"]
    counts = pd.DataFrame(rows).groupby("group")["output"].count()
    assert (len(counts), set(counts)) == (20, {3})
    assert "shows the 20 providers whose shares are furthest from zero" in words_of(render(Result(result)))


def test_the_script_of_the_charts_is_made_once_wherever_it_can_be_kept(tmp_path, monkeypatch):
    made = []

    def bundle(snippet):
        made.append(snippet)
        return "</script>"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    for folder, times in ((tmp_path / "cache", 1), (tmp_path / "file", 2)):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        assert [pages._bundle.__wrapped__() for _ in range(2)] == ["<\\/script>"] * 2
        assert len(made) == times
        made.clear()
    (kept,) = (tmp_path / "cache" / "fgsv").iterdir()
    assert vl_convert.__version__ in kept.name
    kept.write_bytes(b"\xff")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert pages._bundle.__wrapped__() == "<\\/script>" == kept.read_text()


def test_the_licence_of_the_bundled_charts_is_in_the_footer():
    html = render(fgsv.value(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]))
    footer = words_of(re.search(r"<footer>.*</footer>", html, re.S)[0])
    for package in ("Vega", "Vega-Lite", "Vega-Embed"):
        assert re.search(rf"\b{package}\b", footer)
    assert "BSD 3-Clause licence" in footer
    assert footer.count("University of Washington Interactive Data Lab") == 3
    assert "Redistributions in binary form must reproduce the above copyright notice" in footer
    assert "EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE" in footer


def test_on_the_first_page_only_what_failed_is_drawn_as_a_warning(monkeypatch):
    extra = Section("Agreed", ("By all of them.",))
    for_manager = pages.for_manager
    monkeypatch.setattr(pages, "for_manager", lambda result: [*for_manager(result), extra])
    valuation = replace(fgsv.exact(fgsv.games.SumOfUnanimity(3)), finished=False)
    page = render(Result(valuation, errors=(OSError("full"),)).paid_by(Terms("900")))
    assert "<h3>Agreed</h3>\n<p>By all of them.</p>" in page
    assert re.findall(r'<p class="note warning"><strong>(\w+)', page)[:2] == ["Refused", "Failed"]


@pytest.mark.parametrize("finished", [True, False], ids=["paid", "refused"])
def test_page_terminal_and_notebook_show_the_same_sections(capsys, finished):
    worth = np.array([[1.0, 3.0], [2.0, 2.0], [-0.5, 1.0]])
    valuation = fgsv.exact(fgsv.Game(lambda masks: masks @ worth, 3, outputs=("red", "blue")), ["a", "b", "<c>"])
    audit = Audit(
        pd.DataFrame(), pd.DataFrame(), ("careful",), {"probing": 7}, tables=(Section("Copies", ("None.",)),)
    )
    result = Result(
        valuation, audit=audit, own_warnings=("few rows",), facts={"a": "has 1 row", "<c>": "has <2> rows"}
    )
    result = replace(result, others={"site": valuation}, errors=(OSError("full"),))
    result = replace(result, valuation=replace(valuation, finished=finished)).paid_by(Terms(["900", "100"]))
    page, text, html = render(result), repr(result), unescape(result._repr_html_())
    console.show_result(result)
    terminal = "".join(capsys.readouterr())
    for section in sections(result):
        for words in (*section.words, *(str(cell) for row in section.rows for cell in row)):
            said = words[0].upper() + words[1:] if section.title == "Verdict" else words
            assert said in unescape(page), section.title
            said_last = section.title in ("Refused", "Failed")  # by the command
            places = (text, html) if said_last else (text, html, terminal)
            assert section.technical or all(words in shown for shown in places), section.title
    assert [each.title for each in sections(result) if each.technical] == [
        *("What was agreed", "What is certain", "How to check it"),
        "Values and shares, with 95% intervals" if finished else "Shares by provider and output, with 95% intervals",
    ]
    titles = {each.title for each in sections(result)}
    assert titles >= {"Verdict", "Failed", "Warning"}
    assert ("Refused" in titles) != finished


def test_a_page_for_competitors_says_nothing_of_single_players_or_of_the_data_of_others():
    valuation = fgsv.value(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"])
    single = Section("Passages", ("Some.",), ("row",), (("row 17",),), shows_players=True)
    audit = Audit(pd.DataFrame(), pd.DataFrame(), tables=(single,))
    result = Result(valuation, audit=audit, highlights=single, facts={"a": "has 3 errors"})
    assert all(words in render(result) for words in ("row 17", "has 3 errors"))
    assert not any(words in render(result, aggregate_only=True) for words in ("row 17", "has 3 errors"))


def test_a_negative_value_is_explained_as_an_average_beside_the_score_without_it():
    valuation = fgsv.value(lambda masks: masks @ [1.0, 2.0, -0.5], ["a", "b", "c"])
    average = "A negative value means that, averaged over all selections of the data, adding these players lowered"
    words = words_of(
        render(Result(valuation, without=ScoresWithout(((1.5,), (0.5,), (3.125,)), ((1.0,), (2.0,), (-0.5,)))))
    )
    assert average in words
    assert "score without" in words
    assert "3.125" in words
    assert "better without" not in words
    assert average in words_of(render(valuation))
    assert average not in words_of(render(fgsv.value(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"])))


def test_the_first_page_is_dated_and_has_the_command_the_features_and_sorted_payments(monkeypatch):
    valuation = fgsv.value(lambda masks: masks @ [1.0, 5.0, 2.0], ["low", "high", "<b>mid</b>"])
    source = Source(
        "t.csv", "aa", None, None, 3, 9, {"group": ["owner"], "target": "y"},
        "regression", "Ridge()", "r2", None, (), {}, ("age", "<i>dose</i>"),
    )  # fmt: skip
    made = Result(valuation, source, made="2026-01-31T12:00:00Z", command="fgsv value 't <1>.csv'")
    html = render(made.paid_by(Terms("1000.00")))
    words = unescape(words_of(html))
    before = words[: words.index("Appendix")]
    for part in (
        "2026-01-31, 12:00:00 UTC",
        "fgsv value 't <1>.csv'",
        "age, <i>dose</i>",
        "1,000.00 EUR",
        "Payments are rounded to 0.01 EUR and add up to exactly 1,000.00 EUR",
    ):
        assert part in before, part
    assert before.index("625.00") < before.index("250.00") < before.index("125.00")
    assert "Calculated: payments are exact (Monte Carlo error only)" in before
    assert "<b>mid" not in html
    assert "<i>dose" not in html
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert "1970-01-01, 00:00:00 UTC" in render(valuation)


def test_a_result_without_the_settings_of_a_run_is_saved(tmp_path):
    """As of values in closed form, of more players than could be enumerated."""
    airport = fgsv.games.Airport(np.arange(1.0, 41))
    valuation = fgsv.exact(airport)
    assert valuation.settings is None
    Result(valuation).save(tmp_path / "valuation.json")
    loaded = Result.load(tmp_path / "valuation.json").valuation
    assert loaded.settings is None
    assert loaded.values.tolist() == valuation.values.tolist()


def test_a_report_is_written_where_python_drops_docstrings():
    code = "import fgsv; from fgsv.report import render; print(ascii(render(fgsv.exact(fgsv.games.Airport([1, 2])))))"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "field" in done.stdout
