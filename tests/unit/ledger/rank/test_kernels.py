"""Which operator's work a kernel does, what that work needs, and which work was done twice."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from redline.hardware.machine import Machine
from redline.ledger.rank.activity import activity_of
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.kernel_table import KernelRow, kernel_table, merged
from redline.ledger.rank.kernels import OperatorCalls, RatedKernels, kernels_of, needs
from redline.ledger.rank.ratings import rate, recomputed
from redline.timeline.timeline import NONE, Timeline
from redline.trace.reader import read_file
from tests.support.events import Event, document, kernel, launch, names_of, op, read_one, row_of, span
from tests.support.machines import PRODUCT, PRODUCT_BYTES, PRODUCT_FLOPS, machine_with
from tests.support.promises import needs_torch

MATH_NS, MEMORY_NS = 1000.0, 400.0  # that a product needs on this machine
MACHINE = machine_with(MATH_NS, MEMORY_NS)
SUM: Mapping[str, Any] = {
    "Input Dims": [[64, 64], [64, 64], []],
    "Input type": ["float", "float", "Scalar"],
    "Input Strides": [[64, 1], [64, 1], []],
    "Concrete Inputs": ["", "", "1"],
}


def mm(ts: float, dur: float, *, tid: int = 1, **more: Any) -> Event:
    return op("aten::mm", ts, dur, tid=tid, **{**PRODUCT, **more})


def linear(ts: float, dur: float) -> Event:
    return op("aten::linear", ts, dur, **PRODUCT)


def timeline_of(events: Sequence[Event]) -> Timeline:
    with TemporaryDirectory() as folder:
        return read_one(document(events), Path(folder))


def kernels(events: Sequence[Event], machine: Machine | None = MACHINE) -> tuple[Timeline, RatedKernels]:
    timeline = timeline_of(events)
    return timeline, kernels_of(timeline, activity_of(timeline), machine)


def calls(events: Sequence[Event], machine: Machine | None = MACHINE) -> OperatorCalls:
    return kernels(events, machine)[1].calls


def lenders(events: Sequence[Event]) -> dict[str, str]:
    """For each kernel the operator that lends it its work."""
    timeline = timeline_of(events)
    activity = activity_of(timeline)
    names = names_of(timeline)
    found = rate(timeline, activity).operator.tolist()
    return {
        names[row]: names[operator] if operator != NONE else ""
        for row, operator in zip(activity.compute.row.tolist(), found, strict=True)
    }


# --- whose work a kernel does -----------------------------------------------------------------------------------------


def test_the_operator_around_the_launch_lends_its_work() -> None:
    assert lenders([mm(0, 10), launch(5, 1), kernel("gemm", 20, 5, correlation=1)]) == {"gemm": "aten::mm"}


def test_where_that_is_not_known_the_nearest_one_outwards_does() -> None:
    frames = [span("python_function", "wrapper.py(3): call", 1, 18)]
    events = [linear(0, 20), op("vendor::unknown", 2, 16), launch(5, 1), kernel("gemm", 30, 5, correlation=1)]
    assert lenders(events) == {"gemm": "aten::linear"}
    assert lenders([*events, *frames]) == {"gemm": "aten::linear"}


def test_of_two_that_are_known_the_inner_one_does() -> None:
    assert lenders([linear(0, 20), mm(2, 16), launch(5, 1), kernel("gemm", 30, 5, correlation=1)]) == {
        "gemm": "aten::mm"
    }


def test_an_operator_does_not_lend_arithmetic_that_one_inside_it_did() -> None:
    events = [
        linear(0, 30),
        mm(2, 8),
        launch(5, 1),
        op("vendor::bias", 15, 10),
        launch(17, 2),
        kernel("gemm", 40, 5, correlation=1),
        kernel("bias", 50, 5, correlation=2),
    ]
    assert lenders(events) == {"gemm": "aten::mm", "bias": ""}


def test_nor_where_the_inner_one_lent_it_to_an_operator_further_in() -> None:
    events = [
        linear(0, 30),
        mm(2, 8),
        op("vendor::gemm", 3, 6),
        launch(5, 1),
        op("vendor::bias", 15, 10),
        launch(17, 2),
        kernel("gemm", 40, 5, correlation=1),
        kernel("bias", 50, 5, correlation=2),
    ]
    assert lenders(events) == {"gemm": "aten::mm", "bias": ""}


def test_nor_to_a_kernel_that_it_launched_itself() -> None:
    events = [
        linear(0, 30),
        mm(2, 8),
        launch(5, 1),
        launch(17, 2),
        kernel("gemm", 40, 5, correlation=1),
        kernel("bias", 50, 5, correlation=2),
    ]
    assert lenders(events) == {"gemm": "aten::mm", "bias": ""}


def test_what_a_graph_launched_was_recorded_elsewhere() -> None:
    events = [mm(0, 10), launch(5, 1, name="cudaGraphLaunch"), kernel("gemm", 20, 5, correlation=1)]
    assert lenders(events) == {"gemm": ""}


def test_without_an_operator_or_shapes_nothing_is_known() -> None:
    assert lenders([launch(5, 1), kernel("gemm", 20, 5, correlation=1)]) == {"gemm": ""}
    assert lenders([op("aten::mm", 0, 10), launch(5, 1), kernel("gemm", 20, 5, correlation=1)]) == {"gemm": ""}


def test_an_operator_far_outside_does_more_than_this_kernel() -> None:
    around = [op(f"vendor::level{level}", 1 + level, 60 - 2 * level) for level in range(12)]
    events = [linear(0, 100), *around, launch(30, 1), kernel("gemm", 200, 5, correlation=1)]
    assert lenders(events) == {"gemm": ""}


def test_on_a_cpu_operators_do_their_own_work() -> None:
    assert lenders([linear(0, 30), mm(2, 8)])["aten::mm"] == "aten::mm"


# --- what a call took and needs ---------------------------------------------------------------------------------------


def test_kernels_of_one_call_share_its_work() -> None:
    events = [
        mm(0, 10),
        launch(3, 1),
        launch(6, 2),
        kernel("split", 20, 3, correlation=1),
        kernel("reduce", 25, 1, correlation=2),
    ]
    timeline, found = kernels(events)
    assert (found.calls.kernels.tolist(), found.calls.time_ns.tolist()) == ([2], [4000])
    assert (found.calls.flops.tolist(), found.calls.bytes.tolist()) == ([PRODUCT_FLOPS], [PRODUCT_BYTES])
    assert timeline.texts[int(found.calls.kernel_name[0])] == "split"
    math, memory = needs(found)
    assert (math * [3000, 1000]).sum() == pytest.approx(MATH_NS)
    assert memory.tolist() == [0.0, 0.0]  # the bytes need less time than the arithmetic


def test_bytes_that_need_longer_than_the_arithmetic_are_memory() -> None:
    events = [op("aten::add", 0, 10, **SUM), launch(3, 1), kernel("add", 20, 1, correlation=1)]
    math, memory = needs(kernels(events)[1])
    assert (math.tolist(), memory.tolist()) == ([0.0], [pytest.approx(MEMORY_NS / 1000)])


def test_a_call_never_needs_more_than_it_took() -> None:
    _, found = kernels([mm(0, 10), launch(3, 1), kernel("gemm", 20, 0.25, correlation=1)])
    math, memory = needs(found)
    assert (math.tolist(), memory.tolist()) == ([1.0], [0.0])
    assert found.calls.above_roof.tolist() == [True]


def test_a_call_that_takes_what_it_needs_is_not_above_its_roof() -> None:
    assert calls([mm(0, 10), launch(3, 1), kernel("gemm", 20, 1, correlation=1)]).above_roof.tolist() == [False]


def test_copies_and_sets_of_the_operator_count_towards_its_time() -> None:
    events = [
        mm(0, 10),
        launch(2, 1),
        launch(4, 2, name="cudaMemsetAsync"),
        kernel("gemm", 20, 0.5, correlation=1),
        kernel("Memset", 15, 0.75, correlation=2, category="gpu_memset", stream=8),
        kernel("Memset", 15, 0.7, correlation=3, category="gpu_memset", stream=9),
    ]
    found = calls(events)
    assert (found.moving_ns.tolist(), found.above_roof.tolist()) == ([750], [False])


def test_whole_durations_count_where_kernels_overlap() -> None:
    events = [
        mm(0, 4),
        launch(1, 1),
        mm(5, 4),
        launch(6, 2),
        kernel("first", 20, 3, correlation=1),
        kernel("second", 21, 2, correlation=2, stream=8),
        kernel("Memset a", 30, 3, correlation=3, category="gpu_memset"),
        launch(2, 4, dur=1, name="cudaMemsetAsync"),
        kernel("Memset b", 31, 2, correlation=4, category="gpu_memset", stream=8),
    ]
    found = calls(events)
    assert (found.time_ns.tolist(), found.moving_ns.tolist()) == ([3000, 2000], [2000, 0])


def test_without_a_machine_nothing_has_a_roof_but_the_work_is_known() -> None:
    _, found = kernels([mm(0, 10), launch(3, 1), kernel("gemm", 20, 1, correlation=1)], None)
    assert (found.rated.tolist(), found.calls.flops.tolist()) == ([False], [PRODUCT_FLOPS])
    assert not found.calls.above_roof.any()


def test_without_the_peak_of_the_type_arithmetic_has_no_roof() -> None:
    half: dict[str, Any] = {**PRODUCT, "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    events = [op("aten::mm", 0, 10, **half), launch(3, 1), kernel("gemm", 20, 1, correlation=1)]
    assert kernels(events)[1].rated.tolist() == [False]


def test_fp32_that_the_kernel_multiplies_as_tf32_is_held_against_that_peak() -> None:
    found = calls([mm(0, 10), launch(3, 1), kernel("ampere_sgemm_tf32_128x64", 20, 1, correlation=1)])
    assert found.dtype.tolist() == ["tf32"]


# --- the table --------------------------------------------------------------------------------------------------------


def table(events: Sequence[Event], machine: Machine | None = MACHINE) -> tuple[KernelRow, ...]:
    timeline = timeline_of(events)
    activity = activity_of(timeline)
    return kernel_table(timeline, activity, kernels_of(timeline, activity, machine))


def two_products_and_one_unknown() -> list[Event]:
    return [
        mm(0, 4),
        launch(1, 1),
        mm(5, 4),
        launch(6, 2),
        op("vendor::x", 10, 4),
        launch(11, 3),
        kernel("gemm", 20, 2, correlation=1),
        kernel("gemm", 30, 4, correlation=2),
        kernel("mystery", 40, 7, correlation=3),
    ]


def test_one_row_per_operator_and_shapes_the_longest_first() -> None:
    unknown, known = table(two_products_and_one_unknown())
    assert (unknown.operator, unknown.kernel, unknown.time_ns, unknown.regime) == (
        "vendor::x",
        "mystery",
        7000,
        "unknown",
    )
    assert (known.operator, known.shapes, known.dtype) == ("aten::mm", "[[64, 64], [64, 64]]", "fp32")
    assert (known.calls, known.kernels, known.time_ns, known.flops) == (2, 2, 6000, 2 * PRODUCT_FLOPS)
    assert [known.math_ns, known.memory_ns] == pytest.approx([2 * MATH_NS, 2 * MEMORY_NS])
    assert known.share == pytest.approx(1 / 3)
    assert known.regime == "compute"


def test_the_table_holds_all_kernel_time() -> None:
    events = two_products_and_one_unknown()
    assert sum(row.time_ns for row in table(events)) == 13_000
    assert sum(row.time_ns for row in table(events, None)) == 13_000


def test_rows_of_two_ranks_add_up() -> None:
    rows = table(two_products_and_one_unknown())
    unknown, known = merged([*rows, *rows])
    assert (unknown.time_ns, known.time_ns, known.calls, known.flops) == (14_000, 12_000, 4, 4 * PRODUCT_FLOPS)


@pytest.mark.parametrize(
    ("took_us", "regime"), [(0.5, "above roof"), (1.5, "compute"), (4, "neither")], ids=["fast", "near", "far"]
)
def test_what_limits_a_row(took_us: float, regime: str) -> None:
    (row,) = table([mm(0, 4), launch(1, 1), kernel("gemm", 20, took_us, correlation=1)])
    assert row.regime == regime
    assert (row.share is None) == (regime == "above roof")


# --- done twice -------------------------------------------------------------------------------------------------------


def node(name: str, ts: float, dur: float, sequence: int) -> Event:
    """A node of the backward pass: it names the thread of its forward operator."""
    return op(name, ts, dur, **{"Sequence number": sequence, "Fwd thread id": 1})


def forward(ts: float, dur: float, sequence: int) -> Event:
    return mm(ts, dur, **{"Sequence number": sequence, "Fwd thread id": 0})


def is_again(events: Sequence[Event]) -> list[bool]:
    """Of all matrix products in order of time."""
    timeline = timeline_of(events)
    rows = np.array([row for row, name in enumerate(names_of(timeline)) if name == "aten::mm"], np.int64)
    found: list[bool] = recomputed(timeline, rows).tolist()
    return found


def test_forward_work_is_not_done_again() -> None:
    assert is_again([forward(0, 5, 1)]) == [False]


def test_work_of_a_backward_node_is_its_own() -> None:
    assert is_again([forward(0, 5, 1), node("MmBackward0", 10, 10, 1), mm(12, 3)]) == [False, False]


def test_a_numbered_operator_inside_a_backward_node_is_forward_work_again() -> None:
    assert is_again([forward(0, 5, 1), node("CheckpointFunctionBackward", 10, 20, 0), forward(12, 3, 2)]) == [
        False,
        True,
    ]


def test_so_is_what_such_an_operator_calls() -> None:
    outer = op("aten::matmul", 12, 10, **{"Sequence number": 2, "Fwd thread id": 0})
    assert is_again([node("CheckpointFunctionBackward", 10, 20, 0), outer, mm(13, 3)]) == [True]


def test_the_backward_of_what_was_done_again_is_not() -> None:
    events = [
        node("CheckpointFunctionBackward", 10, 40, 0),
        forward(12, 3, 2),
        node("MmBackward0", 30, 10, 2),
        mm(32, 3),
    ]
    assert is_again(events) == [True, False]


# Recorded with torch: what is computed twice is the forward pass of the block under the checkpoint, once per step.
_PROGRAM = """
import sys
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
plain = torch.nn.Linear(16, 32)
block = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
data = torch.randn(4, 16)
for path, is_reentrant in zip(sys.argv[1:], (True, False), strict=True):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        for _ in range(2):
            hidden = plain(data)
            checkpoint(block, hidden, use_reentrant=is_reentrant).sum().backward()
    recorded.export_chrome_trace(path)
"""
_BLOCK_FLOPS = 2 * 4 * (32 * 64 + 64 * 8)
_PLAIN_FLOPS = 2 * 4 * 16 * 32


@needs_torch
def test_checkpointing_computes_the_forward_pass_of_its_block_again(tmp_path: Path) -> None:
    traces = [tmp_path / "reentrant.json", tmp_path / "non-reentrant.json"]
    quiet = os.environ | {"KINETO_LOG_LEVEL": "6", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", _PROGRAM, *map(str, traces)], check=True, timeout=120, env=quiet)
    for trace in traces:
        (timeline,) = read_file(trace).timelines
        (arithmetic,) = digest_of(timeline, None).arithmetic
        assert arithmetic.dtype == "fp32"
        assert arithmetic.recomputed_flops == 2 * _BLOCK_FLOPS
        # Backward costs twice the forward pass, but the first layer needs no gradient of its input.
        assert arithmetic.flops == 2 * (4 * _BLOCK_FLOPS + 2 * _PLAIN_FLOPS)


def test_rows_that_are_asked_for_are_answered_in_order() -> None:
    timeline = timeline_of([node("CheckpointFunctionBackward", 10, 20, 0), forward(12, 3, 2), op("aten::add", 40, 5)])
    rows = np.array([row_of(timeline, "aten::add"), row_of(timeline, "aten::mm")], np.int64)
    assert recomputed(timeline, rows).tolist() == [False, True]
