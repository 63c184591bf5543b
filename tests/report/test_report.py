"""The report in a real browser: it opens offline, its panel adds up, and names in it are harmless."""

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import fgsv
from fgsv.partition import Partition
from fgsv.report import render
from fgsv.report.panel import quantized
from fgsv.valuation import Valuation

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

NAMES = ["north", "south", "<script>window.hacked = 1</script>", "=cmd()"]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def valuation_of(n=60, budget=1500):
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 1.5, n)
    weights[::7] *= -0.3

    def game(masks):
        return np.sqrt(1 + np.maximum(masks @ weights, -0.9))

    result = fgsv.value(game, [NAMES[i % 4] for i in range(n)], budget=budget, seed=1)
    return replace(result, info={"history": [[100, 0.2], [1500, 0.05]]})


@pytest.fixture(scope="module")
def valuation():
    return valuation_of()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as runner:
        chromium = runner.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report and return the page; at the end it must not have complained or asked for anything."""
    opened = []

    def open_it(html, width=1280):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900})
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("window.fgsvCharts.then(() => true)")
        opened.append((page, complaints, requests, path.as_uri()))
        return page

    yield open_it
    for page, complaints, requests, own in opened:
        assert complaints == []
        assert [url for url in requests if url != own and not url.startswith("data:")] == []
        page.close()


def rows(page):
    return {row["group"]: row for row in page.evaluate("window.fgsvWhatIf.rows()")}


def choose(page, identifier, name):
    page.select_option(f"#{identifier}", label=name)


@pytest.mark.parametrize("width", [390, 1280])
def test_it_opens_and_fits(open_page, valuation, width):
    page = open_page(render(valuation), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#chart-shares svg").count() == 1
    assert page.locator("#chart-whatif svg").count() == 1
    assert page.locator("#chart-convergence svg").count() == 1
    assert page.evaluate("window.hacked") is None
    assert NAMES[2] in page.inner_text("#whatif-rows")


def test_the_panel_begins_with_the_valuation_itself(open_page, valuation):
    found = rows(open_page(render(valuation)))
    bounds = valuation.share_interval(0.95)
    for name, value, share, (low, high) in zip(
        valuation.names, valuation.values, valuation.shares(), bounds, strict=True
    ):
        assert found[name]["value"] == pytest.approx(value, rel=1e-12)
        assert found[name]["share"] == pytest.approx(share, rel=1e-12)
        assert found[name]["high"] - found[name]["low"] == pytest.approx(high - low, rel=1e-3)


def test_a_merge_gives_the_sum(open_page, valuation):
    page = open_page(render(valuation))
    before = rows(page)
    choose(page, "merge-a", "north")
    choose(page, "merge-b", "=cmd()")
    page.click("form[data-action=merge] button")
    after = rows(page)
    merged = after["north + =cmd()"]
    assert merged["share"] == pytest.approx(before["north"]["share"] + before["=cmd()"]["share"], rel=1e-12)
    assert after["south"] == before["south"]
    both = valuation.regroup(["n" if i % 4 in (0, 3) else i % 4 for i in range(60)])
    low, high = both.share_interval(0.95)[both.names.index("n")]
    assert (merged["low"], merged["high"]) == pytest.approx((low, high), rel=1e-3)
    assert "Merged north" in page.inner_text("#whatif-message")
    assert "0.00%" in page.inner_text("#whatif-message")
    page.click("#whatif-undo")
    assert rows(page) == before


@pytest.mark.parametrize("way", ["first", "random", "best"])
def test_a_split_keeps_the_total_and_everybody_else(open_page, valuation, way):
    page = open_page(render(valuation))
    before = rows(page)
    choose(page, "split-group", "south")
    page.fill("#split-parts", "3")
    page.select_option("#split-way", way)
    page.click("form[data-action=split] button")
    after = rows(page)
    parts = [row for name, row in after.items() if name.startswith("south /")]
    assert len(parts) == 3
    assert sum(row["share"] for row in parts) == pytest.approx(before["south"]["share"], abs=1e-14)
    assert sum(row["points"] for row in parts) == before["south"]["points"]
    for name in (NAMES[0], NAMES[2], NAMES[3]):
        assert after[name] == before[name]
    page.click("#whatif-reset")
    assert rows(page) == before


def test_points_move_and_names_change(open_page, valuation):
    page = open_page(render(valuation))
    before = rows(page)
    page.fill("#move-count", "5")
    page.select_option("#move-way", "best")
    choose(page, "move-from", "north")
    choose(page, "move-to", "a new provider")
    page.click("form[data-action=move] button")
    moved = rows(page)["new provider"]
    own = np.sort(valuation.player_values[0::4])[::-1]
    assert moved["value"] == pytest.approx(own[:5].sum(), rel=1e-12)
    choose(page, "rename-group", "new provider")
    page.fill("#rename-name", "<b>west</b>")
    page.click("form[data-action=rename] button")
    assert rows(page)["<b>west</b>"]["share"] == moved["share"]
    assert page.locator("#whatif-rows b").count() == 0
    page.fill("#move-count", "1000")
    page.click("form[data-action=move] button")
    assert "has 10 points" in page.inner_text("#whatif-message")
    assert sum(row["share"] for row in rows(page).values()) == pytest.approx(
        sum(row["share"] for row in before.values())
    )


def test_keyboard_and_screen_readers(open_page, valuation):
    page = open_page(render(valuation), 390)
    unlabelled = page.evaluate(
        "[...document.querySelectorAll('select, input')].filter((field) => !field.labels.length).map((f) => f.id)"
    )
    assert unlabelled == []
    assert page.locator("[role=status][aria-live=polite]").count() == 1
    assert page.evaluate("[...document.querySelectorAll('.chart')].every((c) => c.getAttribute('aria-label'))")
    assert page.evaluate("document.documentElement.lang") == "en"
    page.focus("#rename-name")
    page.keyboard.type("keyed")
    page.keyboard.press("Enter")
    assert "keyed" in rows(page)


def test_an_aggregate_report_holds_no_single_points(open_page, valuation):
    html = render(valuation, aggregate_only=True)
    data = json.loads(re.search(r'id="whatif-data">(.*?)</script>', html, re.S)[1])
    assert max(len(text) for text in [data["owner"], *data["values"]]) <= len("A" * 44)  # four groups of 8 bytes
    page = open_page(html)
    assert page.locator("form[data-action=split]").count() == 0
    choose(page, "merge-b", "south")
    page.click("form[data-action=merge] button")
    assert rows(page)["north + south"]["share"] == pytest.approx(valuation.shares()[:2].sum())


def test_several_outputs_and_an_audit(open_page):
    def game(masks):
        total = masks.sum(axis=1)
        return np.stack([np.sqrt(total), total], axis=1)

    result = fgsv.value(game, [NAMES[i % 4] for i in range(20)], budget=400)
    attack = {"group": "north", "way": "evenly", "parts": 2, "gain": 0.1, "gain_low": 0.05, "gain_high": 0.15}
    gsv = {"group": "north", "share": 0.2, "gsv_share": 0.3, "gsv_half_width": 0.0}
    audit = {"gsv": [gsv], "attacks": [attack], "warnings": ["<i>mind</i>"], "n_evaluations": 7, "tables": []}
    audit |= {"budget": 10, "spent": {"shell companies": 7}}
    page = open_page(render(replace(result, info={"audit": audit}), others={"site": result}))
    assert page.locator("#chart-gains svg").count() == 1
    assert "<i>mind</i>" in page.inner_text("main")
    assert "7 evaluations of its own of the 10 that it was allowed: 7 for shell companies" in page.inner_text("main")
    page.select_option("#whatif-output", "1")
    assert rows(page)["north"]["share"] == pytest.approx(result.shares()[0, 1])


def test_a_valuation_without_shares_or_players_still_has_a_page(open_page):
    worthless = fgsv.value(lambda masks: -masks.sum(axis=1), ["a", "b", "b"])
    assert "nothing to share" in open_page(render(worthless)).inner_text("main")
    grouped = fgsv.value(fgsv.grouped(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]))
    assert open_page(render(grouped)).locator("#whatif").count() == 0


def large(n):
    rng = np.random.default_rng(0)
    players = rng.normal(1e-3, 1e-2, n)
    base = Valuation(
        partition=Partition.of(rng.integers(0, 20, n)),
        values=np.zeros(20),
        stderr=np.zeros(20),
        total=np.float64(players.sum()),
        player_values=players,
        deviations=rng.normal(size=(32, n, 1)).astype(np.float32),
        degrees_of_freedom=31,
        method="covariance",
        n_evaluations=1000,
        stopped="test",
    )
    return base.regroup(base.partition)


def test_the_report_of_50000_players_is_under_10_megabytes():
    html = render(large(50_000))
    assert len(html.encode()) < 10_000_000
    assert 'form data-action="split"' in html
    assert len(render(large(200_000)).encode()) < 10_000_000  # too many points for the page: whole groups only


def test_sixteen_bits_are_enough():
    deviations = np.random.default_rng(0).standard_t(3, size=(32, 5000, 1)).astype(np.float32)
    scales, levels = quantized(deviations)
    restored = scales[:, None] * levels
    for size in (1, 10, 1000):
        before = np.sqrt((deviations[:, :size].sum(axis=1) ** 2).sum())
        after = np.sqrt((restored[:, :size].sum(axis=1) ** 2).sum())
        assert after == pytest.approx(before, rel=1e-3)


def test_a_browser_is_there_in_continuous_integration():
    if os.environ.get("CI") == "true":
        assert shutil.which("chromium") or shutil.which("google-chrome")


def test_a_valuation_without_standard_errors_has_a_page_without_intervals():
    result = fgsv.value(fgsv.games.SumOfUnanimity(12), [0, 1, 2] * 4, method="one_for_all", budget=300)
    assert np.isnan(result.stderr).all()
    assert ">unknown</td>" in render(result)


def words_of(html):
    """Return the text of a page outside its scripts and styles, with single spaces."""
    visible = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", visible).split())


def test_the_licence_of_the_bundled_charts_is_in_the_footer():
    html = render(fgsv.value(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]))
    footer = words_of(re.search(r"<footer>.*</footer>", html, re.S)[0])
    for package in ("Vega", "Vega-Lite", "Vega-Embed"):
        assert re.search(rf"\b{package}\b", footer)
    assert "BSD 3-Clause licence" in footer
    assert footer.count("University of Washington Interactive Data Lab") == 3
    assert "Redistributions in binary form must reproduce the above copyright notice" in footer
    assert "EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE" in footer
