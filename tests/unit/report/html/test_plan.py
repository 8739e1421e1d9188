"""The pages of plans: they say what the text says, draw what was predicted, and leave out what was not."""

import re
from dataclasses import replace

import pytest

from redline.plan.serve.serving_plan import Ranged
from redline.plan.train.workload import Transformer
from redline.report.html.frame import page_text
from redline.report.html.tables import amount
from redline.report.language import speaking
from redline.report.plan import serving_messages as say_serve
from redline.report.plan import serving_report as serve_page
from redline.report.plan import validation_report as validate_page
from redline.report.plan.train import training_messages as say
from redline.report.plan.train import training_report as train_page
from redline.report.plan.train.tables import COLOURS
from tests.support.made_plans import changes, job, llama, nothing_fits, plan, point, serving_plan, validation
from tests.support.pages import data_of, visible

MOST_BYTES = 2_500_000
EVIL = "</script><img src=x onerror=alert(1)>&amp;"


# --- training ---------------------------------------------------------------------------------------------------------


def test_it_says_what_the_text_says() -> None:
    text = visible(page_text(train_page.page_of(plan(), job())))
    said = [say.headline(plan()), say.step(plan(), plan().best), say.memory(plan(), plan().best), *say.trust(plan())]
    for line in (*said, *map(say.change, changes()), "Predicted, not measured."):
        assert line in text
    assert "Llama-3-8B trains at 2.24 M tokens/s on 64 GPUs, with dp 8 x tp 4 x pp 2, ZeRO-1" in text


def test_every_alternative_is_on_the_page() -> None:
    tables = data_of(page_text(train_page.page_of(plan(), job())))["tables"]
    assert len(tables["alternatives"]["rows"]) == len(plan().alternatives)
    assert len(tables["job"]["rows"]) == len(job().cases)
    assert set(tables) == {"overlaps", "ranked", "alternatives", "job"}


def test_where_nothing_fits_that_is_the_headline() -> None:
    text = page_text(train_page.page_of(nothing_fits()))
    assert "Nothing fits. The smallest layout" in visible(text)
    assert "More GPUs split that further" in visible(text)
    assert data_of(text)["charts"] == {}
    sections = re.findall(r'<section[^>]* id="(\w+)"', text)
    assert sections == ["verdict", "step", "trust", "about", "definitions"]
    assert "The line is the GPU's memory." in visible(text)


def test_several_sizes_are_a_table() -> None:
    tables = data_of(page_text(train_page.page_of(plan(), None, [plan(), plan(devices=128)])))["tables"]
    assert [row[0] for row in tables["sizes"]["rows"]] == ["64", "128"]


def test_a_mixture_of_experts_has_two_counts() -> None:
    assert "2.00 B active" in visible(page_text(train_page.page_of(plan(active_parameters=2_000_000_000))))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_is_small_and_speaks(language: str) -> None:
    with speaking(language):
        text = page_text(train_page.page_of(plan(), job()))
    assert len(text.encode()) < MOST_BYTES
    assert f'<html lang="{ {"en": "en", "zh": "zh-CN"}[language] }">' in text


def test_names_are_data_and_never_markup() -> None:
    named = Transformer(replace(llama(), name=EVIL))
    evil = plan(workload=named, machine=replace(plan().machine, name=EVIL), stack=EVIL)
    text = page_text(train_page.page_of(evil, job()))
    assert "<img" not in text
    assert EVIL[:40] in visible(text)


def test_the_frontier_has_intervals_and_the_device() -> None:
    figure = train_page.frontier_figure(plan())
    assert figure is not None
    assert len(figure["frontier"]) == 3
    assert len(figure["others"]) == 1
    assert figure["device"] == 80
    for one in figure["frontier"]:
        assert one["x_low"] < one["x"] < one["x_high"]
        assert one["y_low"] < one["y"] < one["y_high"]
    assert train_page.frontier_figure(plan(frontier=(plan().best,), ranked=())) is None


def test_every_part_has_a_colour() -> None:
    codes = {name.rpartition("_")[0] for name in (*say.PARTS, *say.HOLDERS)}
    assert codes <= set(COLOURS)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1.06x", 1.06), ("35.0 k", 35_000), ("1.43 M", 1.43e6), ("<1 %", 1), ("+0.9 %", 0.9), ("16x64", None)],
)
def test_cells_of_plans_are_sorted_as_numbers(cell: str, value: float | None) -> None:
    assert amount(cell) == value


# --- serving ----------------------------------------------------------------------------------------------------------


def test_the_page_of_serving_says_what_the_text_says() -> None:
    plan_ = serving_plan()
    text = visible(page_text(serve_page.page_of(plan_)))
    for line in (
        say_serve.verdict(plan_),
        say_serve.headline(plan_),
        *say_serve.refused(plan_),
        *say_serve.trust(plan_),
    ):
        assert line in text
    data = data_of(page_text(serve_page.page_of(plan_)))
    assert set(data["tables"]) == {"passes", "frontier", "every"}
    assert [curve["name"] for curve in data["charts"]["serving"]["curves"]] == [
        "tp 2, fp8", "tp 4, fp8", "ep 8 with replicated attention, fp8",
    ]  # fmt: skip


def test_serving_that_does_not_fit_has_no_charts() -> None:
    text = page_text(serve_page.page_of(serving_plan(points=(), best=None, frontier=())))
    assert data_of(text)["charts"] == {}
    assert re.findall(r'<section[^>]* id="(\w+)"', text) == ["verdict", "refused", "trust", "about"]


def test_a_page_without_a_price_has_the_room() -> None:
    unknown = replace(point(4), ttft_s=Ranged(value=0.2))
    text = visible(page_text(serve_page.page_of(serving_plan(price=None, best=unknown))))
    assert "KV capacity 200 sequences" in text
    assert "no interval: no published measurements" in text


# --- validation -------------------------------------------------------------------------------------------------------


def test_the_page_of_a_validation_has_every_table_and_chart() -> None:
    text = page_text(validate_page.page_of(validation()))
    data = data_of(text)
    assert set(data["charts"]) == {"steps_seen", "memory_seen", "serving_seen"}
    tables = {"steps", "stacks", "choices", "each_choice", "memory", "verdicts", "serving", "serving_groups"}
    tables |= {"left_out", "left_out_stacks", "peers", "unmodelled"}
    assert set(data["tables"]) == tables
    assert [group["name"] for group in data["charts"]["memory_seen"]["groups"]] == ["nanotron", "jax"]
    assert "Median error: step time 7.5 % where the model was left out of the fit" in visible(text)
