"""What a rank's device did when, on a GPU and on a CPU: every instant of the window once."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.activity import DeviceActivity, activity_of, loader_time, window_of
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Timeline
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region, span

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def timeline_of(events: Sequence[Event]) -> Timeline:
    with TemporaryDirectory() as folder:
        return read_one(document(events), Path(folder))


def activity(events: Sequence[Event]) -> DeviceActivity:
    """With what every activity promises checked."""
    found = activity_of(timeline_of(events))
    parts = (found.computing, found.communicating, found.copying, found.idle)
    lo, hi = found.window_ns
    assert sum(part.length_ns for part in parts) == hi - lo
    everything = Intervals.empty()
    for part in parts:
        part.self_check()
        assert not len(everything & part)
        everything |= part
    assert everything == Intervals.union_of(np.array([lo]), np.array([hi]))
    return found


def micros(time: Intervals) -> list[tuple[float, float]]:
    return [(start / 1000, end / 1000) for start, end in zip(time.start.tolist(), time.end.tolist(), strict=True)]


# --- on a GPU ---------------------------------------------------------------------------------------------------------


def test_computing_comes_before_communicating_before_copying() -> None:
    found = activity(
        [
            kernel("gemm", 10, 10, stream=7),
            collective(15, 20),
            kernel("Memcpy HtoD", 5, 40, stream=9, category="gpu_memcpy"),
            kernel("Memset", 50, 5, stream=9, category="gpu_memset"),
        ]
    )
    assert found.device == "gpu"
    assert micros(found.computing) == [(5, 15)]
    assert micros(found.communicating) == [(15, 30)]
    assert micros(found.copying) == [(0, 5), (30, 40), (45, 50)]
    assert micros(found.idle) == [(40, 45)]


def test_kernels_of_several_streams_are_one_device() -> None:
    found = activity([kernel("a", 0, 10, stream=7), kernel("b", 5, 10, stream=8), kernel("c", 20, 5, stream=7)])
    assert micros(found.computing) == [(0, 15), (20, 25)]
    assert found.compute.dur_ns.tolist() == [10_000, 5_000, 5_000]


def test_the_window_begins_with_the_host_and_ends_with_the_device() -> None:
    found = activity([op("aten::mm", 0, 5), launch(3, 1), kernel("gemm", 10, 10, correlation=1)])
    assert found.window_ns == (0, 20_000)
    assert micros(found.idle) == [(0, 10)]


def test_operators_are_no_work_of_a_gpu() -> None:
    found = activity([op("aten::mm", 0, 30), launch(3, 1), kernel("gemm", 10, 10, correlation=1)])
    assert micros(found.computing) == [(10, 20)]


def test_waits_between_streams_are_idle_time() -> None:
    found = activity([kernel("wait", 0, 10, category="cuda_sync"), kernel("gemm", 10, 5)])
    assert micros(found.idle) == [(0, 10)]


def test_a_thread_that_only_polls_does_not_extend_the_window() -> None:
    polls = [span("cuda_runtime", "cudaEventQuery", at, 1, tid=77) for at in (0, 1000)]
    timeline = timeline_of([*polls, op("aten::mm", 100, 5), launch(102, 1), kernel("gemm", 110, 10, correlation=1)])
    assert window_of(timeline) == (100_000, 120_000)
    assert timeline.window_ns == (0, 1_001_000)


def test_a_thread_that_launches_extends_it() -> None:
    timeline = timeline_of([launch(0, 1, tid=5), kernel("gemm", 10, 10, correlation=1)])
    assert window_of(timeline) == (0, 20_000)


device_spans = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 20),
        st.integers(1, 3),
        st.sampled_from(["gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD"]),
    ),
    min_size=1,
    max_size=12,
)


@given(device_spans)
def test_each_nanosecond_goes_to_the_first_class_that_runs(found: list[tuple[int, int, int, str]]) -> None:
    events = [
        # Times below a microsecond: one nanosecond of the model is one of the trace.
        kernel(name, start / 1000, dur / 1000, stream=stream, category="gpu_memcpy" if "Memcpy" in name else "kernel")
        for start, dur, stream, name in found
    ]
    result = activity([region("around", 0, 0.1), *events])

    def runs(name: str, at: int) -> bool:
        return any(kind == name and start <= at < start + dur for start, dur, _, kind in found)

    at_ns = np.arange(100)
    sets = (result.computing, result.communicating, result.copying)
    got = np.select([one.contains(at_ns) for one in sets], [0, 1, 2], 3).tolist()
    names = ("gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD")
    assert got == [next((n for n, name in enumerate(names) if runs(name, at)), 3) for at in range(100)]


# --- on a CPU ---------------------------------------------------------------------------------------------------------


def test_without_device_work_operators_are_the_kernels() -> None:
    found = activity([op("aten::mm", 0, 10), op("aten::add", 20, 5)])
    assert found.device == "cpu"
    assert micros(found.computing) == [(0, 10), (20, 25)]
    assert micros(found.idle) == [(10, 20)]


def test_an_operator_counts_where_it_runs_itself() -> None:
    found = activity([op("aten::addmm", 0, 20), op("aten::mm", 5, 10), op("aten::copy_", 16, 2)])
    names = [found.compute.row.tolist(), found.copies.row.tolist()]
    assert names == [[0, 1, 0, 0], [2]]
    assert micros(found.copying) == [(16, 18)]
    assert found.computing.length_ns == 18_000


def test_bookkeeping_computes_nothing_itself_but_what_it_calls_does() -> None:
    found = activity(
        [
            op("autograd::engine::evaluate_function: AddmmBackward0", 0, 30),
            op("AddmmBackward0", 1, 28),
            op("aten::mm", 5, 10),
            op("aten::view", 40, 5),
        ]
    )
    assert micros(found.computing) == [(5, 15)]
    assert micros(found.idle) == [(0, 5), (15, 45)]


def test_operators_of_a_data_loader_are_not_the_devices_work() -> None:
    found = activity([region(LOADER, 0, 20), op("aten::stack_it", 5, 10), op("aten::mm", 30, 10)])
    assert micros(found.computing) == [(30, 40)]


def test_a_data_loader_excludes_its_own_thread_only() -> None:
    found = activity([region(LOADER, 0, 20), op("aten::collate", 5, 10), op("aten::mm", 8, 10, tid=2)])
    assert micros(found.computing) == [(8, 18)]


def test_of_an_operator_around_a_loader_only_the_loader_is_excluded() -> None:
    found = activity([op("aten::custom", 0, 40), region(LOADER, 10, 20), op("aten::mm", 50, 5)])
    assert micros(found.computing) == [(0, 10), (30, 40), (50, 55)]


def test_threads_of_a_cpu_are_one_device() -> None:
    found = activity([op("aten::mm", 0, 10), op("aten::mm", 5, 10, tid=2)])
    assert micros(found.computing) == [(0, 15)]


def test_gloo_communicates_on_a_thread_of_its_own() -> None:
    found = activity([op("aten::mm", 0, 10), region("gloo:all_reduce", 5, 20, tid=2)])
    assert micros(found.communicating) == [(10, 25)]
    assert micros(found.idle) == []


def test_compiled_code_computes_inside_a_node_of_the_backward_pass() -> None:
    found = activity([op("CompiledFunctionBackward", 0, 10)])
    assert micros(found.computing) == [(0, 10)]


def test_stacks_do_not_change_what_an_operator_computes() -> None:
    frames = [span("python_function", "model.py(5): backward", 2, 20)]
    events = [op("aten::custom", 0, 30), op("aten::mm", 5, 10)]
    assert micros(activity(events).computing) == micros(activity([*events, *frames]).computing)


def test_when_each_thread_loads() -> None:
    timeline = timeline_of(
        [region(LOADER, 0, 10), region(LOADER, 20, 5), region("other", 40, 5), op("aten::mm", 50, 1)]
    )
    assert [micros(time) for time in loader_time(timeline).values()] == [[(0, 10), (20, 25)]]


def test_nothing_at_all_is_an_empty_window() -> None:
    found = activity([span("Trace", "PyTorch Profiler (0)", 0, 10, pid=1, tid=1)])
    assert found.window_ns == (0, 0)


def test_a_job_that_launches_is_a_gpu_job_even_where_its_device_work_is_lost(tmp_path: Path) -> None:
    events = [
        region("ProfilerStep#0", 0, 100),
        op("aten::mm", 10, 20),
        launch(15, 1),
        op("aten::mm", 40, 20),
        launch(45, 2),
    ]
    found = activity_of(read_one(document(events), tmp_path))
    assert found.device == "gpu"
    assert not len(found.busy)
    assert found.idle.length_ns == 100_000


def test_waiting_for_a_functional_collective_is_not_computing(tmp_path: Path) -> None:
    events = [op("aten::sum", 0, 100), op("_c10d_functional::wait_tensor", 10, 80)]
    found = activity_of(read_one(document(events), tmp_path))
    assert found.device == "cpu"
    assert found.computing.length_ns == 20_000


def test_a_function_written_in_python_waits_for_its_exchange() -> None:
    """What of its own time no exchange runs in may be anything, so it counts as computing."""
    exchange = region("gloo:all_to_all", 20, 60, tid=7)
    found = activity([op("_AllToAll", 10, 80), op("aten::mm", 30, 10), exchange])
    assert micros(found.computing) == [(0, 10), (20, 30), (70, 80)]
    assert micros(found.communicating) == [(10, 20), (30, 70)]
