"""The pages of plans in a real browser: nothing is requested, nothing in any name runs, all charts are drawn."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from redline.plan.train.workload import Transformer
from redline.report.html.frame import page_text
from redline.report.language import speaking
from redline.report.plan import serving_report as serve_page
from redline.report.plan import validation_report as validate_page
from redline.report.plan.train import training_report as train_page
from redline.report.terminal import visible_lines
from tests.support.browsing import PAYLOADS, check_page, opened
from tests.support.made_plans import h100, job, llama, nothing_fits, plan, scatter, serving_plan, validation

CHARTS = {"train": {"frontier"}, "serve": {"serving"}, "validate": {"steps_seen", "memory_seen", "serving_seen"}}


def written(folder: Path, kind: str, language: str = "en") -> Path:
    path = folder / f"{kind}.{language}.html"
    points = [vars(scatter(f"stack {number}")) for number in range(12)]
    shown = {**validation(), "step_points": points, "memory_points": points, "serving_points": points}
    with speaking(language):
        pages = {
            "train": lambda: page_text(train_page.page_of(plan(), job(), [plan(), plan(devices=128)])),
            "serve": lambda: page_text(serve_page.page_of(serving_plan())),
            "validate": lambda: page_text(validate_page.page_of(shown)),
        }
        path.write_text(pages[kind](), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "theme", "language"), [(1280, "light", "en"), (390, "dark", "zh")])
@pytest.mark.parametrize("kind", list(CHARTS))
def test_it_requests_nothing_and_draws_everything(
    browser: Browser, tmp_path: Path, kind: str, width: int, theme: str, language: str
) -> None:
    path = written(tmp_path, kind, language)
    with opened(browser, path, width, theme) as (page, log):
        check_page(page, log, path, width, CHARTS[kind])


def test_a_plan_that_does_not_fit_has_a_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "none.html"
    path.write_text(page_text(train_page.page_of(nothing_fits())), encoding="utf-8")
    with opened(browser, path) as (page, log):
        assert page.inner_text("h1").startswith("Nothing fits.")
        assert log.messages == []


def test_every_group_of_points_has_a_mark_of_its_own(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, "validate")) as (page, _):
        legend = page.inner_text("#steps .legend")
        assert all(f"stack {number}" in legend for number in range(12))
        assert page.locator("#steps .legend > span").count() == 12 + 2


def test_no_name_runs_or_becomes_markup(browser: Browser, tmp_path: Path) -> None:
    names = cycle(PAYLOADS.values())
    named = replace(llama(), name=next(names))
    evil = plan(workload=Transformer(named), machine=replace(h100(), name=next(names)), stack=next(names))
    pages = (train_page.page_of(evil, job()), serve_page.page_of(serving_plan(model=named, engine=next(names))))
    for number, text in enumerate(map(page_text, pages)):
        path = tmp_path / f"evil{number}.html"
        path.write_text(text, encoding="utf-8")
        with opened(browser, path) as (page, log):
            assert page.evaluate("typeof pwned") == "undefined"
            assert (log.dialogs, log.messages) == ([], [])
            assert page.evaluate("violations") == []
            assert page.evaluate("document.querySelectorAll('main img, main iframe, svg a, svg script').length") == 0
            assert visible_lines(next(iter(PAYLOADS.values()))) in page.inner_text("main")
