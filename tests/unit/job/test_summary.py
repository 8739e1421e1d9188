"""What one rank's timeline holds, in a few kilobytes."""

import pickle
from pathlib import Path

import pytest

from redline.job.job import RankSummary, summarise
from tests.support.damage.seed import seed_trace
from tests.support.events import Event, document, kernel, launch, op, read_one, region, span

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}


def summary(events: list[Event], folder: Path, **metadata: object) -> RankSummary:
    return summarise(read_one(document(events, **metadata), folder))  # type: ignore[arg-type]


def test_busy_is_the_union_over_all_streams(tmp_path: Path) -> None:
    events = [
        kernel("a", 0, 10, stream=7),
        kernel("b", 5, 10, stream=8),
        kernel("c", 30, 10, stream=7, device=1),
        kernel("Memcpy", 50, 5, category="gpu_memcpy"),
        kernel("Memset", 60, 5, category="gpu_memset"),
        kernel("Event Sync", 70, 100, category="cuda_sync"),
        op("on the host", 0, 500),
    ]
    found = summary(events, tmp_path)
    assert found.busy_ns == 35_000
    assert found.window_ns == 500_000


def test_communication_is_the_union_on_device_and_host(tmp_path: Path) -> None:
    events = [
        kernel("ncclDevKernel_AllReduce", 0, 10, stream=20),
        kernel("ncclDevKernel_AllGather", 5, 10, stream=21),
        kernel("gemm", 0, 100),
        region("gloo:all_reduce", 200, 10),
    ]
    found = summary(events, tmp_path)
    assert found.communication_ns == 25_000
    assert found.busy_ns == 100_000


def test_spans_are_counted_by_kind(tmp_path: Path) -> None:
    events = [op("a", 0, 5), op("b", 10, 5), region("r", 0, 50), kernel("k", 20, 5)]
    found = summary(events, tmp_path)
    assert (found.kinds, found.spans) == ({"operator": 2, "annotation": 1, "kernel": 1}, 4)


def test_only_devices_that_worked_are_named(tmp_path: Path) -> None:
    devices = [H100, {"id": 1, "name": "idle"}, {"id": 2, "name": "NVIDIA A100"}]
    events = [kernel("a", 0, 5, device=2), kernel("b", 0, 5, device=0)]
    assert summary(events, tmp_path, deviceProperties=devices).device_names == (H100["name"], "NVIDIA A100")


def test_equal_devices_are_named_once_and_unknown_ones_not(tmp_path: Path) -> None:
    devices = [H100, {**H100, "id": 1}]
    events = [kernel("a", 0, 5, device=0), kernel("b", 0, 5, device=1), kernel("c", 0, 5, device=5)]
    assert summary(events, tmp_path, deviceProperties=devices).device_names == (H100["name"],)
    assert summary([op("a", 0, 5)], tmp_path, deviceProperties=devices).device_names == ()


def test_coverage_says_how_much_can_be_traced_back(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 20),
        launch(5, correlation=1),
        launch(30, correlation=2),
        launch(40, correlation=3, name="cudaGraphLaunch"),
        kernel("with both", 100, 10, correlation=1),
        kernel("with launch", 200, 20, correlation=2),
        kernel("of a graph", 300, 30, correlation=3),
        kernel("of the same", 400, 30, correlation=3),
        kernel("without", 500, 40),
        kernel("Event Sync", 600, 99, category="cuda_sync"),
    ]
    found = summary(events, tmp_path).coverage
    assert (found.pieces, found.time_ns) == (5, 130_000)
    assert (found.with_launch, found.with_launch_ns) == (4, 90_000)
    assert (found.with_operator, found.with_operator_ns) == (1, 10_000)
    assert (found.graph_launches, found.from_graphs) == (1, 2)


def test_steps_and_start(tmp_path: Path) -> None:
    events = [region("ProfilerStep#1", 10, 50), region("ProfilerStep#2", 60, 40)]
    found = summary(events, tmp_path, baseTimeNanoseconds=10**18)
    assert (found.step_ns, found.step_anchor) == ((50_000, 40_000), "ProfilerStep")
    assert found.start_ns == 10**18 + 10_000


def test_the_window_leaves_out_the_profiler(tmp_path: Path) -> None:
    events = [op("a", 100, 10), span("Trace", "PyTorch Profiler", 0, 1000), span("overhead", "Buffer Flush", 200, 50)]
    found = summary(events, tmp_path)
    assert (found.start_ns, found.window_ns) == (100_000, 10_000)


def test_a_trace_of_nothing(tmp_path: Path) -> None:
    found = summary([], tmp_path)
    assert (found.window_ns, found.busy_ns, found.spans, found.step_ns, found.kinds) == (0, 0, 0, (), {})


@pytest.mark.parametrize("events", [[], [op("a", 0, 5)]])
def test_a_trace_without_device_work(tmp_path: Path, events: list[Event]) -> None:
    found = summary(events, tmp_path)
    assert (found.busy_ns, found.coverage.pieces, found.coverage.time_ns) == (0, 0, 0)


def test_a_summary_is_small_and_travels_between_processes(tmp_path: Path) -> None:
    found = summarise(read_one(seed_trace(), tmp_path))
    sent = pickle.dumps(found)
    assert len(sent) <= 32_000
    assert pickle.loads(sent).coverage == found.coverage
