"""The report in a browser: it opens offline, fits, and its what-if panel's forms are connected to the computation."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.audit import Audit
from fgsv.payout import Terms
from fgsv.planning import HistoryPoint
from fgsv.report import render
from fgsv.results import Result
from fgsv.valuation.display import Section

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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
def html(valuation):
    return render(valuation)


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
    """Open a report and return its page; at the end there must be nothing in its console and no request."""
    opened = []

    def open_it(html, width=1280, **options):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        errors, requests = [], []
        page.on("console", lambda message: errors.append(message.text))
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
    """Return what the panel's table displays: provider -> texts of share, interval, players and value."""
    lines = page.evaluate(
        "[...document.querySelectorAll('#whatif-rows tr')].map((tr) => [...tr.cells].map((c) => c.textContent))"
    )
    return {name: cells for name, *cells in lines}


def too_wide(page):
    """Return the labels of the tables that would have to be scrolled sideways."""
    boxes = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map((box) => [box.ariaLabel, box.scrollWidth, box.clientWidth])"
    )
    return [label for label, needed, given in boxes if needed > given]


def texts(page, selector):
    return page.evaluate(f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent)")


def audit_of(*attacks, gsv=(), **more):
    """Return an audit that measured these attacks: group, way, parts, gain, and its interval."""
    columns = ["group", "way", "parts", "gain", "gain_low", "gain_high"]
    return Audit(pd.DataFrame(gsv), pd.DataFrame(attacks, columns=columns), **more)


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
    assert all(page.locator(f"#chart-{each} svg").count() == 1 for each in ("shares", "whatif", "convergence"))
    assert page.evaluate("window.hacked") is None
    assert NAMES[2] in page.inner_text("#whatif-rows")


def test_what_is_to_be_corrected_is_not_cut_off(open_page, valuation):
    march, april = (Result(valuation).paid_by(Terms(amount)) for amount in ("90000.00", "100000.00"))
    page = open_page(render(replace(april, before=march)))
    assert too_wide(page) == []


def test_long_prompts_and_names_are_wrapped(open_page):
    prompts = ("zebra", "a red logo of a dragon that drinks coffee on the roof of a skyscraper at sunset, in oil")
    game = fgsv.Game(lambda masks: masks.sum(axis=1, keepdims=True) * [1.0, 2.0], 4, outputs=prompts)
    owner = "A publishing company with a very long name, formerly another one, of a place far away"
    section = Section("Documents", (), ("document", "provider", "begins with"), (("row 1", owner, prompts[1]),))
    page = open_page(render(replace(Result(fgsv.exact(game, ["a", "a", "b", "c"])), highlights=section)))
    assert too_wide(page) == []
    assert [text[0] for text in texts(page, "#chart-shares .role-legend-label text")] == [
        "z",
        "a",
    ]  # as in the tables


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_name_in_a_sentence_is_wrapped(open_page, width):
    long = "Clinic" * 40
    game = fgsv.Game(lambda masks: masks @ [3.0, -2.0], 2)
    unpaid = Result(fgsv.exact(game, [long, "south"])).paid_by(Terms(1000))
    page = open_page(render(unpaid), width)
    assert long in page.inner_text("#verdict")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_name_reads_the_same_in_charts_and_tables(open_page):
    game = fgsv.Game(lambda masks: masks @ [3.0, 2.0], 2)
    page = open_page(render(fgsv.exact(game, ["a\u202egnp", "south"])))
    shown = "a\N{REPLACEMENT CHARACTER}gnp"
    for place in ("#chart-shares", "#chart-whatif", "#whatif-rows"):
        assert shown in page.locator(place).text_content()


def test_the_panel_starts_with_the_table_of_the_valuation(open_page, valuation, html):
    page = open_page(html)
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


def test_merge_and_undo(open_page, html):
    page = open_page(html)
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


def test_split_and_reset(open_page, valuation, html):
    page = open_page(html)
    before = rows(page)
    choose(page, "split-group", "south")
    page.fill("#split-parts", "3")
    page.select_option("#split-way", "best")
    assert "Split south into 3 parts" in submit(page, "split")
    parts = [row for name, row in rows(page).items() if name.startswith("south / ")]
    assert [row["players"] for row in parts] == [5, 5, 5]
    assert parts[0]["value"] == pytest.approx(np.sort(valuation.player_values[1::4])[-5:].sum())
    page.click("#whatif-reset")
    assert rows(page) == before


def test_the_panel_has_the_money_of_the_payout(open_page, valuation):
    result = Result(valuation).paid_by(Terms("10000.00", "USD"))
    page = open_page(render(result))
    paid = {str(name): f"{part:,}" for name, part in zip(valuation.names, result.payout.payments, strict=True)}
    assert {name: cells[2] for name, cells in table(page).items()} == paid
    assert page.inner_text("#whatif-paid") == "10,000.00"
    choose(page, "split-group", "south")
    assert "their payments by 0.0" in submit(page, "split")
    parts = [row["paid"] for name, row in rows(page).items() if name.startswith("south / ")]
    assert sum(parts) == pytest.approx(float(paid["south"].replace(",", "")) * 100, abs=2)
    assert page.inner_text("#whatif-paid") == "10,000.00"


@pytest.mark.parametrize("policy", [{"clip": True}, {"floor": "1000.00"}, {"cap": "3000.00"}])
def test_the_panel_pays_by_the_policy_of_the_payout(open_page, valuation, policy):
    shells = [NAMES[i % 4] if i % 7 else f"{NAMES[i % 4]}, losses" for i in range(60)]
    start, after = (
        Result(each).paid_by(Terms("10000.00", **policy)) for each in (valuation, valuation.regroup(shells))
    )
    page = open_page(render(after))
    for result in (after, start):
        seen = [row["paid"] for row in rows(page).values()]
        expected = [float(part) * 100 for part in result.payout.payments]
        np.testing.assert_allclose(sorted(seen), sorted(expected), atol=1)
        for name in NAMES if result is after else ():
            if f"{name}, losses" in rows(page):
                choose(page, "merge-a", name)
                choose(page, "merge-b", f"{name}, losses")
                submit(page, "merge")


def test_tables_of_many_providers_have_pages_and_a_search(open_page):
    n = 300
    many = fgsv.value(fgsv.Game(lambda masks: masks @ np.arange(1.0, n + 1), n), budget=310)
    page = open_page(render(Result(many).paid_by(Terms("1000000.00", pay_anyway=True))))
    visible = "#manager .scroll >> nth=0 >> tbody tr:visible"
    assert page.locator(visible).count() == 50
    controls = page.locator(".pager >> nth=0")
    assert "1 to 50 of 300" in controls.inner_text()
    controls.get_by_role("button", name="Next").click()
    assert "51 to 100 of 300" in controls.inner_text()
    controls.get_by_label("Search").fill("123")
    assert page.locator(visible).count() >= 1
    assert "among 300" in controls.inner_text()
    controls.get_by_label("Search").fill("nobody of this name")
    assert page.locator(visible).count() == 0
    page.emulate_media(media="print")
    assert page.locator(visible).count() == n


def test_on_paper_everything_is_there_once(open_page, valuation):
    audit = audit_of(*((name, "evenly", parts, 0.1, 0.05, 0.15) for name in NAMES for parts in (2, 3, 5, 7)))
    page = open_page(render(Result(valuation, audit=audit).paid_by(Terms("100.00"))))
    assert page.locator("details[open]").count() == 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("#whatif").is_visible()
    assert page.locator("summary:visible, button:visible, input:visible, select:visible").count() == 0
    headings = page.evaluate(
        "[...document.querySelectorAll('h2, h3, caption')].filter((e) => e.checkVisibility())"
        ".map((e) => e.textContent)"
    )
    assert len(headings) == len(set(headings)) > 5
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_charts_and_text_can_be_read_in_the_dark(open_page, html):
    page = open_page(html, color_scheme="dark")
    paper, ink, label = page.evaluate(
        """() => {
          const light = (colour) => colour.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) / 765;
          const label = document.querySelector("#chart-shares .role-axis-label text");
          return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
            getComputedStyle(label).fill].map(light);
        }"""
    )
    assert paper < 0.2
    assert min(ink, label) > 0.6
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_zero_is_labelled_and_inside_every_chart_of_gains(open_page, valuation):
    page = open_page(render(Result(valuation, audit=audit_of(("north", "evenly", 2, 0.3, 0.25, 0.35)))))
    for chart in ("shares", "gains"):
        assert "0%" in texts(page, f"#chart-{chart} .role-axis-label text")
        assert "0" in page.locator(f"#chart-{chart} .mark-text text").all_text_contents()


def test_move_and_rename(open_page, valuation, html):
    page = open_page(html)
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
    assert "has 10 players" in submit(page, "move")
    choose(page, "move-to", "south")
    page.fill("#move-count", "2")
    submit(page, "move")
    assert rows(page)["south"]["players"] == 17


def test_keyboard_and_screen_readers(open_page, html):
    page = open_page(html, 390)
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
    gsv = [{"group": "north", "share": 0.2, "gsv_share": 0.3, "gsv_half_width": 0.0}]
    audit = audit_of(("north", "evenly", 2, 0.1, 0.05, 0.15), gsv=gsv, warnings=("<i>careful</i>",))
    page = open_page(render(Result(result, audit=audit), others={"site": result}))
    assert page.locator("#chart-gains svg").count() == 1
    assert "Warning: <i>careful</i>" in page.inner_text("main")
    assert result.shares()[0, 0] != pytest.approx(result.shares()[0, 1])
    assert rows(page)["north"]["share"] == result.shares()[0, 0]
    page.select_option("#whatif-output", "1")
    assert rows(page)["north"]["share"] == result.shares()[0, 1]
    assert page.inner_text("#whatif-message") == "Shares for 1."


def test_large_values_are_written_without_powers_of_ten_also_after_a_change(open_page):
    result = fgsv.value(lambda masks: 1e5 * np.sqrt(masks.sum(axis=1)), ["a", "b", "c", "d"] * 15, budget=100)
    words = open_page(render(result)).inner_text("#whatif-rows")
    assert f"{result.values[0]:.0f}" in words
    assert "e+" not in words


@pytest.fixture(scope="module")
def of_forty():
    """Return the result of forty providers with long names, of whom some are charged."""
    n = 40
    worth = np.linspace(-0.2, 3.0, n)
    names = [f"Regional Hospital of St. Mary-upon-Tyne {k}" for k in range(n)]
    valuation = fgsv.value(fgsv.Game(lambda masks: np.sqrt(9 + masks @ worth) - 3, n), names, budget=600)
    result = Result(valuation, own_warnings=("a warning of one line",)).paid_by(Terms("250000", pay_anyway=True))
    return replace(result, facts=dict.fromkeys(names, "60 rows, 6% of the rarer class, 2% of values missing"))


@pytest.mark.parametrize("n_providers", [10, 40])
def test_manager_and_lawyer_get_a_printed_page_each(open_page, valuation, of_forty, n_providers):
    groups = [f"hospital {k % 10}" for k in range(60)]
    few = Result(valuation.regroup(groups)).paid_by(Terms("250000", pay_anyway=True))
    page = open_page(render(of_forty if n_providers == 40 else few), width=680)  # 180 mm
    page.emulate_media(media="print")
    for part in ("#manager", "#lawyer"):
        assert page.locator(part).bounding_box()["height"] <= (297 - 15 - 18) * 96 / 25.4, part


def test_no_table_is_scrolled_sideways_on_a_phone(open_page, of_forty):
    attack = ("hospital 31", "found by search", 10, 0.1, 0.0918, 0.12)
    gsv = [{"group": "hospital 31", "share": 0.072, "gsv_share": 0.028, "gsv_half_width": 0.0003}]
    words = ("publisher", "document", "and publisher", "and document", "words", "which begin")
    passages = Section(
        "Passages", (), words, (("Publisher A", "row 17", "Publisher B", "row 28", 41, "once upon a time " * 3),)
    )
    audit = audit_of(attack, gsv=gsv, tables=(passages,))
    page = open_page(render(replace(of_forty, audit=audit)), width=390)
    assert page.locator(".scroll").count() > 5
    assert too_wide(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("paid", [True, False])
def test_a_printed_chart_fits_on_a_page(open_page, paid):
    result = Result(fgsv.value(fgsv.games.Airport(np.arange(1, 81)), budget=100))
    page = open_page(render(result.paid_by(Terms(100, pay_anyway=True)) if paid else result))
    page.emulate_media(media="print")
    assert 0 < page.locator("#chart-shares svg").bounding_box()["height"] <= 22 * 96 / 2.54


def test_a_valuation_without_shares_or_players_still_has_a_page(open_page):
    worthless = fgsv.value(lambda masks: -masks.sum(axis=1), ["a", "b", "b"])
    assert "nothing to share" in open_page(render(worthless)).inner_text("main")
    grouped = fgsv.value(fgsv.grouped(fgsv.games.Airport([1, 2, 3]), ["a", "b", "b"]))
    assert open_page(render(grouped)).locator("#whatif").count() == 0
