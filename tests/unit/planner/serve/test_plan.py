"""What is proposed for serving has room, meets the limits, and is the most that a device gives."""

import pytest

from redline.errors import UsageError
from redline.hardware.catalogue import find
from redline.model.known import known_model
from redline.planner.serve.plan import ServingRequest, plan_serving

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
