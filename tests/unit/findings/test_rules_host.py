"""Rules about the host, the data loader and the allocator: each fires on its trace and not on its counter-trace.

Times in traces are microseconds, claimed times nanoseconds. Idle time after the last work is never claimed: nothing
tells what the device waited for.
"""

from collections.abc import Sequence

import pytest

from tests.conftest import Event, document, op, region, span
from tests.unit.findings.conftest import claimed_ns, copied, found, launched, matched, step

READ, WRITE = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"
PINNED_WRITE = "Memcpy HtoD (Pinned -> Device)"


def call(name: str, ts: float, dur: float) -> Event:
    return span("cuda_runtime", name, ts, dur)


def two_kernels(first_ends: float, second_launched: float, *between: Event, length: float = 1000) -> list[Event]:
    """A step with a kernel that runs until `first_ends`, then one of 100 us that is launched at `second_launched`."""
    return [
        step(0, 0, length),
        *launched("gemm", 3, first_ends - 3, 1, at=0),
        *between,
        *launched("gemm", second_launched + 3, 100, 2, at=second_launched),
    ]


def small_kernels(number: int, ts: float, correlation: int) -> list[Event]:
    """A kernel of 5 us every 30 us, each launched 3 us before it runs."""
    return [
        event
        for index in range(number)
        for event in launched("add", ts + 30 * index + 3, 5, correlation + index, at=ts + 30 * index)
    ]


# --- RL-D01, RL-D02: the data loader ----------------------------------------------------------------------------------

ALONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading_for(us: float, loader: str) -> list[Event]:
    """A step of 1000 us that begins in the data loader and then runs one kernel of 500 us."""
    return [step(0, 0, 1000), region(loader, 0, us), *launched("gemm", us + 2, 500, 1, at=us)]


@pytest.mark.parametrize(("loader", "code", "other"), [(ALONE, "RL-D01", "RL-D02"), (WORKERS, "RL-D02", "RL-D01")])
def test_d01_d02_claim_the_time_in_the_loader(loader: str, code: str, other: str) -> None:
    data = document(loading_for(100, loader))
    assert claimed_ns(data, code) == 100_000
    assert matched(data)[code].accounts == {"input": 100_000}
    assert found(data)[code].share == 0.1
    assert other not in matched(data)


@pytest.mark.parametrize(("loader", "code"), [(ALONE, "RL-D01"), (WORKERS, "RL-D02")])
def test_d01_d02_leave_a_short_wait_alone(loader: str, code: str) -> None:
    assert code not in found(document(loading_for(25, loader)))


def test_d02_leaves_a_loader_alone_that_the_device_does_not_wait_for() -> None:
    events = [step(0, 0, 1000), *launched("gemm", 3, 900, 1, at=0), region(WORKERS, 10, 500)]
    assert "RL-D02" not in matched(document([*events, *launched("gemm", 903, 50, 2, at=600)]))


# --- RL-D03: batches from pageable memory -----------------------------------------------------------------------------


def batch_copy(name: str, size_bytes: int, *, blocking: bool = True) -> list[Event]:
    """A copy from 20 to 210 us; the host waits for it from 14 to 220 us if it is blocking."""
    wait = [call("cudaStreamSynchronize", 215, 5)] if blocking else []
    copy = copied(name, 20, 190, 3, size_bytes=size_bytes, at=14, took=200 if blocking else 2)
    return [op("aten::copy_", 12, 210 if blocking else 6), *copy, *wait]


def test_d03_claims_the_copy_and_the_wait_for_it() -> None:
    data = document(two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400))
    # idle from 14 to 20 and, after the copy, until the next kernel at 225
    assert claimed_ns(data, "RL-D03") == 190_000 + 6_000 + 15_000
    assert found(data)["RL-D03"].evidence[0].values["size_bytes"] == 2_000_000
    assert "RL-H06" not in matched(data)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(batch_copy(PINNED_WRITE, 2_000_000, blocking=False), id="pinned and not waited for"),
        pytest.param(batch_copy(WRITE, 900_000), id="small"),
    ],
)
def test_d03_leaves_other_copies_alone(events: list[Event]) -> None:
    assert "RL-D03" not in matched(document(two_kernels(10, 222, *events, length=400)))


def test_d03_wants_a_batch_in_every_step() -> None:
    events = two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400)
    again = [step(1, 400, 400), *launched("gemm", 403, 300, 9, at=400)]
    assert "RL-D03" not in matched(document([*events, *again]))


# --- RL-H01, RL-H02: launching ----------------------------------------------------------------------------------------


def stepping(*kernels: int) -> list[Event]:
    """Steps of 1000 us, each with so many kernels of 5 us."""
    return [
        event
        for number, count in enumerate(kernels)
        for event in (step(number, 1000 * number, 1000), *small_kernels(count, 1000 * number, 1000 * number + 1))
    ]


def test_h01_claims_all_gaps_where_steps_repeat() -> None:
    data = document(stepping(30, 30, 30))
    # not: 1 us before the first kernel, in which the device may have been busy, and 122 us after the last
    assert claimed_ns(data, "RL-H01") == 3 * (1000 - 150) * 1000 - 1_000 - 122_000
    assert "RL-H02" not in matched(data)


@pytest.mark.parametrize("kernels", [(30, 25, 30), (30,)])
def test_h02_takes_over_where_steps_do_not_repeat(kernels: Sequence[int]) -> None:
    data = document(stepping(*kernels))
    busy_us, tail_us = 5 * sum(kernels), 122
    assert claimed_ns(data, "RL-H02") == (1000 * len(kernels) - busy_us - tail_us - 1) * 1000
    assert "RL-H01" not in matched(data)


@pytest.mark.parametrize("kernels", [(19,), (19, 19, 19)])
def test_h01_h02_leave_a_handful_of_kernels_alone(kernels: Sequence[int]) -> None:
    assert not {"RL-H01", "RL-H02"} & set(matched(document(stepping(*kernels))))


def test_h01_leaves_steps_alone_that_differ_by_a_few_kernels() -> None:
    seen = matched(document(stepping(30, 30, 28)))
    assert "RL-H02" in seen
    assert "RL-H01" not in seen


def test_h01_sees_launches_beside_long_pauses_of_the_host_but_does_not_claim_these() -> None:
    """In each step 15 kernels, a pause of 6 ms, 15 kernels."""
    events = [step(number, 10_000 * number, 10_000) for number in range(3)]
    for number in range(3):
        events += small_kernels(15, 10_000 * number, 100 * number + 1)
        events += small_kernels(15, 10_000 * number + 6_500, 100 * number + 50)
    data = document(events)
    assert "RL-H01" in matched(data)
    assert claimed_ns(data, "RL-H01") < 3 * 4_000_000


def test_h01_counts_kernels_in_the_step_that_launched_them() -> None:
    """The device lags: the last kernels of each step run in the next one, but every step launches as many."""
    late = [event if event["name"] != "add" else {**event, "ts": event["ts"] + 300} for event in stepping(30, 30, 30)]
    assert "RL-H01" in matched(document(late))


# --- RL-H03: values that Python reads ---------------------------------------------------------------------------------


def item_of(copy: list[Event]) -> list[Event]:
    return [op("aten::item", 10, 412), op("aten::_local_scalar_dense", 11, 410), *copy]


def test_h03_claims_the_idle_time_after_a_read() -> None:
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    data = document(two_kernels(403, 500, *reads))
    assert claimed_ns(data, "RL-H03") == 2_000 + 97_000  # 403 to 405, and 406 to 503 us
    finding = found(data)["RL-H03"]
    assert finding.evidence[0].values["operator"] == "aten::item"
    assert finding.evidence[0].values["blocked_ns"] == 408_000


def test_h03_claims_no_more_than_the_host_was_blocked() -> None:
    """The device had nothing to do long before: the host was blocked for 16 us only."""
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = [op("aten::item", 400, 22), *copied(READ, 408, 1, 3, size_bytes=4, at=404, took=8), wait]
    assert claimed_ns(document(two_kernels(103, 900, *reads)), "RL-H03") == 16_000


def test_h03_leaves_numbers_of_the_host_alone() -> None:
    assert "RL-H03" not in matched(document(two_kernels(403, 500, *item_of([]))))


def test_h03_leaves_copies_alone_that_nobody_waits_for() -> None:
    copy = copied("Memcpy DtoH (Device -> Pinned)", 405, 1, 3, size_bytes=4, at=12, took=2)
    assert "RL-H03" not in matched(document(two_kernels(403, 500, op("aten::copy_", 10, 6), *copy)))


def test_h03_names_the_line_of_the_program() -> None:
    python = span("python_function", "train.py(7): log", 5, 450, args={"Python id": 1})
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    evidence = found(document(two_kernels(403, 500, python, *reads)))["RL-H03"].evidence
    assert evidence[-1].values == {"site": "train.py(7): log"}


# --- RL-H04: waiting on purpose ---------------------------------------------------------------------------------------

SYNC = call("cudaDeviceSynchronize", 10, 410)


def test_h04_claims_the_idle_time_after_a_synchronisation() -> None:
    data = document(two_kernels(403, 500, SYNC))
    assert claimed_ns(data, "RL-H04") == 100_000
    assert found(data)["RL-H04"].evidence[0].values["call"] == "cudaDeviceSynchronize"


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([op("c10d::barrier", 5, 420), SYNC], id="inside an operator"),
        pytest.param([call("cudaEventSynchronize", 10, 410)], id="of an event"),
        pytest.param([call("cudaDeviceSynchronize", 700, 200)], id="after the last launch"),
    ],
)
def test_h04_leaves_other_synchronisations_alone(between: list[Event]) -> None:
    assert "RL-H04" not in matched(document(two_kernels(403, 500, *between)))


# --- RL-H06: small copies to the device -------------------------------------------------------------------------------


def small_copy(name: str, size_bytes: int, *, blocking: bool = True) -> list[Event]:
    """A copy from 24 to 26 us; the host waits for it from 14 to 30 us if it is blocking."""
    wait = [call("cudaStreamSynchronize", 23, 7)] if blocking else []
    copy = copied(name, 24, 2, 3, size_bytes=size_bytes, at=14, took=8 if blocking else 2)
    return [op("aten::copy_", 12, 28 if blocking else 6), *copy, *wait]


def test_h06_claims_the_copy_and_the_wait_for_it() -> None:
    data = document(two_kernels(10, 32, *small_copy(WRITE, 4096), length=200))
    assert claimed_ns(data, "RL-H06") == 2_000 + 16_000  # idle from 14 to 24 and from 26 to 32 us
    assert "RL-D03" not in matched(data)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(small_copy(PINNED_WRITE, 4096, blocking=False), id="pinned and not waited for"),
        pytest.param(small_copy(WRITE, 64 * 1024), id="large"),
    ],
)
def test_h06_leaves_other_copies_alone(events: list[Event]) -> None:
    assert "RL-H06" not in matched(document(two_kernels(10, 32, *events, length=200)))


# --- RL-H07, RL-H08: the optimizer ------------------------------------------------------------------------------------


def optimizer(name: str, *inside: Event) -> list[Event]:
    """A step of 1000 us with an optimizer from 100 to 600 us, and a kernel before and after."""
    return two_kernels(50, 700, region(f"Optimizer.step#{name}.step", 100, 500), *inside)


def updates(kernel_name: str, number: int) -> list[Event]:
    """So many kernels of 5 us from 103 us on, one every 12 us."""
    return [
        event
        for index in range(number)
        for event in launched(kernel_name, 103 + 12 * index, 5, 10 + index, at=100 + 12 * index)
    ]


def test_h07_claims_the_kernels_of_the_optimizer_and_the_idle_time_it_causes() -> None:
    data = document(optimizer("SGD", *updates("vectorized_elementwise_kernel", 40)))
    # 3 us before its first kernel, 7 us between two, 127 us after the last
    assert claimed_ns(data, "RL-H07") == 40 * 5_000 + 3_000 + 39 * 7_000 + 127_000
    assert found(data)["RL-H07"].evidence[0].values["optimizer"] == "SGD.step"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(updates("multi_tensor_apply_kernel<TensorListMetadata<2>>", 40), id="lists of tensors"),
        pytest.param(updates("vectorized_elementwise_kernel", 39), id="few kernels"),
    ],
)
def test_h07_leaves_other_optimizers_alone(events: list[Event]) -> None:
    assert "RL-H07" not in matched(document(optimizer("SGD", *events)))


def adam(reads: int, operator: str) -> list[Event]:
    """An optimizer that reads so many numbers of the host, then launches one kernel at 420 us."""
    items = [op("aten::item", 110 + 10 * index, 4) for index in range(reads)]
    return optimizer("Adam", *items, op(operator, 400, 40), *launched("multi_tensor_apply", 423, 10, 10, at=420))


def test_h08_claims_what_the_optimizer_takes_of_the_host() -> None:
    data = document(adam(20, "aten::_foreach_add_"))
    # the kernel, and 500 us of idle time: as long as the host was in the optimizer
    assert claimed_ns(data, "RL-H08") == 10_000 + 500_000
    assert found(data)["RL-H08"].evidence[0].values["reads"] == 20
    assert "RL-H03" not in matched(data)


@pytest.mark.parametrize(("reads", "operator"), [(19, "aten::_foreach_add_"), (20, "aten::_fused_adam_")])
def test_h08_leaves_other_optimizers_alone(reads: int, operator: str) -> None:
    assert "RL-H08" not in matched(document(adam(reads, operator)))


# --- RL-H09: garbage collection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Python GC", "<built-in function collect>"])
def test_h09_claims_the_idle_time_that_a_collection_causes(name: str) -> None:
    data = document(two_kernels(103, 500, span("python_function", name, 100, 300)))
    assert claimed_ns(data, "RL-H09") == 300_000  # from 103 us on


def test_h09_leaves_a_pause_without_a_collection_alone() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500, span("python_function", "collect", 100, 300))))


def test_h09_leaves_a_collection_alone_that_the_device_does_not_wait_for() -> None:
    events = two_kernels(480, 470, span("python_function", "Python GC", 100, 300))
    assert "RL-H09" not in found(document(events))


# --- RL-H10: graph breaks ---------------------------------------------------------------------------------------------


def compiled(outer_us: float) -> list[Event]:
    """Two compiled functions at 10 and 200 us; the first lasts so long."""
    return [
        op("Torch-Compiled Region: 0/0", 10, outer_us),
        op("CompiledFunction", 20, 40),
        op("Torch-Compiled Region: 1/0", 200, 190),
        op("CompiledFunction", 300, 40),
    ]


def test_h10_claims_the_idle_time_between_the_graphs_of_a_broken_function() -> None:
    events = [step(0, 0, 1000), *compiled(390)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    data = document(events)
    # outside the graphs: 10 to 20, 60 to 300 and 340 to 400 us
    assert claimed_ns(data, "RL-H10") == 310_000
    assert found(data)["RL-H10"].evidence[0].values["breaks"] == 1


def test_h10_leaves_functions_alone_that_were_compiled_apart() -> None:
    events = [step(0, 0, 1000), *compiled(90)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    assert "RL-H10" not in matched(document(events))


# --- RL-H11: compiling again ------------------------------------------------------------------------------------------


def later_step(*between: Event) -> list[Event]:
    """A quiet step, then one with a gap from 1103 to 1703 us."""
    return [
        *two_kernels(800, 850),
        step(1, 1000, 1000),
        *launched("gemm", 1003, 100, 3, at=1000),
        *between,
        *launched("gemm", 1703, 100, 4, at=1700),
    ]


@pytest.mark.parametrize("name", ["_compile.compile_inner (dynamo_timed)", "entire_backward_compile"])
def test_h11_claims_the_idle_time_that_compiling_causes(name: str) -> None:
    assert claimed_ns(document(later_step(op(name, 1100, 500))), "RL-H11") == 500_000


def test_h11_leaves_the_first_step_alone() -> None:
    assert "RL-H11" not in matched(
        document([*two_kernels(103, 700, op("entire_frame_compile", 100, 500)), step(1, 1000, 500)])
    )


def test_h11_leaves_compiled_code_alone() -> None:
    assert "RL-H11" not in matched(document(later_step(op("Torch-Compiled Region: 0/0", 1100, 500))))


# --- RL-M01: the allocator --------------------------------------------------------------------------------------------


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


# --- RL-H19: long work of the host ------------------------------------------------------------------------------------


def pausing_for(us: float, *inside: Event) -> list[Event]:
    """20 small kernels, the last of which ends at 578 us, then a launch at 600 us plus the pause."""
    return [
        step(0, 0, 12_000),
        *small_kernels(20, 0, 10),
        *inside,
        *launched("gemm", 603 + us, 100, 9, at=600 + us),
    ]


def test_h19_claims_long_pauses_between_launches() -> None:
    data = document(pausing_for(10_000, region("postprocess", 590, 9_900)))
    assert claimed_ns(data, "RL-H19") == 10_022_000  # from the end of the last kernel to the next launch
    assert found(data)["RL-H19"].evidence[-1].values == {"place": "postprocess"}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(pausing_for(4_900), id="short"),
        pytest.param(pausing_for(10_000, call("cudaFree", 580, 10_015)), id="in a call of the driver"),
    ],
)
def test_h19_leaves_other_pauses_alone(events: list[Event]) -> None:
    assert "RL-H19" not in found(document(events))


def later(event: Event, us: float) -> Event:
    """The same again, launched by a call of its own."""
    args = {**event["args"], "correlation": event["args"]["correlation"] + 1000}
    return {**event, "ts": event["ts"] + us, "args": args}


def test_h19_claims_what_the_first_step_has_as_all_have_it() -> None:
    mark, *events = pausing_for(10_000)
    data = document([mark, *events, step(1, 12_000, 11_000), *(later(event, 12_000) for event in events)])
    assert claimed_ns(data, "RL-H19") == 2 * 10_022_000


def test_h19_leaves_a_first_step_alone_that_warms_up() -> None:
    assert "RL-H19" not in matched(document([*pausing_for(10_000), step(1, 12_000, 1000)]))
