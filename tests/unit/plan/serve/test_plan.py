"""What is proposed for serving has room, meets the limits, and is the most that a device gives."""

from dataclasses import replace

import pytest

from redline.errors import UsageError
from redline.hardware.catalogue import find
from redline.model.huggingface import known_model
from redline.plan.serve.plan import ServingRequest, plan_serving
from redline.plan.serve.serving_defaults import ACCEPTED_CHANCE
from redline.plan.serve.serving_plan import Ranged, ServingSituation

REQUEST = ServingRequest(
    model=known_model("llama-3.1-70b"), machine=find("H100-SXM5-80GB"), prompt=1024, output=256, engine="SGLang"
)


def test_the_best_has_room_for_all_its_requests() -> None:
    plan = plan_serving(REQUEST)
    assert plan.best is not None
    assert plan.best.batch >= plan.best.concurrency
    crowded = [point for point in plan.points if point.batch < point.concurrency]
    assert max(crowded, key=lambda point: point.tokens_per_s_device).tokens_per_s_device > plan.best.tokens_per_s_device


def test_where_every_load_is_too_much_the_best_of_these_is_shown() -> None:
    plan = plan_serving(ServingRequest(**{**vars(REQUEST), "loads": (4096,), "sizes": (4,)}))
    assert plan.best is not None
    assert plan.best.batch < plan.best.concurrency


def test_limits_are_kept() -> None:
    plan = plan_serving(ServingRequest(**{**vars(REQUEST), "most_tpot_s": 0.02}))
    assert plan.best is not None
    assert plan.best.tpot_s.value <= 0.02


def test_a_model_that_writes_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="does not write token after token"):
        plan_serving(ServingRequest(**{**vars(REQUEST), "model": known_model("bert-large")}))


def test_the_chance_above_a_limit_is_that_of_the_interval() -> None:
    figure = Ranged(value=0.03, low=0.02, high=0.045)
    assert figure.chance_above(0.03) == pytest.approx(0.5)
    assert figure.chance_above(0.045) == pytest.approx(0.1)
    assert figure.chance_above(0.02) == pytest.approx(0.9)
    assert Ranged(value=0.03).chance_above(0.03) is None


def test_a_way_that_may_well_miss_a_limit_is_not_the_best() -> None:
    free = plan_serving(REQUEST).best
    assert free is not None
    limit = free.tpot_s.value * 1.02  # that way meets the limit, if hardly
    plan = plan_serving(ServingRequest(**{**vars(REQUEST), "most_tpot_s": limit}))
    same = next(point for point in plan.points if (point.tp, point.concurrency) == (free.tp, free.concurrency))
    assert same.meets
    assert same.chance_of_missing is not None
    assert same.chance_of_missing > ACCEPTED_CHANCE
    assert plan.best is not None
    assert plan.best.chance_of_missing is not None
    assert plan.best.chance_of_missing <= ACCEPTED_CHANCE


def test_where_every_way_may_miss_the_limit_the_surest_is_the_best() -> None:
    points = plan_serving(REQUEST).points
    limit = min(point.tpot_s.value for point in points) * 1.01
    plan = plan_serving(ServingRequest(**{**vars(REQUEST), "most_tpot_s": limit}))
    assert plan.best is not None
    meeting = [point.chance_of_missing or 0.0 for point in plan.points if point.meets]
    assert plan.best.chance_of_missing == min(meeting) > ACCEPTED_CHANCE


def test_a_gpu_that_the_engine_was_never_measured_on_has_an_interval_and_says_so() -> None:
    known, new = (plan_serving(ServingRequest(**{**vars(REQUEST), "engine": name})) for name in ("SGLang", "vLLM"))
    assert (known.situation, new.situation) == (ServingSituation.MODEL, ServingSituation.FAMILY)
    assert (known.measured_here, new.measured_here) == (True, False)
    assert {evidence.engine for evidence in known.evidence} == {"SGLang"}
    assert {evidence.engine for evidence in new.evidence} == {"all"}
    point = new.points[0]
    assert point.tokens_per_s.low is not None
    assert point.ttft_s.low is None  # never measured with vLLM
    assert (known.repeats is None, new.repeats) == (False, None)


def test_runs_on_gpus_say_nothing_of_a_cpu() -> None:
    plan = plan_serving(ServingRequest(**{**vars(REQUEST), "machine": replace(REQUEST.machine, architecture="cpu")}))
    assert plan.evidence == ()
    assert plan.points[0].tpot_s.low is None
