"""Copies, conversions of layout and small operators in a row, which only move bytes."""

import pytest

from redline.roofline.sizes import is_channels_first, is_channels_last
from tests.support.events import Event, document, kernel, launch, op, region
from tests.support.rules.kernels import copying, job
from tests.support.rules.matching import BF16, FP32, calls, claimed_ns, described, found, machine, matched, step

# RL-C12: copies that the program asks for and that change nothing.


def test_c12_claims_clones() -> None:
    data = job(*copying("aten::clone", 300), *copying("aten::to", 400))
    assert claimed_ns(data, "RL-C12") == 300_000  # and as much again for what reads the last copy
    (evidence,) = found(data)["RL-C12"].evidence
    assert evidence.values["copies"] == 2


def test_c12_leaves_conversions_alone() -> None:
    assert "RL-C12" not in matched(job(*copying("aten::to", 300, types=(BF16, FP32))))
    assert "RL-C12" not in matched(job(*copying("aten::contiguous", 300, strides=[[32, 1], [1, 64]])))


def test_c12_leaves_copies_inside_other_operators_alone() -> None:
    inside = [op("aten::reshape", 295, 120, **described(FP32, [64, 32])), *copying("aten::clone", 300)]
    assert "RL-C12" not in matched(job(*inside))


# RL-C10: convolutions want their tensors in another memory layout, so every one is converted there and back.


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


# RL-C10 on a CPU: copies between channels-first and channels-last images, told by strides.


SHAPE, FIRST, LAST = [8, 16, 32, 32], [16384, 1024, 32, 1], [16384, 1, 512, 16]


def reading(name: str, at: float, dur: float, *strides: list[int]) -> Event:
    return op(name, at, dur, **(described(FP32, *[SHAPE] * len(strides)) | {"Input Strides": list(strides)}))


def test_c10_claims_conversions_and_operators_that_read_both_layouts() -> None:
    events = [
        step(0, 0, 1000),
        reading("aten::relu", 0, 500, LAST),
        reading("aten::copy_", 500, 100, FIRST, LAST),
        reading("aten::threshold_backward", 600, 50, FIRST, LAST),
    ]
    assert (
        claimed_ns(document(events), "RL-C10") == 200_000
    )  # 100 us, as long again, of which 50 us are the reader of both


def test_c10_leaves_copies_of_one_layout_alone() -> None:
    events = [step(0, 0, 1000), reading("aten::relu", 0, 500, LAST), reading("aten::copy_", 500, 100, LAST, LAST)]
    assert "RL-C10" not in matched(document(events))


@pytest.mark.parametrize(
    ("shape", "strides", "last", "first"),
    [
        ((8, 16, 32, 32), (16384, 1, 512, 16), True, False),
        ((8, 16, 32, 32), (16384, 1024, 32, 1), False, True),
        ((2, 4, 64, 8), (2048, 8, 32, 1), False, False),  # heads of attention
        ((8, 1, 32, 32), (1024, 1, 32, 1), False, False),  # one channel: both layouts are the same
    ],
)
def test_layouts_are_told_by_strides(shape: tuple[int, ...], strides: tuple[int, ...], last: bool, first: bool) -> None:
    assert (is_channels_last(shape, strides), is_channels_first(shape, strides)) == (last, first)


# RL-B01: chains of small operators, each of which reads from memory what the one before it wrote there.


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
