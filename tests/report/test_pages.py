"""The pages in a headless Chromium: what they show, ask for and complain of; with keys, on a phone, on paper."""

import json
import re
import shutil
import tomllib
from datetime import date, datetime

import polars as pl
import pytest

from ldp_core import PrivacyPlan, RandomizedResponse, UnaryEncoding, best_guess, recommend, required_epsilon
from ldp_report import LivePage, Results, planner_page, read_results, report_page

from .conftest import EVIL, EVIL_COLUMN

pytestmark = pytest.mark.browser

SHOWN = "[...document.querySelectorAll('.column:not(.off) .view:not(.off) table.bars')].at(0)"
LAST = "2024-01-22 to 2024-01-30 (in part)"  # records end on the 24th


@pytest.fixture(scope="module")
def report(results, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(report_page(read_results(results)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def planner(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "planner.html"
    file.write_text(planner_page(), encoding="utf-8")
    return file.as_uri()


def choose(page, name, value):
    page.run(
        f"(() => {{ const s = document.getElementById({name!r}); s.value = {str(value)!r}; "
        "s.dispatchEvent(new Event('change')); })()"
    )


def cells(page, table=SHOWN):
    """The texts of a table's rows: names, then numbers."""
    rows = f"[...({table}).querySelectorAll('tbody tr')]"
    return page.run(f"{rows}.map(r => [...r.querySelectorAll('th, td:not(.picture)')].map(c => c.textContent))")


def shown_window(page):
    return page.run("document.getElementById('window').selectedOptions[0].text")


def minus(text):
    return text.replace("-", "\N{MINUS SIGN}")


def number(x):
    return minus(f"{round(x):,}")


# ---- the report


def test_it_opens_in_peace(browser, report):
    """No complaint, no other address, nothing of the data that runs."""
    for options in ({}, {"dark": True}, {"width": 360, "height": 740, "mobile": True}):
        page = browser.page(report, **options)
        assert (page.complaints, page.requests) == ([], [report])
        assert page.run("document.title") == "Private estimates"
        assert page.run("document.querySelectorAll('img, b, i, iframe').length") == 0


def test_values_of_the_data_are_text(browser, report):
    page = browser.page(report)
    assert page.run("document.querySelector('.column:not(.off) h3').textContent") == EVIL_COLUMN
    page.run("document.querySelector('.view:not(.off) button.link').click()")  # all values, not the most frequent only
    assert set(EVIL) < {row[0] for row in cells(page)}
    assert "<i>null</i>" in page.run("document.getElementById('letters').textContent")
    assert page.run("document.title") == "Private estimates"


def test_arabic_names_turn_no_dates_around(browser, tmp_path):
    """2024-01-08 was shown as 08-01-2024."""
    row = {"value": "x", "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
    row |= {"window_start": "2024-01-08", "window_end": "2024-01-15"}
    (tmp_path / "page.html").write_text(report_page(Results({"\N{ARABIC LETTER MEEM}": [row]})), encoding="utf-8")
    page = browser.page((tmp_path / "page.html").as_uri())
    place = "(at) => { const n = document.querySelector('caption').firstChild, r = new Range();"
    place = f"({place} at += n.data.indexOf('2024'); r.setStart(n, at); r.setEnd(n, at + 1);"
    place += " return r.getBoundingClientRect().left; })"
    assert page.run(f"{place}(0)") < page.run(f"{place}(9)")


def test_the_page_says_from_when_to_when(browser, tmp_path):
    """Three days of windows of hours were "2024-01-01 00:00 to 18:00"."""
    row = {"value": "x", "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
    ends = [("2024-01-01T00:00", "2024-01-01T03:00"), ("2024-01-03T15:00", "2024-01-03T18:00")]
    file, rows = tmp_path / "page.html", [{**row, "window_start": a, "window_end": b} for a, b in ends]
    file.write_text(report_page(Results({"os": rows})), encoding="utf-8")
    about = browser.page(file.as_uri()).run("document.getElementById('about').textContent")
    assert about == "2024-01-01 00:00 to 2024-01-03 18:00, UTC"


def test_numbers_are_those_of_the_file(browser, report, results):
    page = browser.page(report)
    written = pl.read_parquet(results / "histograms.parquet")
    last = written.filter(pl.col("window_start") == written["window_start"].max()).sort("count", descending=True)
    expected = [
        [value, number(count), minus(f"{100 * count / n:,.2f} %"), f"{number(low)} \N{EN DASH} {number(high)}"]
        for value, count, low, high, n in last.head(20).select("value", "count", "low", "high", "n").rows()
    ]
    assert cells(page) == expected
    choose(page, "column", 1)
    means = pl.read_parquet(results / "minutes.parquet")
    found = [float(row[1]) for row in cells(page)]
    assert found == pytest.approx(means["mean"].to_list(), abs=0.06)
    tiles = page.run("[...document.querySelectorAll('#tiles dd')].map(d => d.firstChild.textContent)")
    assert tiles == ["6,000", "4", "3", "3", "9"]


def test_counts_are_of_reports_and_what_nobody_counted_is_not_there(browser, report, results, tmp_path):
    head = "document.querySelector('.column:not(.off) .view:not(.off) th.estimate').textContent"
    assert browser.page(report).run(head) == "reports"
    shutil.copy(results / "histograms.parquet", tmp_path)
    file = tmp_path / "estimated.html"
    file.write_text(report_page(read_results(tmp_path)), encoding="utf-8")
    page = browser.page(file.as_uri())
    tiles = page.run("[...document.querySelectorAll('#tiles dt')].map(d => d.textContent)")
    assert tiles == ["reports counted", "windows"]
    assert "Not known for these results" in page.run("document.getElementById('letters').textContent")
    assert page.complaints == []


def test_a_map_of_pairs_of_values(browser, tmp_path):
    row = {"count": 12.0, "low": 3.0, "high": 21.0, "rate_standard_error": 0.1, "standard_error": 4.0, "n": 30}
    pairs = [(a, b) for a in (EVIL[0], "x") for b in (False, True)]
    ends = {"rate": 0.25, "rate_low": 0.2, "rate_high": 0.3}
    rows = [{"os": a, "crashed": b, **row, **ends} for a, b in pairs[:3]]
    rows.append({"os": "x", "crashed": True, **row, **ends, "rate_low": float("-inf")})
    file = tmp_path / "page.html"
    file.write_text(report_page(Results({"both": rows}, confidence=0.9)), encoding="utf-8")
    page = browser.page(file.as_uri())
    cells = page.run("[...document.querySelectorAll('.map td')].map(c => [c.textContent, c.title])")
    assert cells[0] == ["25.0 %± 5.0", "rate 20.00 % \N{EN DASH} 30.00 %; 12 reports, 3 \N{EN DASH} 21"]
    assert cells[3][0] == "?"
    assert page.run("[...document.querySelectorAll('.map tbody th')].map(c => c.textContent)") == [EVIL[0], "x"]
    assert page.run("document.querySelectorAll('.view:not(.off) details tbody tr').length") == 4
    assert page.complaints == []


def test_all_kinds_of_estimates_are_drawn(browser, report):
    page = browser.page(report)
    for column, mark in enumerate(("rect.bar", "line.dot", ".chart path", "rect.bar")):
        choose(page, "column", column)
        assert page.run(f"document.querySelectorAll('.column:not(.off) .view:not(.off) {mark}').length") > 0
        assert page.run("document.querySelectorAll('.column:not(.off)').length") == 1
    assert "NaN" not in page.run("document.body.innerHTML")
    assert page.complaints == []


def test_medians_of_dates_and_words(browser, tmp_path):
    """They were left out: a page had a dash in their place."""
    grades = PrivacyPlan({"grade": RandomizedResponse(["none", "school", "phd"], epsilon=1.0)})
    written = {"low": "2023-12-31", "median": "2024-02-01", "high": "2024-05-01"}
    days = {name: date.fromisoformat(text) for name, text in written.items()}
    times = {name: datetime.fromisoformat(f"{text}T06:00") for name, text in written.items()}
    words = {"low": "none", "median": "school", "high": "phd"}
    columns = {"born": days, "text": written, "at": times, "grade": words}
    found = Results({name: [{**one, "n": 9}] for name, one in columns.items()}, plan=grades)
    assert found.to_json()["columns"][3]["groups"][0]["rows"] == [["", 1.0, 0.0, 2.0]]
    quantile = {"quantile": days["median"], "low": days["low"], "high": days["high"], "n": 9}
    found.columns["quarters"] = [{"probability": p, **quantile} for p in (0.25, 0.5)]
    file = tmp_path / "page.html"
    file.write_text(report_page(found), encoding="utf-8")
    page = browser.page(file.as_uri())
    day, time = tuple(written.values()), tuple(f"{text} 06:00" for text in written.values())
    for column, (low, median, high) in enumerate((day, day, time, tuple(words.values()), day)):
        choose(page, "column", column)
        assert cells(page)[0][1:] == [median, f"{low} \N{EN DASH} {high}"]
    assert page.complaints == []


def test_keys_change_the_window(browser, report):
    page = browser.page(report)
    assert shown_window(page) == LAST
    before = cells(page)
    page.key("ArrowLeft")
    assert shown_window(page) == "2024-01-14 to 2024-01-22"
    assert cells(page) != before
    assert "2024-01-14" in page.run("document.getElementById('said').textContent")
    page.key("Home")
    page.key("ArrowLeft")
    assert shown_window(page) == "2023-12-29 to 2024-01-06 (in part)"
    assert page.run("document.getElementById('before').ariaDisabled") == "true"
    page.key("End")
    assert (shown_window(page), cells(page)) == (LAST, before)
    for name in ("column", "before", "window"):  # the tab key reaches what there is to choose
        page.key("Tab")
        assert page.run("document.activeElement.id") == name
    page.run("document.getElementById('before').focus()")
    page.key("Enter")
    assert page.run("document.activeElement.id") == "before"


def test_a_phone_scrolls_in_one_direction(browser, report):
    page = browser.page(report, width=360, height=740, mobile=True)
    for column in range(4):
        choose(page, "column", column)
        assert page.run("document.documentElement.scrollWidth") == 360
        wide = "[...document.querySelectorAll('main *')].filter(e => e.offsetParent && !e.closest('.scroll, pre, svg'))"
        assert page.run(f"{wide}.filter(e => e.getBoundingClientRect().right > 361 && !e.closest('.sr')).length") == 0


def test_paper_is_few_pages(browser, report):
    """All columns of the window that was chosen, and of all windows the numbers over time."""
    page = browser.page(report)
    seen = "[...document.querySelectorAll('#columns table')].filter(t => t.checkVisibility())"
    tables = f"{seen}.map(t => t.caption.textContent)"
    assert [text.split(":")[0] for text in page.run(tables)] == [f"{EVIL_COLUMN}, {LAST}"], "numbers are folded"
    page.key("ArrowLeft")
    page.media("print")
    page.wait("document.querySelectorAll('table.bars').length > 2")
    found = page.run(tables)
    window = "2024-01-14 to 2024-01-22"
    assert [text.split(":")[0] for text in found] == [
        f"{EVIL_COLUMN}, {window}", EVIL_COLUMN, "minutes", f"word, {window}", "word"
    ]  # fmt: skip
    assert "shares by window" in found[1]
    assert page.run("[...document.querySelectorAll('form, .nothing')].filter(f => f.offsetParent).length") == 0
    assert len(re.findall(rb"/Type /Page\b", page.pdf())) <= 5


def test_what_the_numbers_are_of_is_said(browser, report, tmp_path):
    page = browser.page(report)
    text = "document.body.innerText"
    assert "nobody has the values" not in page.run(text), "untrue of files that were perturbed on a server"
    assert "ends where the next one begins" in page.run(text)
    assert "of the noise alone" in page.run(text)
    assert f"margin, 95 %, of {1250:,} reports" in page.run(text)
    choose(page, "column", 1)
    assert "of noise and sampling together" in page.run(text)
    assert "noise alone" not in page.run(text)
    row = {"value": "a", "count": 1.0, "low": 0.0, "high": 2.0, "n": 3}
    windows = [{**row, "window_start": f"2024-01-0{k}", "window_end": f"2024-01-0{k + 1}"} for k in (1, 2)]
    file = tmp_path / "results.html"
    found = Results({"os": windows, "app": windows[:1]}, doubts=["These are <b>no</b> reports."])
    file.write_text(report_page(found), encoding="utf-8")
    page = browser.page(file.as_uri())
    assert "These are <b>no</b> reports." in page.run(text)
    assert "do not say when the records begin and end" in page.run(text)
    choose(page, "column", 1)
    assert "Nothing was estimated for this window" in page.run(text)


def test_a_page_of_many_numbers_is_not_empty(browser, tmp_path):
    """Of 50,000 buckets nothing was drawn, nor of what comes below them: Math.min took each number as an argument."""
    many = [
        {"bucket_start": k, "bucket_end": k + 1, "frequency": 2e-5, "low": 0.0, "high": 1e-4} for k in range(50_000)
    ]
    (tmp_path / "page.html").write_text(report_page(Results({"age": many})), encoding="utf-8")
    page = browser.page((tmp_path / "page.html").as_uri())
    assert page.complaints == []
    assert page.run("document.querySelector('#columns figure path').getTotalLength()") > 0
    widths = "Array.from({length: 200_000}, (_, k) => ({low: 0, high: 1 + k}))"
    assert page.run(f"[LDP.decimals({widths}), LDP.ends([2, 1, 3])]") == [2, [1, 3]]


def test_ends_of_buckets_are_not_rounded(browser, tmp_path):
    """Years of 1903.25 to 1906.5 were 1,903 to 1,907."""
    ends, file = [(1900 + 3.25 * k, 1903.25 + 3.25 * k) for k in range(4)], tmp_path / "years.html"
    rows = [{"bucket_start": a, "bucket_end": b, "frequency": 0.25, "low": 0.1, "high": 0.4, "n": 9} for a, b in ends]
    file.write_text(report_page(Results({"year": rows})), encoding="utf-8")
    page = browser.page(file.as_uri())
    table = "document.querySelector('.column:not(.off) details table')"
    assert [row[0] for row in cells(page, table)] == [f"{a:,g} to {b:,g}" for a, b in ends]


def test_quantiles_are_not_rounded_beyond_their_intervals(browser, tmp_path):
    """A median of 52,025 was 52,030, of which the interval went from 52,020 to 52,030."""
    told = {"salary": (52025, 52024, 52025), "year": (1985.673828, 1985.625, 1985.78125), "exact": (52025.25,) * 3}
    columns = {
        name: [dict(zip(("quantile", "low", "high"), x, strict=True), probability=p, n=9) for p in (0.4, 0.5)]
        for name, x in told.items()
    }
    file = tmp_path / "medians.html"
    file.write_text(report_page(Results(columns)), encoding="utf-8")
    page, shown = browser.page(file.as_uri()), []
    for column in range(3):
        choose(page, "column", column)
        shown.append(cells(page)[0][1:])
    year = ["1,985.674", "1,985.625 \N{EN DASH} 1,985.781"]
    assert shown[:2] == [["52,025", "52,024 \N{EN DASH} 52,025"], year]
    assert shown[2] == ["52,025.25", "52,025.25 \N{EN DASH} 52,025.25"]
    ticks = "[...document.querySelectorAll('.column:not(.off) .axis span')].map((one) => one.textContent)"
    assert len(set(page.run(ticks))) == len(page.run(ticks))


def test_words_can_be_read(browser, report):
    """Contrast of at least 4.5 of all text, in light and dark: WCAG 2.2, 1.4.3; and whatever has a role has a name."""
    for dark in (False, True):
        page = browser.page(report, dark=dark)
        assert page.run(_CONTRAST) >= 4.5
    unnamed = "[...document.querySelectorAll('button, select, [role=img], [role=region], section')]"
    named = "e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length"
    assert page.run(f"{unnamed}.filter(e => !({named})).length") == 0
    assert page.run("document.querySelectorAll('table:not(:has(caption))').length") == 0


_CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => parse(c).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c; } };
  const texts = [...document.querySelectorAll('body *')].filter(e => e.offsetParent && !e.closest('svg, [aria-disabled=true]')
    && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  return Math.min(...texts.map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
})()"""  # fmt: skip  # noqa: E501


def test_a_job_that_runs(browser):
    """New windows appear; a chosen one stays; at the end it says so."""
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})

    def rows(second):
        window = {"window_start": f"2024-01-01T00:00:0{second}Z", "window_end": f"2024-01-01T00:00:0{second + 1}Z"}
        return [{**window, "value": v, "count": 5.0 + second, "low": 1.0, "high": 12.0, "n": 10} for v in ("no", "yes")]

    with LivePage(plan, 0.95) as live:
        page = browser.page(live.url)
        live.cover(datetime(2024, 1, 1, 0, 0, 1, 500_000))
        assert "There are no estimates yet" in page.run("document.body.textContent")
        live.add("crashed", rows(1))
        page.wait(f"{SHOWN}?.textContent.includes('00:00:02 (in part)')")  # (which was shown as a whole one)
        live.add("crashed", rows(2))
        page.wait(f"{SHOWN}?.textContent.includes('00:00:02 to')")  # it follows the newest
        page.key("ArrowLeft")
        live.add("crashed", rows(3))
        live.bury("crashed", "late", 4)
        page.wait("document.getElementById('tiles').textContent.includes('late4')")
        assert shown_window(page) == "2024-01-01 00:00:01 to 00:00:02 (in part)"
        page.key("End")
        assert cells(page)[0][1] == "8"
        assert "new windows appear" in page.run("document.getElementById('live').textContent")
        live.end()
        page.wait("document.getElementById('live').textContent.includes('has ended')")
        assert page.complaints == []
        assert {url.split("?")[0] for url in page.requests} <= {live.url, f"{live.url}data.json"}


def test_a_window_that_closes_leaves_focus_and_what_is_unfolded(browser):
    values = [f"v{k}" for k in range(30)]
    plan = PrivacyPlan({"os": UnaryEncoding(values, epsilon=1.0)})

    def rows(second):
        window = {"window_start": f"2024-01-01T00:00:0{second}Z", "window_end": f"2024-01-01T00:00:0{second + 1}Z"}
        return [{**window, "value": v, "count": 5.0, "low": 1.0, "high": 12.0, "n": 10} for v in values]

    with LivePage(plan, 0.95) as live:
        live.add("os", rows(1))
        live.add("os", rows(2))
        page = browser.page(live.url)
        focused = "document.activeElement.id || document.activeElement.textContent"
        second = 3
        unfold = "document.querySelector('.column:not(.off) details').open = true"
        page.run(f"{unfold}; document.querySelector('.view:not(.off) button.link').click()")
        for stop, name in (
            ("document.getElementById('after')", "after"),
            ("document.querySelector('.view:not(.off) button.link')", "Only the 20 most frequent"),
            ("document.querySelector('.column:not(.off) summary')", "The numbers"),
            ("document.querySelector('#plan summary')", "The same as ldp plan explain prints it"),
        ):
            page.run(f"({stop}).focus()")
            assert page.run(focused) == name
            live.add("os", rows(second))
            page.wait(f"{SHOWN}?.textContent.includes('00:00:0{second} to')")
            assert page.run(focused) == name
            assert page.run(f"{SHOWN}.querySelectorAll('tbody tr').length") == 30
            assert page.run("document.querySelector('.column:not(.off) details').open")
            second += 1


def test_a_job_that_was_stopped(browser):
    with LivePage(PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}), 0.95) as live:
        page = browser.page(live.url)
    page.wait("document.getElementById('live').textContent.includes('does not answer')")


# ---- the planner


def ask(page, **inputs):
    for name, value in inputs.items():
        if name == "shuffled":
            page.run(f"document.getElementById('shuffled').checked = {json.dumps(value)}")
        else:
            page.run(f"document.getElementById({name!r}).value = {json.dumps(str(value))}")
    page.run("document.getElementById('inputs').dispatchEvent(new Event('submit', {cancelable: true}))")


def tile(page, name):
    return page.run(f"document.getElementById('is-{name}')?.firstChild.textContent ?? null")


def test_the_planner_opens_in_peace(browser, planner):
    for options in ({}, {"dark": True}, {"width": 360, "height": 740, "mobile": True}):
        page = browser.page(planner, **options)
        assert (page.complaints, page.requests) == ([], [planner])
        assert page.run("document.documentElement.scrollWidth") == options.get("width", 1100)
        assert page.run(_CONTRAST) >= 4.5


@pytest.mark.parametrize(("people", "values", "share"), [(100_000, 16, 0.01), (10_000, 2, 0.02), (10**7, 128, 0.001)])
def test_its_answers_are_those_of_the_core(browser, planner, people, values, share):
    page = browser.page(planner)
    ask(page, people=people, values=values, smallest=100 * share)
    # told from a value that nobody has: the estimates of both are on their sides of half of the share
    needed = required_epsilon("subset_selection", share / 2, people, domain=values, frequency=share).epsilon
    given = float(tile(page, "epsilon"))
    rows = cells(page, "document.querySelector('#mechanisms table')")
    [least] = [float(row[3]) for row in rows if "subset" in row[0]]
    assert needed <= least <= 1.01 * needed, "as it is shown: three digits, rounded up"
    table = recommend(values, given, people, frequency=share)
    assert [row[0].removesuffix(" (chosen)") for row in rows] == [row.key for row in table]
    shown = [[float(cell.removesuffix(" %")) / 100 for cell in row[1:3]] for row in rows]
    assert shown == [[pytest.approx(x, rel=6e-3) for x in (row.standard_error, row.margin)] for row in table]
    guess = float(tile(page, "guess").removesuffix(" %")) / 100
    assert guess == pytest.approx(best_guess(given, values=values), rel=6e-3)


def test_its_answer_changes_with_its_inputs(browser, planner):
    page = browser.page(planner)
    seen = {tile(page, "epsilon")}
    for inputs in ({"people": "1,000,000"}, {"values": 64}, {"smallest": 0.3}):
        ask(page, **inputs)
        assert tile(page, "epsilon") not in seen
        seen.add(tile(page, "epsilon"))
    a_day = tile(page, "bytes")
    ask(page, perDay=4)
    assert tile(page, "bytes") != a_day
    assert tile(page, "central") is None
    ask(page, shuffled=True, epsilon=2)
    assert tile(page, "epsilon") == "2"
    assert float(tile(page, "central")) < 0.2
    assert "epsilon = 2\n" in page.run("document.getElementById('code-toml').textContent")
    drawn = cells(page, "document.querySelector('#seen table')")
    page.run("document.getElementById('again').click()")
    assert cells(page, "document.querySelector('#seen table')") != drawn


def test_what_cannot_be_asked_is_said(browser, planner):
    page = browser.page(planner)
    wrong = [{"people": "many"}, {"values": 1}, {"smallest": -1}, {"perDay": 0.5}, {"epsilon": "<b>"}]
    wrong += [{"epsilon": text} for text in ("0,5", "0 5", "1,500", "1.500,5", "1e1")]  # in Berlin: 0.5 and 1.5
    wrong += [{"people": text} for text in ("100.000", "1,00", "10 00", "1,000.0")]
    for inputs in wrong:
        page = browser.page(planner)
        ask(page, **inputs)
        assert not page.run("document.getElementById('wrong').hidden")
        assert page.run("document.getElementById('answer').hidden")
        assert page.run(f"document.getElementById({next(iter(inputs))!r}).ariaInvalid") == "true"
    ask(page, people="1\N{NARROW NO-BREAK SPACE}000", epsilon=" 0.5 ")
    assert (tile(page, "epsilon"), page.run("document.getElementById('wrong').hidden")) == ("0.5", True)
    ask(page, epsilon="", people=10, smallest=0.1)
    assert "not one person" in page.run("document.getElementById('wrong').textContent")
    assert page.complaints == []


def test_what_is_copied_is_what_the_page_says(browser, planner):
    """A plan of "0,5" had epsilon = 5. Planted: a clipboard that remembers."""
    page = browser.page(planner)
    page.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { copied = text; }}})")
    for inputs in ({}, {"epsilon": "1.23456789", "values": 3}):
        ask(page, **inputs)
        page.run("document.querySelector('#code-toml button').click()")
        plan = PrivacyPlan.from_dict(tomllib.loads(page.run("copied")))
        assert plan["answer"].epsilon == float(tile(page, "epsilon"))
        chosen = page.run("document.querySelector('#is-epsilon small').textContent")
        assert chosen.split(":")[0] == plan["answer"].name
    assert plan["answer"].domain.size == 3


def test_the_address_keeps_the_inputs(browser, planner):
    page = browser.page(planner)
    assert page.run("location.hash") == ""
    ask(page, people="50,000", epsilon=2, shuffled=True)
    shown = [tile(page, name) for name in ("epsilon", "error", "central")]
    again = browser.page(page.run("location.href"))
    assert [tile(again, name) for name in ("epsilon", "error", "central")] == shown
    assert again.run("document.getElementById('people').value") == "50,000"
    again.run("location.hash = '#epsilon=3'")  # another address, in the same page
    again.wait("document.getElementById('is-epsilon').textContent.startsWith('3')")
    assert tile(again, "central") is None
    page = browser.page(f"{planner}#people=%3Cb%3E")
    assert page.run("document.getElementById('answer').hidden")
    assert (page.run("document.querySelectorAll('b').length"), page.complaints) == (0, [])


def test_the_way_back_to_the_docs():
    assert '<a href="report.html#a&amp;b">' in planner_page(docs="report.html#a&b")
    assert "<a " not in planner_page()


def test_tabs_by_keys_and_the_whole_plan_on_paper(browser, planner):
    page = browser.page(planner)
    page.run("document.getElementById('tab-toml').focus()")
    for name in ("polars", "beam", "yaml", "toml"):
        page.key("ArrowRight")
        assert page.run("document.activeElement.id") == f"tab-{name}"
        shown = "[...document.querySelectorAll('#code > div')].filter(d => d.offsetParent).map(d => d.id)"
        assert page.run(shown) == [f"code-{name}"]
    page.media("print")
    assert len(page.run(shown)) == 4
