"""The HTML report in a real browser: nothing is requested, nothing in any name runs, and it is there to be read.

Needs a Chromium on this machine; where there is none these tests are skipped. REDLINE_CHROMIUM names another one.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from redline.findings.finding import Limit
from redline.findings.pages import codes
from redline.report.html.diagnose.page import headline_of
from redline.report.language import speaking
from redline.report.terminal import visible_lines
from redline.verbs.diagnose import diagnose
from tests.support.browsing import PAYLOADS, opened, until
from tests.support.events import Event, collective, document, kernel, launch, op, region
from tests.support.made_findings import FINDING, findings
from tests.support.traces.synthetic import JobSpec, Straggler, write_job


def written(path: Path, folder: Path, **options: Any) -> Path:
    """The report of the traces in a folder."""
    found = diagnose([folder], draw_step=True)
    text = replace(found, findings=findings(6)).rendered("html", **options)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a job with everything in it."""
    folder = tmp_path_factory.mktemp("usual")
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),)), folder / "a job")
    return written(folder / "report.html", folder / "a job")


def _evil_events(rank: int) -> list[Event]:
    """In each of ten steps every payload is the name of a region, an operator, two kernels and a collective."""
    events: list[Event] = []
    for number, payload in enumerate(PAYLOADS.values()):
        thread = 10 + number % 3
        events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": thread, "ts": 0, "args": {"name": payload}})
        events.append(region(f"ProfilerStep#{payload}", 10_000 * number, 10_000))
        for step in range(len(PAYLOADS)):
            start, place = 10_000 * step + 1000 * number, 1 + 2 * (step * len(PAYLOADS) + number)
            events += [
                region(payload, start + 10, 900, tid=thread),
                op(payload, start + 20, 300, tid=thread),
                launch(start + 310, place, tid=thread),
                kernel(payload, start + 350, 200 + number, correlation=place),
                op(payload, start + 560, 20, tid=thread),
                launch(start + 570, place + 1, tid=thread),
                kernel(f"{payload}2", start + 600 + 10 * rank, 100, correlation=place + 1),
                collective(start + 720, 100, name=payload),
            ]
    return events


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a job in which every name is an attack."""
    folder = tmp_path_factory.mktemp("evil")
    traces = folder / '"><img src=x onerror=pwned=6>'
    traces.mkdir()
    for rank in range(2):
        devices = [{"id": 0, "name": PAYLOADS["SVG"]}]
        metadata = {"host_name": PAYLOADS["event handlers"], "deviceProperties": devices, "cuda_runtime": "<b>"}
        text = document(_evil_events(rank), rank=rank, world_size=2, **metadata)
        (traces / f"'><svg onload=pwned={rank}>.json").write_bytes(text)
    return written(folder / "report.html", traces, trace_link="<script>pwned=7<script>.trace.json.gz")


# --- a usual report ---------------------------------------------------------------------------------------------------


def _use(page: Page) -> None:
    """Everything that a reader can do."""
    for details in page.query_selector_all("details"):
        details.evaluate("one => { one.open = true; }")
    for button in page.query_selector_all("th button, .more:not([hidden])"):
        button.click()
    for chart in page.query_selector_all("[data-chart]"):
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None
        for across in (0.15, 0.4, 0.7, 0.9):
            for down in (0.2, 0.5, 0.7):
                page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    page.click("#theme")
    page.fill("[data-table=kernels] input", "a")
    page.fill("[data-table=kernels] input", "")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_it_requests_nothing_and_complains_about_nothing(browser: Browser, usual: Path, width: int, theme: str) -> None:
    with opened(browser, usual, width, theme) as (page, log):
        _use(page)
        assert log.requests == [usual.as_uri()]
        assert log.messages == []
        assert page.evaluate("violations") == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not page.is_visible("#undrawn")


_LINES = """(texts) => Math.max(...texts.map((text) => {
  const head = document.querySelector("h1");
  head.textContent = text;
  return Math.round(head.clientHeight / parseFloat(getComputedStyle(head).lineHeight));
}))"""


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("width", "most"), [(1440, 2), (390, 4)])
def test_every_headline_is_short(browser: Browser, usual: Path, width: int, most: int, language: str) -> None:
    found = diagnose([usual.parent / "a job"])
    verdict = replace(findings().verdict, limit=Limit.COMMUNICATION, limit_share=0.41)
    with speaking(language):
        texts = [
            headline_of(replace(findings(), verdict=verdict, findings=(replace(FINDING, code=code),)), found.outline)
            for code in codes()
        ]
    with opened(browser, usual, width) as (page, _):
        assert page.evaluate(_LINES, [one.text for one in texts]) <= most


def test_every_chart_draws_something(browser: Browser, usual: Path) -> None:
    with opened(browser, usual) as (page, _):
        drawn = page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('[data-chart]')].map((one) => [one.dataset.chart, "
            "one.querySelectorAll('.point, .points path, .hm image').length]))"
        )
        assert set(drawn) == {"steps", "strip", "ranks", "roofline", "collectives"}
        assert all(count > 0 for count in drawn.values()), drawn


def test_a_browser_that_cannot_unpack_the_charts_says_so_and_shows_the_tables(browser: Browser, usual: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(usual.as_uri())
    assert page.is_visible("#undrawn")
    assert "too old to draw the charts" in page.inner_text("#undrawn")
    assert page.locator("[data-table=kernels] tbody tr").count() > 0
    assert not page.is_visible("[data-chart]")
    page.close()


def test_tables_sort_by_amount_and_filter(browser: Browser, usual: Path) -> None:
    with opened(browser, usual) as (page, _):
        rows = "[...document.querySelectorAll('[data-table=kernels] tbody tr')]"
        heads = page.evaluate("[...document.querySelectorAll('[data-table=kernels] th')].map((one) => one.textContent)")
        column = heads.index("calls")
        cells = f"{rows}.map((one) => Number(one.cells[{column}].textContent.replaceAll(',', '')))"
        page.click(f"[data-table=kernels] th:nth-child({column + 1}) button")
        descending = page.evaluate(cells)
        page.click(f"[data-table=kernels] th:nth-child({column + 1}) button")
        ascending = page.evaluate(cells)
        assert descending == sorted(descending, reverse=True)
        assert ascending == sorted(ascending)
        assert page.get_attribute(f"[data-table=kernels] th:nth-child({column + 1})", "aria-sort") == "ascending"
        page.fill("[data-table=kernels] input", "mm no-such-thing")
        assert page.evaluate(f"{rows}.length") == 0
        page.fill("[data-table=kernels] input", "MM")
        assert page.evaluate(f"{rows}.every((one) => one.textContent.includes('mm'))")


def test_light_and_dark(browser: Browser, usual: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, usual, theme="dark") as (page, _):
        dark = page.evaluate(background)
        page.click("#theme")
        light = page.evaluate(background)
        page.click("#theme")
        assert page.evaluate(background) == dark != light
    with opened(browser, usual, theme="light") as (page, _):
        assert page.evaluate(background) == light


def test_a_link_to_a_folded_finding_opens_it(browser: Browser, usual: Path) -> None:
    with opened(browser, usual) as (page, _):
        page.evaluate("document.querySelector('details.small').id = 'RL-X99'; location.hash = '#RL-X99'")
        until(page, "document.getElementById('RL-X99').open")


def test_code_can_be_copied(browser: Browser, usual: Path) -> None:
    with opened(browser, usual) as (page, _):
        page.click(".copyable button")
        until(page, "document.querySelector('.copyable button').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == 'model = torch.compile(model, mode="reduce-overhead")'


def test_names_on_the_drawn_step_fit_when_it_is_zoomed(browser: Browser, usual: Path) -> None:
    labels = "[...document.querySelectorAll('#chart-strip .bartext')].filter((one) => one.textContent).length"
    with opened(browser, usual) as (page, log):
        before = page.evaluate(labels)
        page.evaluate("Plotly.relayout('chart-strip', {'xaxis.range': [0, 1]})")
        until(page, f"{labels} !== {before}")
        assert log.messages == []


# --- strangers' names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
def test_no_name_runs_or_becomes_markup(browser: Browser, evil: Path, width: int) -> None:
    with opened(browser, evil, width) as (page, log):
        _use(page)
        assert page.evaluate("typeof pwned") == "undefined"
        assert log.dialogs == []
        assert log.messages == []
        assert log.requests == [evil.as_uri()]
        assert page.evaluate("violations") == []
        assert (
            page.evaluate("document.querySelectorAll('main img, main iframe, svg a, svg script, main b b').length") == 0
        )
        assert page.evaluate("document.scripts.length") == 2
        assert page.evaluate(
            "[...document.querySelectorAll('a[href]')].every((one) => /^(#|[.]|https:)/.test(one.getAttribute('href')))"
        )


def test_tables_show_every_name_as_it_is_written(browser: Browser, evil: Path) -> None:
    with opened(browser, evil) as (page, _):
        for table in ("kernels", "host"):
            cells = f"[...document.querySelectorAll('[data-table={table}] td')].map((one) => one.textContent)"
            for payload in map(visible_lines, PAYLOADS.values()):
                page.fill(f"[data-table={table}] input", payload)
                assert payload in page.evaluate(cells), table


_HOVER = """([chart, name]) => {
  const escaped = name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  document.getElementById(chart).data.some((trace, curveNumber) => {
    const pointNumber = (trace.hovertext || []).findIndex((text) => text.includes(escaped));
    if (pointNumber >= 0) {
      Plotly.Fx.hover(chart, [{ curveNumber, pointNumber }]);
    }
    return pointNumber >= 0;
  });
}"""


@pytest.mark.parametrize("chart", ["chart-strip", "chart-steps"])
def test_charts_show_every_name_as_it_is_written(browser: Browser, evil: Path, chart: str) -> None:
    with opened(browser, evil) as (page, log):
        for payload in map(visible_lines, PAYLOADS.values()):
            page.evaluate(_HOVER, [chart, payload])
            page.wait_for_timeout(120)  # Plotly passes over pointers that move on at once
            shown = page.evaluate(f"document.querySelector('#{chart} .hoverlayer').textContent")
            assert payload in shown
        assert page.evaluate("typeof pwned") == "undefined"
        assert log.messages == []


def test_names_of_threads_are_shown_as_they_are_written(browser: Browser, evil: Path) -> None:
    with opened(browser, evil) as (page, _):
        drawn = page.evaluate(
            "[...document.querySelectorAll('#chart-strip .annotation')].map((one) => one.textContent)"
        )
        assert len([text for text in drawn if text in map(visible_lines, PAYLOADS.values())]) == 3, drawn


def test_the_policy_stops_what_would_get_in_nevertheless(browser: Browser, evil: Path) -> None:
    with opened(browser, evil) as (page, _):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.pwned=8>')")
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'pwned=8'}))")
        until(page, "violations.length >= 2")
        assert page.evaluate("typeof pwned") == "undefined"
