"""The page of a calibration in a real browser: nothing is requested, nothing in any name runs, all charts are drawn."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from redline.report.calibrate.calibration_report import page_of
from redline.report.html.frame import page_text
from redline.report.language import speaking
from redline.report.terminal import visible_lines
from tests.support.browsing import PAYLOADS, check_page, opened
from tests.support.made_calibrations import NOISY, calibration, collectives, cpu_machine, gpu_calibration, gpu_machine


def written(folder: Path, language: str = "en") -> Path:
    path = folder / f"machine.{language}.html"
    found = calibration(conditions=NOISY, collectives=collectives(slow=True))
    with speaking(language):
        path.write_text(page_text(page_of(found, cpu_machine())), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "theme", "language"), [(1280, "light", "en"), (390, "dark", "zh")])
def test_it_requests_nothing_and_draws_everything(
    browser: Browser, tmp_path: Path, width: int, theme: str, language: str
) -> None:
    path = written(tmp_path, language)
    with opened(browser, path, width, theme) as (page, log):
        check_page(page, log, path, width, {"roofs", "sustained", "bandwidths", "bus"})


def test_small_tables_have_no_filter_and_large_ones_do(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path)) as (page, _):
        assert page.is_visible("[data-table=bandwidths] input")
        assert not page.is_visible("[data-table=laws] input")


def test_a_device_of_the_catalogue_is_set_beside_its_record(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "gpu.html"
    path.write_text(page_text(page_of(gpu_calibration(), gpu_machine())), encoding="utf-8")
    with opened(browser, path) as (page, log):
        assert "76.8 %" in page.inner_text("[data-table=catalogue]")
        assert log.messages == []


def test_no_name_runs_or_becomes_markup(browser: Browser, tmp_path: Path) -> None:
    names = cycle(PAYLOADS.values())
    base = calibration(collectives=collectives(slow=True))
    assert base.collectives is not None
    assert base.roofline is not None
    evil = replace(
        base,
        subject=replace(base.subject, name=next(names), host=next(names), software=tuple(PAYLOADS.items())),
        kernels=tuple(replace(one, shape=next(names), dtype=next(names)) for one in base.kernels),
        peaks=tuple(replace(one, shape=next(names), dtype=next(names)) for one in base.peaks),
        roofline=replace(base.roofline, method=next(names)),
        collectives=replace(
            base.collectives,
            backend=next(names),
            points=tuple(replace(one, operation=next(names)) for one in base.collectives.points),
            ranks=tuple(replace(one, host=next(names), device=next(names)) for one in base.collectives.ranks),
        ),
        declined=tuple(replace(base.declined[0], what=name, why=name) for name in PAYLOADS.values()),
    )
    path = tmp_path / "evil.html"
    path.write_text(page_text(page_of(evil, replace(cpu_machine(), name=next(names)))), encoding="utf-8")
    with opened(browser, path) as (page, log):
        assert page.evaluate("typeof pwned") == "undefined"
        assert (log.dialogs, log.messages) == ([], [])
        assert page.evaluate("violations") == []
        assert page.evaluate("document.querySelectorAll('main img, main iframe, svg a, svg script').length") == 0
        assert page.evaluate("document.scripts.length") == 3
        shown = page.inner_text("main")
        for payload in map(visible_lines, PAYLOADS.values()):
            assert payload in shown
