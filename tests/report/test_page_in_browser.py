"""The report in a browser: it opens offline, fits, and its what-if panel's forms are connected to the computation."""

import shutil

import numpy as np
import pytest

import fgsv
from fgsv.audit import Audit
from fgsv.planning import HistoryPoint
from fgsv.report import Result, render

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


@pytest.fixture(scope="module")
def valuation():
    n = 60
    weights = np.random.default_rng(0).uniform(0.5, 1.5, n)
    weights[::7] *= -0.3

    def game(masks):
        return np.sqrt(1 + np.maximum(masks @ weights, -0.9))

    return fgsv.value(game, [NAMES[i % 4] for i in range(n)], budget=1500, seed=1)


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
    """Open a report and return its page; at the end there must be no error in its console and no request."""
    opened = []

    def open_it(html, width=1280):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900})
        errors, requests = [], []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("window.fgsvCharts.then(() => true)")
        opened.append((page, errors, requests, path.as_uri()))
        return page

    yield open_it
    for page, errors, requests, own in opened:
        assert errors == []
        assert [url for url in requests if url != own and not url.startswith("data:")] == []
        page.close()


def rows(page):
    return {row["group"]: row for row in page.evaluate("window.fgsvWhatIf.rows()")}


def table(page):
    """Return what the panel's table displays: provider -> texts of share, interval, points and value."""
    lines = page.evaluate(
        "[...document.querySelectorAll('#whatif-rows tr')].map((tr) => [...tr.cells].map((c) => c.textContent))"
    )
    return {name: cells for name, *cells in lines}


def choose(page, identifier, name):
    page.select_option(f"#{identifier}", label=name)


def submit(page, action):
    page.click(f"form[data-action={action}] button")
    return page.inner_text("#whatif-message")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_opens_and_fits(open_page, valuation, width):
    history = (HistoryPoint(100, 0.2), HistoryPoint(1500, 0.05))
    page = open_page(render(Result(valuation, history=history)), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#chart-shares svg").count() == 1
    assert page.locator("#chart-whatif svg").count() == 1
    assert page.locator("#chart-convergence svg").count() == 1
    assert page.evaluate("window.hacked") is None
    assert NAMES[2] in page.inner_text("#whatif-rows")


def test_the_panel_starts_with_the_table_of_the_valuation(open_page, valuation):
    page = open_page(render(valuation))
    bounds = valuation.share_interval(0.95)
    expected = {
        name: [f"{share:.2%}", f"{low:.2%} to {high:.2%}", "15", f"{value:#.4g}"]
        for name, value, share, (low, high) in zip(
            valuation.names, valuation.values, valuation.shares(), bounds, strict=True
        )
    }
    assert table(page) == expected
    assert page.inner_text("#whatif-sum") == "100.00%"
    assert page.is_disabled("#whatif-undo")
    assert page.is_disabled("#whatif-reset")


def test_merge_and_undo(open_page, valuation):
    page = open_page(render(valuation))
    before = rows(page)
    choose(page, "merge-a", "north")
    choose(page, "merge-b", "=cmd()")
    assert "Merged north and =cmd()" in submit(page, "merge")
    after = rows(page)
    assert after.keys() == {"north + =cmd()", "south", NAMES[2]} == table(page).keys()
    merged = before["north"]["share"] + before["=cmd()"]["share"]
    assert after["north + =cmd()"]["share"] == pytest.approx(merged, rel=1e-12)
    labels = "[...document.querySelectorAll('#chart-whatif .mark-text text')].map((t) => t.textContent)"
    page.wait_for_function(f"{labels}.includes('north + =cmd()')")
    page.click("#whatif-undo")
    assert rows(page) == before
    assert page.is_disabled("#whatif-undo")


@pytest.mark.parametrize("way", ["first", "random", "best"])
def test_split_and_reset(open_page, valuation, way):
    page = open_page(render(valuation))
    before = rows(page)
    choose(page, "split-group", "south")
    page.fill("#split-parts", "3")
    page.select_option("#split-way", way)
    assert "Split south into 3 parts" in submit(page, "split")
    after = rows(page)
    parts = [row for name, row in after.items() if name.startswith("south / ")]
    assert [row["points"] for row in parts] == [5, 5, 5]
    first = valuation.player_values[1::4][:5].sum()
    best = np.sort(valuation.player_values[1::4])[-5:].sum()
    assert (parts[0]["value"] == pytest.approx(first)) == (way == "first")
    assert (parts[0]["value"] == pytest.approx(best)) == (way == "best")
    page.click("#whatif-reset")
    assert rows(page) == before


def test_move_and_rename(open_page, valuation):
    page = open_page(render(valuation))
    page.fill("#move-count", "5")
    page.select_option("#move-way", "best")
    choose(page, "move-from", "north")
    choose(page, "move-to", "a new provider")
    submit(page, "move")
    moved = rows(page)["new provider"]
    best = np.sort(valuation.player_values[0::4])[-5:]
    assert moved["value"] == pytest.approx(best.sum(), rel=1e-12)
    choose(page, "rename-group", "new provider")
    page.fill("#rename-name", "south")
    assert "already a provider named south" in submit(page, "rename")
    assert page.input_value("#rename-name") == "south"  # it can be corrected
    page.fill("#rename-name", "<b>west</b>")
    submit(page, "rename")
    assert page.input_value("#rename-name") == ""
    assert rows(page)["<b>west</b>"]["share"] == moved["share"]
    assert page.locator("#whatif-rows b").count() == 0
    page.fill("#move-count", "1000")
    assert "has 10 points" in submit(page, "move")
    choose(page, "move-to", "south")
    page.fill("#move-count", "2")
    submit(page, "move")
    assert rows(page)["south"]["points"] == 17


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


def test_an_aggregate_report_merges_whole_groups(open_page, valuation):
    page = open_page(render(valuation, aggregate_only=True))
    assert page.locator("form[data-action=split]").count() == 0
    assert page.locator("form[data-action=move]").count() == 0
    choose(page, "merge-b", "south")
    submit(page, "merge")
    assert rows(page)["north + south"]["share"] == pytest.approx(valuation.shares()[:2].sum())


def test_several_outputs_and_an_audit(open_page):
    def game(masks):
        total = masks @ np.arange(1, 21)
        return np.stack([np.sqrt(total), total], axis=1)

    result = fgsv.value(game, [NAMES[i % 4] for i in range(20)], budget=400)
    attack = {"group": "north", "way": "evenly", "parts": 2, "gain": 0.1, "gain_low": 0.05, "gain_high": 0.15}
    gsv = {"group": "north", "share": 0.2, "gsv_share": 0.3, "gsv_half_width": 0.0}
    audit = {"gsv": [gsv], "attacks": [attack], "warnings": ["<i>careful</i>"], "n_evaluations": 7, "tables": []}
    audit |= {"budget": 10, "spent": {"shell companies": 7}}
    page = open_page(render(Result(result, audit=Audit.from_dict(audit)), others={"site": result}))
    assert page.locator("#chart-gains svg").count() == 1
    assert "Warning: <i>careful</i>" in page.inner_text("main")
    assert result.shares()[0, 0] != pytest.approx(result.shares()[0, 1])
    assert rows(page)["north"]["share"] == result.shares()[0, 0]
    page.select_option("#whatif-output", "1")
    assert rows(page)["north"]["share"] == result.shares()[0, 1]
    assert page.inner_text("#whatif-message") == "Shares for 1."


def test_a_valuation_without_shares_or_players_still_has_a_page(open_page):
    worthless = fgsv.value(lambda masks: -masks.sum(axis=1), ["a", "b", "b"])
    assert "nothing to share" in open_page(render(worthless)).inner_text("main")
    grouped = fgsv.value(fgsv.grouped(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]))
    assert open_page(render(grouped)).locator("#whatif").count() == 0
