"""Numbers that are wider than they need to be, and conversions between types."""

from typing import Any

import pytest

from tests.support.events import document, kernel, launch, op
from tests.support.machines import PRODUCT_BYTES, PRODUCT_FLOPS
from tests.support.rules.kernels import copying, job
from tests.support.rules.matching import BF16, FP32, calls, claimed_ns, described, found, machine, matched, step

# RL-C11: operators on float64 tensors, on a CPU and on a GPU; numbers from Python are not tensors.


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


# RL-C02: matrix products are computed in fp32 or tf32 on a device that computes 16-bit numbers faster.


SQUARE = [64, 64]
WIDE = described(FP32, SQUARE, SQUARE)
NARROW = described(BF16, SQUARE, SQUARE)
# bf16 needs 10 us for the product, half of its bytes 4 us
PRECISE = machine(
    gb_per_s=PRODUCT_BYTES / 8e-6 / 1e9, fp32=PRODUCT_FLOPS / 80e-6 / 1e12, bf16=PRODUCT_FLOPS / 10e-6 / 1e12
)


def test_c02_claims_what_bf16_does_not_need() -> None:
    data = document(calls(("aten::mm", WIDE)))
    assert claimed_ns(data, "RL-C02", PRECISE) == 90_000
    (evidence,) = found(data, machine=PRECISE)["RL-C02"].evidence
    assert evidence.values == {"wide_share": 1.0, "product_ns": 100_000, "target": "bf16"}


def test_c02_claims_half_of_what_moves_fp32_but_not_of_an_optimizer() -> None:
    adding = described(FP32, SQUARE, SQUARE, [])
    other = ("aten::add", adding)
    assert claimed_ns(document(calls(("aten::mm", WIDE), other)), "RL-C02", PRECISE) == 90_000 + 50_000
    stepping = {**WIDE, "Input Dims": [[SQUARE]], "Input type": ["TensorList"]}
    optimizer = document(calls(("aten::mm", WIDE), ("aten::_fused_adam_", stepping), kernels="Functor<float, 4>"))
    assert claimed_ns(optimizer, "RL-C02", PRECISE) == 90_000


def test_c02_is_silent_where_products_are_narrow_already() -> None:
    assert "RL-C02" not in matched(document(calls(("aten::mm", NARROW))), PRECISE)
    mostly = document(calls(("aten::mm", NARROW), ("aten::mm", NARROW), ("aten::mm", WIDE)))
    assert "RL-C02" not in matched(mostly, PRECISE)


def test_c02_is_silent_where_little_is_multiplied() -> None:
    events = calls(("aten::mm", WIDE), us=20)
    events += [launch(500, 9), kernel("something else", 550, 400, correlation=9)]
    assert "RL-C02" not in matched(document(events), PRECISE)


def test_c02_means_fp16_where_a_device_has_no_bf16_and_nothing_without_either() -> None:
    data = document(calls(("aten::mm", WIDE)))
    old = machine(fp32=10, fp16=100)
    assert [one.message for one in found(data, machine=old)["RL-C02"].evidence][1:] == [
        "This device has no fast bf16: use fp16 with a gradient scaler."
    ]
    assert "RL-C02" not in matched(data, machine(fp32=10))
    assert "RL-C02" not in matched(data, None)


# RL-C25: tensors are converted to another floating-point type and back.


def test_c25_claims_conversions_to_and_back() -> None:
    data = job(
        *copying("aten::to", 300, types=(BF16, FP32)),
        op("aten::relu", 400, 200, **described(BF16, [64, 32])),
        *copying("aten::to", 600, types=(FP32, BF16)),
    )
    assert claimed_ns(data, "RL-C25") == 400_000  # and as much again for what reads each result
    (evidence,) = found(data)["RL-C25"].evidence
    assert evidence.values["conversions"] == 2
    assert evidence.values["converting_ns"] == 200_000


def test_c25_leaves_conversions_in_one_direction_alone() -> None:
    """As of inputs, or of a loss."""
    assert "RL-C25" not in matched(
        job(*(event for at in (300, 400, 500) for event in copying("aten::to", at, types=(BF16, FP32))))
    )


def test_c25_leaves_what_operators_convert_alone() -> None:
    """As autocast does, inside the operator that needs another type."""
    inside = [
        op("aten::linear", 295, 320, **described(FP32, [64, 32])),
        *copying("aten::to", 300, types=(BF16, FP32)),
        *copying("aten::to", 400, types=(FP32, BF16)),
    ]
    assert "RL-C25" not in matched(job(*inside))


def test_c25_leaves_numbers_that_are_no_floats_alone() -> None:
    whole = "long int"
    data = job(*copying("aten::to", 300, types=(whole, FP32)), *copying("aten::to", 400, types=(FP32, whole)))
    assert "RL-C25" not in matched(data)
