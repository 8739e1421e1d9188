"""Rules about kernels: each fires on its trace with the time that it claims, and not on its counter-trace.

Machines and works are made up so that every bound can be computed by hand.
"""

from typing import Any

import pytest

from tests.conftest import PRODUCT_BYTES, PRODUCT_FLOPS, Event, document, kernel, launch, op, region
from tests.unit.findings.conftest import BF16, FP32, calls, claimed_ns, described, found, machine, matched, step

# --- RL-C10: conversions of layout ------------------------------------------------------------------------------------


CUDNN = "void cudnn::ops::nchwToNhwcKernel<float>"


def converting(us: float, name: str = CUDNN) -> bytes:
    return document(
        [
            step(0, 0, 1000),
            launch(0, 1),
            kernel(name, 10, us, correlation=1),
            launch(5, 2),
            kernel("implicit_convolve", 10 + us, 500, correlation=2),
        ]
    )


@pytest.mark.parametrize("name", [CUDNN, "batched_transpose_16x32_half"])
def test_c10_claims_conversions_of_cudnn_and_miopen(name: str) -> None:
    assert claimed_ns(converting(50, name), "RL-C10") == 50_000


def test_c10_claims_all_conversions() -> None:
    (evidence,) = found(converting(50))["RL-C10"].evidence
    assert evidence.values == {"conversions": 1, "converting_share": pytest.approx(50 / 550)}


def test_c10_leaves_few_conversions_alone() -> None:
    assert "RL-C10" not in matched(converting(15))  # 2.9 % of the kernel time


# --- RL-C02: precision ------------------------------------------------------------------------------------------------

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


# --- RL-C06: too few rows ---------------------------------------------------------------------------------------------

FEW = described(BF16, [8, 4096], [4096, 4096])
SWIFT = machine(bf16=1000, gb=80)


def reserving(share: float) -> Event:
    args = {"Bytes": 1, "Total Allocated": 1, "Total Reserved": round(share * 80e9), "Device Id": 0, "Device Type": 1}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5, "args": args}


def test_c06_claims_what_more_rows_would_not_need() -> None:
    data = document(calls(("aten::mm", FEW)))
    assert claimed_ns(data, "RL-C06", SWIFT) == 99_732  # 100 us, less 2 * 8 * 4096**2 FLOPs at 1000 TFLOP/s
    first, second = found(data, machine=SWIFT)["RL-C06"].evidence
    assert first.values["rows"] == "8"
    assert "not recorded" in second.message


def test_c06_says_how_much_memory_is_free() -> None:
    events = [*calls(("aten::mm", FEW)), reserving(0.5)]
    assert found(document(events), machine=SWIFT)["RL-C06"].evidence[1].values == {"free_share": pytest.approx(0.5)}


def test_c06_is_silent_without_free_memory() -> None:
    assert "RL-C06" not in matched(document([*calls(("aten::mm", FEW)), reserving(0.9)]), SWIFT)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(described(BF16, [4096, 4096], [4096, 4096]), id="enough rows"),
        pytest.param(described(BF16, [4096, 4096], [4096, 8]), id="few features, not few rows"),
    ],
)
def test_c06_is_silent_with_enough_rows(args: dict[str, Any]) -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", args))), SWIFT)


def test_c06_is_silent_for_batched_products_and_serving_engines() -> None:
    batched = described(BF16, [64, 8, 512], [64, 512, 512])
    assert "RL-C06" not in matched(document(calls(("aten::bmm", batched))), SWIFT)
    serving = [region("step[DECODE bs=8]", 0, 1000), *calls(("aten::mm", FEW))[1:]]
    assert "RL-C06" not in matched(document(serving), SWIFT)


def test_c06_leaves_a_small_share_alone() -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", FEW), us=40)), SWIFT)


# --- RL-C07: attention ------------------------------------------------------------------------------------------------

QK = ("aten::bmm", described(BF16, [4, 128, 64], [4, 64, 128]))
SOFTMAX = ("aten::_softmax", described(BF16, [1, 4, 128, 128], [], []))
PV = ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64]))
MASK = ("aten::add", described(BF16, [1, 4, 128, 128], [1, 1, 128, 128], []))
SLOW = machine(bf16=1)


def test_c07_claims_all_beyond_what_fused_attention_needs() -> None:
    data = document(calls(QK, MASK, SOFTMAX, PV))
    # 4 * 4 heads * 128**2 pairs * 64 / 2 FLOPs at 1 TFLOP/s
    assert claimed_ns(data, "RL-C07", SLOW) == 400_000 - 8_389
    first, second = found(data, machine=SLOW)["RL-C07"].evidence
    assert first.values == {"attentions": 1, "attention_ns": 400_000, "attention_share": 0.4}
    assert second.values == {"scores": "128 x 128"}


def test_c07_claims_all_on_an_unknown_device_and_says_so() -> None:
    data = document(calls(QK, SOFTMAX, PV))
    assert claimed_ns(data, "RL-C07") == 300_000
    assert "the bound is all of that time" in found(data)["RL-C07"].evidence[-1].message


def test_c07_knows_the_backward_pass() -> None:
    backward = (
        ("aten::bmm", described(BF16, [4, 128, 64], [4, 64, 128])),  # gradient of the weights
        ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64])),  # of the values
        ("aten::_softmax_backward_data", described(BF16, [1, 4, 128, 128], [1, 4, 128, 128], [], [])),
        ("aten::bmm", described(BF16, [4, 128, 128], [4, 128, 64])),  # of the queries
        ("aten::bmm", described(BF16, [4, 64, 128], [4, 128, 128])),  # of the keys
    )
    assert claimed_ns(document(calls(*backward)), "RL-C07", SLOW) == 500_000 - 20_972


def test_c07_knows_the_math_backend_without_shapes() -> None:
    events = calls(("aten::bmm", {}), ("aten::_softmax", {}), ("aten::bmm", {}))
    events.append(op("aten::_scaled_dot_product_attention_math", 0, 40))
    assert claimed_ns(document(events), "RL-C07") == 300_000


@pytest.mark.parametrize(
    "names_and_args",
    [
        pytest.param((QK, PV), id="no softmax"),
        pytest.param((QK, ("aten::_softmax", described(BF16, [1, 4, 128, 64], [], [])), PV), id="softmax of another"),
        pytest.param((QK, SOFTMAX, ("aten::bmm", described(BF16, [4, 64, 64], [4, 64, 64]))), id="read by no product"),
        pytest.param((SOFTMAX, PV), id="made by no product"),
        pytest.param((QK, SOFTMAX), id="nothing after it"),
        pytest.param((("aten::bmm", {}), ("aten::_softmax", {}), ("aten::bmm", {})), id="shapes not recorded"),
    ],
)
def test_c07_is_silent_where_it_is_no_attention(names_and_args: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    assert "RL-C07" not in matched(document(calls(*names_and_args)), SLOW)


def test_c07_leaves_a_small_share_alone() -> None:
    assert "RL-C07" not in matched(document(calls(QK, SOFTMAX, PV, us=30)), SLOW)


# --- RL-B01: chains ---------------------------------------------------------------------------------------------------

BIG = [1024, 1024]
ADD = ("aten::add", described(FP32, BIG, BIG, []))
RELU = ("aten::relu", described(FP32, BIG))
MEAN = ("aten::mean", {**described(FP32, BIG, [], [], []), "Concrete Inputs": ["", "[1]", "True", ""]})
SMALL = ("aten::sqrt", described(FP32, [1024, 1]))
OTHER_SIZE = ("aten::relu", described(FP32, [2048, 2048]))


def test_b01_keeps_the_longest_member_of_a_chain_on_an_unknown_device() -> None:
    assert claimed_ns(document(calls(ADD, RELU, RELU)), "RL-B01") == 200_000


def test_b01_keeps_the_traffic_of_the_largest_member() -> None:
    data = document(calls(ADD, RELU, RELU))
    fast = machine(fp32=1)
    assert claimed_ns(data, "RL-B01", fast) == 300_000 - 12_583  # three tensors of 4 MiB at 1000 GB/s
    (evidence,) = found(data, machine=fast)["RL-B01"].evidence
    assert evidence.values == {"chained": 3, "chains": 1, "chain_ns": 300_000, "chain_share": 1.0}


def test_b01_follows_a_reduction_to_its_smaller_result() -> None:
    assert claimed_ns(document(calls(RELU, MEAN, SMALL)), "RL-B01") == 200_000


def test_b01_is_silent_where_sizes_differ() -> None:
    assert "RL-B01" not in matched(document(calls(ADD, OTHER_SIZE)))


def test_b01_is_silent_where_other_kernels_stand_between() -> None:
    product = ("aten::mm", described(FP32, BIG, BIG))
    assert "RL-B01" not in matched(document(calls(ADD, product, RELU)))


def test_b01_is_silent_for_a_small_share_of_the_kernel_time() -> None:
    events = calls(ADD, RELU, us=30)
    events += [launch(500, 9), kernel("gemm", 550, 400, correlation=9)]
    assert "RL-B01" not in matched(document(events))


def test_b01_leaves_optimizers_alone() -> None:
    assert "RL-B01" not in matched(document([*calls(ADD, RELU), region("Optimizer.step#Adam.step", 0, 50)]))


def eager(*functors: str) -> bytes:
    """Kernels of unknown work."""
    events = [step(0, 0, 1000)]
    for place, functor in enumerate(functors):
        name = f"void at::native::vectorized_elementwise_kernel<4, {functor}>"
        events += [launch(10 * place, place + 1), kernel(name, 100 * (place + 1), 100, correlation=place + 1)]
    return document(events)


def test_b01_knows_eager_kernels_by_name_but_takes_repeated_ones_for_a_loop_over_tensors() -> None:
    assert claimed_ns(eager("add", "mul"), "RL-B01") == 100_000
    assert "RL-B01" not in matched(eager("add", "add"))


def test_b01_takes_two_kernels_of_one_call_for_no_chain() -> None:
    events = [step(0, 0, 1000), op(RELU[0], 0, 20, **RELU[1])]
    events += [launch(1, 1), kernel("first", 100, 100, correlation=1)]
    events += [launch(5, 2), kernel("second", 200, 100, correlation=2)]
    assert "RL-B01" not in matched(document(events))
