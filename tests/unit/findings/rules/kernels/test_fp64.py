"""RL-C11: operators on float64 tensors, on a CPU and on a GPU; numbers from Python are not tensors."""

from typing import Any

import pytest

from tests.support.events import document, op
from tests.support.rules.matching import FP32, calls, claimed_ns, described, found, matched, step

FP64 = "double"


def products(dtype: str) -> bytes:
    shapes = described(dtype, [256, 512], [512, 128])
    return document([step(0, 0, 1000), op("aten::mm", 100, 400, **shapes), op("aten::mm", 500, 400, **shapes)])


def test_c11_claims_three_quarters_on_a_cpu() -> None:
    assert claimed_ns(products(FP64), "RL-C11") == 600_000
    first, second = found(products(FP64))["RL-C11"].evidence
    assert first.values == {"wide_ns": 800_000, "wide_share": pytest.approx(1.0)}
    assert second.values == {"operator": "aten::mm"}


def test_c11_is_silent_on_float32() -> None:
    assert "RL-C11" not in matched(products(FP32))


def test_c11_leaves_numbers_from_python_alone() -> None:
    scaled = described(FP32, [256, 512], []) | {"Input type": [FP32, FP64]}
    assert "RL-C11" not in matched(document([step(0, 0, 1000), op("aten::mul", 100, 800, **scaled)]))


def test_c11_claims_kernels_of_a_gpu() -> None:
    shapes = described(FP64, [256, 512], [512, 128])
    assert claimed_ns(document(calls(("aten::mm", shapes), ("aten::mm", shapes), us=128)), "RL-C11") == 252_000


def test_c11_counts_lists_of_tensors_where_most_is_float64() -> None:
    lists: dict[str, Any] = {
        "Input Dims": [[[512, 128]]],
        "Input type": ["TensorList"],
        "Input Strides": [],
        "Concrete Inputs": [""],
    }
    events = [
        step(0, 0, 1000),
        op("aten::mm", 0, 600, **described(FP64, [256, 512], [512, 128])),
        op("aten::_fused_adamw_", 600, 400, **lists),
    ]
    assert claimed_ns(document(events), "RL-C11") == 750_000
