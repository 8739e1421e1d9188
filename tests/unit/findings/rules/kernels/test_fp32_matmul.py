"""RL-C02: matrix products are computed in fp32 or tf32 on a device that computes 16-bit numbers faster."""

from tests.support.events import document, kernel, launch
from tests.support.machines import PRODUCT_BYTES, PRODUCT_FLOPS
from tests.support.rules.matching import BF16, FP32, calls, claimed_ns, described, found, machine, matched

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
