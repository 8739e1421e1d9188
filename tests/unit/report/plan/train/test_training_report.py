"""The plan of a training job as text and JSON: the answer first, no figure without its error, and it fits a screen."""

import json
from dataclasses import replace

import pytest

from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.search.search import Alternative
from redline.plan.train.step_cost import MemoryUse, StepTime
from redline.plan.train.time.step import Overlap
from redline.plan.train.training_choices import PipelineSchedule
from redline.plan.train.workload import Transformer
from redline.report.data import json_text
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import speaking
from redline.report.plan import amounts, layouts
from redline.report.plan.train import job as say_job
from redline.report.plan.train import training_messages as say
from redline.report.plan.train.tables import memory_bars, step_bars
from redline.report.plan.train.training_report import document_of
from redline.report.plan.train.training_report import record_of as as_record
from redline.report.terminal import text_of, width_of
from tests.support.command_line import ROOT
from tests.support.made_plans import LAYOUT, alternatives, candidate, changes, job, llama, nothing_fits, plan

GOLDEN = ROOT / "tests" / "golden" / "plan"


@pytest.mark.parametrize(
    ("golden", "found", "with_job", "language"),
    [
        ("train", plan(), True, "en"),
        ("train.zh", plan(), True, "zh"),
        ("nothing_fits", nothing_fits(), False, "en"),
        ("nothing_fits.zh", nothing_fits(), False, "zh"),
    ],
)
def test_text(golden: str, found: TrainingPlan, with_job: bool, language: str, update_golden: bool) -> None:
    with speaking(language):
        text = text_of(document_of(found, job() if with_job else None))
    path = GOLDEN / f"{golden}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(width_of, text.split("\n"))) <= PLAIN_COLUMNS


def test_the_widest_layouts_fit_the_screen_too() -> None:
    wide = replace(LAYOUT, dp=128, tp=16, pp=16, cp=16, ep=128, zero=3, shard=64, schedule=2, chunks=1, micro_batch=16)
    found = plan(ranked=(candidate(wide, slower=60.0),), best=candidate(wide, slower=60.0))
    for language in ("en", "zh"):
        with speaking(language):
            assert max(map(width_of, text_of(document_of(found, job())).split("\n"))) <= PLAIN_COLUMNS


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    assert text_of(document_of(plan(), job()), unicode=False).isascii()


# --- the answer -------------------------------------------------------------------------------------------------------


def test_where_nothing_fits_that_is_said_first_with_what_would_help() -> None:
    said = " ".join(text_of(document_of(nothing_fits())).split("\nmodel")[0].split())
    assert "verdict Nothing fits. The smallest layout, one replica on one GPU," in said
    assert "The largest part is optimizer states: 96.0 GB. More GPUs split that further, and offloading" in said


def test_activations_that_do_not_fit_have_another_advice() -> None:
    found = replace(nothing_fits(), best=candidate(Layout(), fuller=2.5, chance=1.0))
    assert any("full recomputation" in line for line in say.advice(found))


def test_more_memory_is_named_where_it_would_do() -> None:
    would = replace(changes()[0], factor=1.5, differs=True)
    assert "It would fit with 1.5x the memory per GPU." in list(say.advice(replace(nothing_fits(), changes=(would,))))


def test_a_mixture_of_experts_has_two_counts_and_a_caveat() -> None:
    sparse = plan(active_parameters=2_000_000_000, workload=Transformer(replace(llama(), experts=8)))
    assert (
        amounts.parameters(sparse.parameters, sparse.active_parameters) == "8.03 B parameters, 2.00 B active per token"
    )
    assert "Assumes that all experts get the same number of tokens." in say.not_modelled(sparse)
    assert "Experts" not in say.not_modelled(plan())


def test_a_single_layout_was_not_searched_for() -> None:
    assert say.searched(plan(considered=1, fitting=1)) == "one layout, as given"
    assert say.searched(plan(by="memory")).endswith("; this is the smallest")


# --- what it is made of -----------------------------------------------------------------------------------------------


def test_every_part_has_a_name() -> None:
    assert set(say.PARTS) == set(StepTime.__dataclass_fields__)
    assert set(say.HOLDERS) == set(MemoryUse.__dataclass_fields__)


def test_bars_add_up_to_the_whole() -> None:
    assert step_bars(plan()).bars[-1].end == pytest.approx(1)
    memory = memory_bars(plan())
    assert memory.bars[-1].end == pytest.approx(plan().best.peak_bytes / 80e9)
    assert memory.limit == 1
    assert memory_bars(nothing_fits()).limit == pytest.approx(80e9 / nothing_fits().best.peak_bytes)


def test_what_hides_and_what_does_not() -> None:
    shown = Overlap(kind="data", compute_s=2.0, traffic_s=1.0, exposed_s=0.0123)
    assert say.overlap(shown) == "exposed: 12.30 ms per step"
    assert say.overlap(replace(shown, exposed_s=0.0)) == "hidden"


# --- other layouts ----------------------------------------------------------------------------------------------------


def of(dimension: str, value: int) -> Alternative:
    return next(one for one in alternatives() if (one.dimension, one.value) == (dimension, value))


@pytest.mark.parametrize(
    ("one", "slower", "why"),
    [
        (of("tp", 16), "83.0 % slower", "TP communication: 549.0 ms more (6.10x); crosses nodes"),
        (of("tp", 8), "12.0 % slower", "TP communication: 336.0 ms more (2.20x)"),
        (of("tp", 1), "does not fit", "the smallest needs 1.42x the memory of a GPU"),
        (of("zero", 3), "21.0 % slower", "weight all-gather: 363.0 ms more"),
        (of("schedule", 2), "no slower", "the difference is within the prediction error"),
        (of("tp", 32), "3.40x as long", "TP communication: 1.020 s more (14.0x); crosses nodes"),
        (replace(of("tp", 8), slower=0.8), "25.0 % faster", "but it needs more memory"),
    ],
)
def test_why_not(one: Alternative, slower: str, why: str) -> None:
    assert (say.slower(one, plan()), say.why(one, plan())) == (slower, why)


def test_a_better_machine() -> None:
    memory, network, _links, _compute, host = changes()
    assert say.change(memory) == (
        "1.5x the GPU memory: 7.0 % faster, with dp 8 x tp 4 x pp 2, micro-batch 4, ZeRO-1, recomputation: none"
    )
    assert say.change(network) == "2x the network between nodes: 2.0 % faster, the same layout"
    assert say.change(host) == "0.5x the host time: hardly faster, the same layout"
    assert say.effect(replace(memory, faster=0.0)) == "still nothing would fit"


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (
            LAYOUT,
            "dp 8 x tp 4 x pp 2, ZeRO-1, 1F1B with 4 chunks per stage, 3 micro-batches of 2, recomputation",
        ),
        (Layout(dp=8, zero=3), "dp 8, ZeRO-3 (FSDP), 3 micro-batches of 1"),
        (
            Layout(dp=16, zero=3, shard=8, recompute=2),
            "dp 16, HSDP in groups of 8, 3 micro-batches of 1, recomputation",
        ),
        (Layout(pp=2, schedule=PipelineSchedule.ZERO_BUBBLE), "pp 2, zero-bubble, 3 micro-batches of 1"),
        (Layout(dp=8, ep=4, offload=1, flash=0), "dp 8, ep 4, 3 micro-batches of 1, 100 % of the optimizer in host"),
    ],
)
def test_a_layout_in_one_line(layout: Layout, words: str) -> None:
    assert layouts.as_text(layout, 3).startswith(words)


def test_choices_have_names() -> None:
    words = [layouts.value_as_text(name, 1) for name in ("tp", "zero", "recompute", "schedule", "chunks")]
    assert words == ["tp 1", "ZeRO-1", "recomputation: selective", "1F1B", "1 chunk per stage"]
    assert layouts.value_as_text("zero", 0) == "no ZeRO"
    assert layouts.short_sharding(Layout(zero=3, shard=8)) == "3 / 8"


# --- trust ------------------------------------------------------------------------------------------------------------


def test_no_figure_without_its_error() -> None:
    lines = list(say.trust(plan()))
    assert lines[0].endswith("on 214 runs whose model was left out of the fit (of megatron)")
    assert lines[1].endswith("runs whose stack was left out of the fit (of all software stacks)")
    assert "treat it as a guess" in next(say.trust(plan(evidence=())))


# --- the whole job ----------------------------------------------------------------------------------------------------


def test_the_whole_job() -> None:
    facts = dict(say_job.facts(job()))
    assert facts["money"].endswith("at 2.5 per GPU-hour")
    assert {"money", "energy"}.isdisjoint(dict(say_job.facts(job(price_per_device_hour=None, device_power_w=None))))
    assert len(say_job.cases(job(), brief=True).rows) < len(say_job.cases(job(), brief=False).rows)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (say_job.days(0.5), "12.0 hours"),
        (say_job.days(9.87), "9.9 days"),
        (say_job.days(1234.0), "1,234 days"),
        (say_job.days(float("inf")), "never ends"),
        (say_job.duration(6.0), "6 s"),
        (say_job.duration(600.0), "10.0 min"),
        (say_job.duration(2e6), "23 d"),
        (say_job.duration(float("inf")), "-"),
        (say_job.watt_hours(2.5e9), "2,500 MWh"),
        (amounts.count(8_030_261_248), "8.03 B"),
        (amounts.count(64), "64"),
        (amounts.count(999_999), "1.00 M"),
        (amounts.gigabytes(5e12), "5,000 GB"),
        (amounts.gigabytes(2e6), "2.00 MB"),
        (amounts.chance(0.001), "below 1 %"),
        (amounts.chance(0.995), "above 99 %"),
        (amounts.chance(0.2), "20 %"),
        (amounts.short_chance(0.999), ">99 %"),
        (amounts.times(1234.0), "1,234x"),
        (amounts.times(12.34), "12.3x"),
    ],
)
def test_amounts(shown: str, text: str) -> None:
    assert shown == text


# The JSON of a training plan: whole, without what JSON cannot say, and with choices by name.


def test_it_is_json_and_says_what_it_is() -> None:
    record = json.loads(json_text(as_record(plan(), job())))
    assert (record["kind"], record["schema_version"], record["made_by"]) == ("training-plan", 2, "redline plan train")
    assert record["synthetic"] is True  # nothing in it was measured
    assert record == as_record(plan(), job())


def test_figures_are_those_of_the_plan() -> None:
    record, best = as_record(plan()), plan().best
    assert record["best"]["step_s"] == best.step_s
    assert record["best"]["time"]["tensor_s"] == 0.21
    assert record["best"]["layout"]["tp"] == 4
    assert (record["best"]["layout"]["schedule"], record["best"]["layout"]["recompute"]) == ("one_f_one_b", "selective")
    assert record["overlaps"][1]["ratio"] == 0.0021 / 0.0009
    assert [one["hidden"] for one in record["overlaps"]] == [False, False, True]
    assert record["job"] is None


def test_what_has_no_bound_is_null() -> None:
    zero3 = next(one for one in as_record(plan())["alternatives"] if one["dimension"] == "zero")
    assert zero3["grown"] is None


def test_a_job_has_spans_and_every_case() -> None:
    record = as_record(plan(), job())["job"]
    assert record["days"]["low"] < record["days"]["likely"] < record["days"]["high"]
    assert len(record["cases"]) == len(job().cases)
    assert as_record(nothing_fits())["fits"] is False
