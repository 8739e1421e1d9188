"""A plan of serving as text and JSON: the best within limits, no figure without its error, and it fits a screen."""

import json

import pytest

from redline.plan.serve.forward_passes import ServingLimit
from redline.plan.serve.serving_plan import Ranged, ServingPlan, ServingSituation
from redline.report.data import json_text
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import speaking
from redline.report.plan import serving_messages as say
from redline.report.plan.serving_report import document_of
from redline.report.plan.serving_report import record_of as as_record
from redline.report.terminal import text_of, width_of
from tests.support.command_line import ROOT
from tests.support.made_plans import measured_engine, point, serving_plan

GOLDEN = ROOT / "tests" / "golden" / "plan"
NOTHING_FITS = serving_plan(
    points=(), best=None, frontier=(), evidence=(), repeats=None, measured_here=False, situation=ServingSituation.FAMILY
)
TOO_SLOW = serving_plan(best=None, most_ttft_s=0.001)


@pytest.mark.parametrize(
    ("golden", "found", "language"),
    [
        ("serve", serving_plan(), "en"),
        ("serve.zh", serving_plan(), "zh"),
        ("serve_nothing_fits", NOTHING_FITS, "en"),
    ],
)
def test_text(golden: str, found: ServingPlan, language: str, update_golden: bool) -> None:
    with speaking(language):
        text = text_of(document_of(found))
    path = GOLDEN / f"{golden}.txt"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(width_of, text.split("\n"))) <= PLAIN_COLUMNS


def test_where_nothing_meets_the_limits_the_nearest_is_named() -> None:
    assert say.verdict(TOO_SLOW).startswith(
        "No configuration meets the limits. The closest, tp 2 in fp8 with 1 concurrent request"
    )
    assert "verdict" in text_of(document_of(TOO_SLOW))


def test_where_nothing_fits_the_smallest_is_named() -> None:
    assert say.verdict(NOTHING_FITS) == (
        "Nothing fits. Even tp 1 in fp8 needs 72.7 GB of 80.0 GB on each GPU for weights alone."
    )


def test_an_interval_or_why_there_is_none() -> None:
    assert say.ranged(Ranged(value=1.0)).endswith("no interval: no published measurements to score it with")
    assert "80 % interval: " in say.ranged(Ranged(value=1.0, low=0.9, high=1.2))
    unknown = serving_plan(best=point(tokens_per_s=Ranged(value=100.0)))
    assert say.verdict(unknown) == "tp 2 in fp8 with 16 concurrent requests: 50 tokens/s per GPU"


@pytest.mark.parametrize(
    ("situation", "new"),
    [
        (ServingSituation.MODEL, "this GPU was measured with SGLang"),
        (ServingSituation.GPU, "this GPU was never measured with SGLang: constants are from others of its family"),
        (ServingSituation.FAMILY, "no GPU of this family was measured with SGLang: constants are from other GPUs"),
    ],
)
def test_the_first_lines_say_whether_the_engine_was_measured_there(situation: ServingSituation, new: str) -> None:
    plan = serving_plan(situation=situation)
    label, said = next(iter(say.facts(plan)))
    assert (label, said.partition(";")[0]) == ("errors", new)
    assert "TPOT: median error 11.0 %, p90 47.0 %" in said
    assert any("left out of the fit (of SGLang)" in line for line in say.trust(plan))


def test_borrowed_errors_and_intervals_say_so() -> None:
    lines = list(say.trust(serving_plan()))
    assert any("(of all engines)" in line for line in lines)
    assert any("intervals are mostly those of other engines" in line for line in lines)
    own = serving_plan(evidence=serving_plan().evidence[:1])
    assert not any("other engines" in line for line in say.trust(own))


def test_the_first_token_stands_beside_its_own_repeats() -> None:
    assert any(
        "is off by 27.0 % in the median (p90 70.0 %); a plan of these runs by 40.0 % (p90 120.0 %)" in line
        for line in say.trust(serving_plan())
    )
    assert not any("repeat" in line for line in say.trust(serving_plan(repeats=None)))


def test_a_measured_step_has_no_published_errors() -> None:
    plan = serving_plan(situation=None, evidence=(), repeats=None, measured=measured_engine())
    assert say.known(plan) == ""
    assert next(iter(say.facts(plan)))[0] == "model"


def test_experts_have_two_counts() -> None:
    said = dict(say.facts(serving_plan(active_parameters=10_000_000_000)))
    assert said["model"].endswith("10.0 B active per token")


def test_every_limit_has_a_name() -> None:
    assert set(say.LIMITS) == set(ServingLimit)
    assert (point().step_limit, point().prompt_limit) == (ServingLimit.MEMORY, ServingLimit.COMPUTE)


def test_the_json_is_whole() -> None:
    record = json.loads(json_text(as_record(serving_plan())))
    assert record == as_record(serving_plan())
    assert record["kind"] == "serving-plan"
    assert record["synthetic"] is True
    assert record["best"]["cost_per_million"] == pytest.approx(2.5 / 3600 / point(4, 16).tokens_per_s_device * 1e6)
    assert record["best"]["step_s"]["memory_s"] > 0
    assert len(record["points"]) == 9
    assert as_record(NOTHING_FITS)["best"] is None
    assert as_record(serving_plan(price=None))["best"]["cost_per_million"] is None
