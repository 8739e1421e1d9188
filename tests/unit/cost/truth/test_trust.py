"""What a plan says of its own errors is what the tables of accuracy say."""

import json
from importlib.resources import files

import pytest

from redline.cost.train.stacks import spread, stack_names
from redline.cost.train.trust import evidence, spread_of
from redline.cost.truth.trust import held_out
from redline.model.known import known_model


def test_the_file_is_up_to_date() -> None:
    """Where it is not: python scripts/score_plan.py."""
    written = json.loads((files("redline.cost.train") / "trust.json").read_text(encoding="utf-8"))
    assert written["held_out"] == held_out()


@pytest.mark.parametrize("stack", stack_names())
def test_every_stack_has_evidence(stack: str) -> None:
    step, memory = evidence(stack)
    assert (step.what, memory.what) == ("step", "memory")
    assert step.rows > 0
    assert 0 < step.median <= step.p90


def test_a_stack_without_runs_quotes_all() -> None:
    step, _ = evidence("default")
    assert step.stack == "all"
    assert step.rows > 1000


def test_the_interval_is_that_of_the_stack_and_wider_with_experts() -> None:
    dense, sparse = known_model("llama-3.1-8b"), known_model("mixtral-8x7b")
    assert spread_of(dense, "megatron-core") == spread("megatron-core")
    assert spread_of(sparse, "megatron-core") == spread("megatron-core", unusual=True) != spread("megatron-core")
