"""Memory of the device and its allocator, where it costs time."""

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.host import call, later_step, two_kernels
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

# RL-B07: fires where zeros are written and added to, and leaves dropped gradients and accumulation alone.


NODE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def added(ts: float) -> list[Event]:
    """A node of 30 us that adds to a gradient."""
    return [op(NODE, ts, 30), op("aten::add_", ts + 5, 20)]


def trained(*events: Event) -> bytes:
    return document(
        [
            step(0, 0, 1000),
            op("aten::linear", 0, 100, **{"Sequence number": 1, "Fwd thread id": 0}),
            region("Optimizer.zero_grad#SGD.zero_grad", 100, 50),
            op("autograd::engine::evaluate_function: AddmmBackward0", 300, 100),
            *events,
        ]
    )


ZEROED = op("aten::_foreach_zero_", 105, 40)


def test_b07_claims_zeroing_what_it_pushes_out_and_adding() -> None:
    data = trained(ZEROED, *added(400), *added(440))
    assert claimed_ns(data, "RL-B07") == 40_000 + 40_000 + 2 * 30_000
    values = found(data)["RL-B07"].evidence[0].values
    assert (values["zeroing_ns"], values["adding_ns"], values["gradients"]) == (40_000, 60_000, 2)


def test_b07_leaves_later_passes_to_accumulation() -> None:
    second = [
        op("aten::linear", 500, 100, **{"Sequence number": 2, "Fwd thread id": 0}),
        op("autograd::engine::evaluate_function: AddmmBackward0", 600, 50),
        *added(650),
    ]
    assert claimed_ns(trained(ZEROED, *added(400), *second), "RL-B07") == 40_000 + 40_000 + 30_000


def test_b07_leaves_gradients_that_are_dropped_alone() -> None:
    assert "RL-B07" not in matched(trained(op(NODE, 400, 30), op("aten::detach", 405, 20)))


def test_b07_leaves_accumulation_without_zeroing_alone() -> None:
    assert "RL-B07" not in matched(trained(*added(400)))


# RL-C13: forward operators inside the backward pass; gradients of gradients are not recomputation.


FORWARD = {"Sequence number": 1, "Fwd thread id": 0}
BACKWARD = {"Sequence number": 1, "Fwd thread id": 1}


def linear(at: float, rows: int) -> Event:
    return op("aten::linear", at, 100, **described(FP32, [rows, 64], [64, 64]), **FORWARD)


def job(*, rows_again: int | None) -> bytes:
    again = [] if rows_again is None else [linear(510, rows_again)]
    node = op("MmBackward0", 500, 300, **described(FP32, [32, 64]), **BACKWARD)
    return document([step(0, 0, 1000), linear(0, 32), node, *again])


def test_c13_claims_what_is_computed_again() -> None:
    assert claimed_ns(job(rows_again=32), "RL-C13") == 110_000  # from the begin of the node
    first, _ = found(job(rows_again=32))["RL-C13"].evidence
    assert first.values == {"operators": 1, "recomputed_ns": 110_000, "step_ns": 1_000_000}


def test_c13_is_silent_without_it() -> None:
    assert "RL-C13" not in matched(job(rows_again=None))


def test_c13_leaves_gradients_of_gradients_alone() -> None:
    assert "RL-C13" not in matched(job(rows_again=16))  # a call that the forward pass did not make


# RL-M01: the allocator asks the driver for memory in the middle of steps, or holds much that it cannot use.


@pytest.mark.parametrize("name", ["cudaMalloc", "hipFree", "cuMemCreate"])
def test_m01_claims_the_idle_time_that_the_driver_causes(name: str) -> None:
    data = document(later_step(call(name, 1110, 200)))
    assert claimed_ns(data, "RL-M01") == 200_000
    assert found(data)["RL-M01"].evidence[0].values["call"] == name


def test_m01_leaves_out_a_first_step_that_warms_up() -> None:
    data = document([*later_step(call("cudaFree", 1110, 200)), call("cudaFree", 810, 20), call("cudaMalloc", 835, 5)])
    values = found(data)["RL-M01"].evidence[0].values
    assert values == {"calls": 1, "call": "cudaFree", "calling_ns": 200_000, "idle_ns": 200_000}


def test_m01_counts_a_first_step_that_is_like_the_others() -> None:
    data = document([*later_step(call("cudaFree", 1110, 200)), call("cudaFree", 810, 20)])
    assert found(data)["RL-M01"].evidence[0].values["calling_ns"] == 110_000


def test_m01_tells_an_allocator_that_keeps_nothing() -> None:
    def frees(number: int) -> list[Event]:
        return [call("cudaFree", 805 + 0.5 * one, 0.4) for one in range(number)]

    later = [call("cudaFree", 1110 + 5 * one, 4) for one in range(60)]
    even = found(document([*later_step(*later), *frees(60)]))["RL-M01"]
    assert "caching allocator seems to be off" in even.evidence[-1].message
    assert len(found(document([*later_step(*later), *frees(3)]))["RL-M01"].evidence) == 1


@pytest.mark.parametrize("name", ["cudaHostAlloc", "cudaHostRegister", "hipHostMalloc", "cuMemHostAlloc"])
def test_m01_tells_memory_of_the_host_that_is_pinned_in_steps(name: str) -> None:
    finding = found(document(later_step(call(name, 1110, 180), call("cudaFree", 1300, 20))))["RL-M01"]
    assert finding.evidence[-1].values == {"pinning_share": 0.9}
    assert finding.fix is not None
    assert "Pin memory once" in finding.fix.message
    mostly_device = found(document(later_step(call(name, 1110, 80), call("cudaFree", 1200, 120))))["RL-M01"]
    assert len(mostly_device.evidence) == 1
    assert mostly_device.fix is None


def test_m01_leaves_the_first_step_and_pooled_memory_alone() -> None:
    assert "RL-M01" not in matched(document([*two_kernels(103, 700, call("cudaMalloc", 110, 200)), step(1, 1000, 9)]))
    assert "RL-M01" not in matched(document(later_step(call("cudaMallocAsync", 1110, 200))))


def memory_mark(ts: float, allocated: int, reserved: int) -> Event:
    args = {"Device Id": 0, "Bytes": 8, "Total Allocated": allocated, "Total Reserved": reserved}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": ts, "args": args}


def allocating(allocated: int, reserved: int) -> bytes:
    """A trace of a device of 1000 bytes on which most was allocated so."""
    marks = [memory_mark(20, allocated // 2, reserved), memory_mark(30, allocated, reserved)]
    properties = [{"id": 0, "name": "made up", "totalGlobalMem": 1000}]
    return document([*two_kernels(800, 850), *marks], deviceProperties=properties)


def test_m01_tells_memory_that_is_reserved_and_cannot_be_used() -> None:
    (evidence,) = found(allocating(680, 800))["RL-M01"].evidence
    assert evidence.values == {"unusable_bytes": 120.0, "unusable_share": 0.12}


@pytest.mark.parametrize(("allocated", "reserved"), [(700, 800), (500, 700), (-1, -1)])
def test_m01_leaves_memory_alone_that_is_used_or_plenty(allocated: int, reserved: int) -> None:
    assert "RL-M01" not in found(allocating(allocated, reserved))
