"""What tests share: traces written by hand, a cache of their own, the folder of real traces, --update-golden.

The small builders below are imported by name: `from tests.conftest import kernel, op`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import redline
from redline.hardware.machine import Figure, Machine
from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from redline.trace.reader import ReadOptions, read_file

ROOT = Path(__file__).parents[1]
HOST_PID, DEVICE_PID = 100, 0
MAIN_THREAD, STREAM = 1, 7

Event = dict[str, Any]

settings.register_profile("redline", deadline=None)  # a busy machine is no failure
settings.load_profile("redline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what was found into the golden files; then read the diff as carefully as code",
    )


# --- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten rather than compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def cache_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def cache_of_the_test(monkeypatch: pytest.MonkeyPatch, cache_folders: Path) -> Path:
    """No test reads or fills the user's cache, in this process or in one that it starts."""
    folder = Path(
        tempfile.mkdtemp(dir=cache_folders)
    )  # pytest would look at all folders of earlier tests for the next number
    monkeypatch.setenv("REDLINE_CACHE", str(folder))
    return folder


class RealTraces:
    """Published traces that cannot be redistributed. Without one, what needs it is skipped, by the name of the file."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None

    def __contains__(self, name: str) -> bool:
        return self._folder is not None and (self._folder / name).exists()

    def __truediv__(self, name: str) -> Path:
        if self._folder is None or name not in self:
            pytest.skip(f"no real trace {name}: set REDLINE_TRACES to the folder that holds it")
        return self._folder / name

    def names(self, pattern: str) -> list[str]:
        """The names of those that match. Without any it is the pattern, so that a test is skipped by that name."""
        found = sorted(self._folder.glob(pattern)) if self._folder is not None else []
        return [str(path.relative_to(self._folder or "")) for path in found] or [pattern]


REAL_TRACES = RealTraces(os.environ.get("REDLINE_TRACES"))


@pytest.fixture(scope="session")
def traces() -> RealTraces:
    return REAL_TRACES


# --- events as Kineto writes them; times in microseconds --------------------------------------------------------------


def span(
    category: str,
    name: str,
    ts: float | str,
    dur: float | str,
    *,
    pid: int | str = HOST_PID,
    tid: int | str = MAIN_THREAD,
    args: Mapping[str, object] | None = None,
) -> Event:
    event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event if args is None else {**event, "args": dict(args)}


def op(name: str, ts: float, dur: float, *, tid: int = MAIN_THREAD, pid: int = HOST_PID, **args: object) -> Event:
    return span("cpu_op", name, ts, dur, pid=pid, tid=tid, args=args)


def region(name: str, ts: float, dur: float, *, tid: int = MAIN_THREAD, pid: int = HOST_PID) -> Event:
    return span("user_annotation", name, ts, dur, pid=pid, tid=tid)


def launch(
    ts: float,
    correlation: int,
    *,
    dur: float = 2,
    name: str = "cudaLaunchKernel",
    tid: int = MAIN_THREAD,
    pid: int = HOST_PID,
) -> Event:
    return span("cuda_runtime", name, ts, dur, pid=pid, tid=tid, args={"correlation": correlation})


def kernel(
    name: str,
    ts: float,
    dur: float,
    *,
    correlation: int = 0,
    device: int = DEVICE_PID,
    stream: int = STREAM,
    category: str = "kernel",
    args: Mapping[str, object] | None = None,
) -> Event:
    known = {"device": device, "stream": stream, "correlation": correlation}
    return span(category, name, ts, dur, pid=device, tid=stream, args={**known, **(args or {})})


def collective(
    ts: float, dur: float, *, elements: int = 1024, name: str = "allreduce", args: Mapping[str, object] | None = None
) -> Event:
    """An NCCL kernel with the profiler's description of it."""
    described = {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    return kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        ts,
        dur,
        correlation=999,
        stream=20,
        args={**described, **(args or {})},
    )


def process_name(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": name}}


# --- a product whose work is known, and machines that need a given time for it ----------------------------------------

PRODUCT_FLOPS, PRODUCT_BYTES = 2 * 64**3, 3 * 64 * 64 * 4  # of two [64, 64] in fp32
PRODUCT: Mapping[str, Any] = {
    "Input Dims": [[64, 64], [64, 64]],
    "Input type": ["float", "float"],
    "Input Strides": [[64, 1], [64, 1]],
    "Concrete Inputs": ["", ""],
}


def figure(value: float) -> Figure:
    return Figure(value=value, source="made up for a test", date="2026-08")


def machine_with(math_ns: float, memory_ns: float) -> Machine:
    """That needs these times for the arithmetic and for the bytes of the product."""
    figures = {
        "memory_bytes_per_s": figure(PRODUCT_BYTES / memory_ns * 1e9),
        "peak_flops_per_s.fp32": figure(PRODUCT_FLOPS / math_ns * 1e9),
    }
    return Machine(name="made up", figures=figures)


# --- the command line -------------------------------------------------------------------------------------------------

REDLINE = [sys.executable, "-m", "redline"]


def environment() -> dict[str, str]:
    """That of a process which finds this very package from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(redline.__file__).parents[1])}


def run_redline(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REDLINE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        cwd=cwd,
        env=environment(),
    )


# --- documents and what is read from them -----------------------------------------------------------------------------


def document(events: Sequence[object], *, rank: int | None = 0, world_size: int = 1, **metadata: object) -> bytes:
    """A whole trace; it states its rank unless that is None, so that nothing about it has to be noted."""
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size}}
    return json.dumps({"schemaVersion": 1, **info, **metadata, "traceEvents": list(events)}).encode()


def read_all(data: bytes, folder: Path, name: str = "trace.json", options: ReadOptions | None = None) -> list[Timeline]:
    """The timelines that the reader finds in this text, each of which keeps its promises."""
    path = folder / name
    path.write_bytes(data)
    timelines = list(read_file(path, options).timelines)
    for timeline in timelines:
        timeline.self_check()
    return timelines


def read_one(data: bytes, folder: Path, name: str = "trace.json", options: ReadOptions | None = None) -> Timeline:
    (timeline,) = read_all(data, folder, name, options)
    return timeline


def names_of(timeline: Timeline) -> list[str]:
    """Names of all spans, in time order."""
    return [timeline.texts[name] for name in timeline.spans.name.tolist()]


def row_of(timeline: Timeline, name: str) -> int:
    """The row of the only span of this name."""
    (row,) = (row for row, found in enumerate(names_of(timeline)) if found == name)
    return row


def ledger_of(timeline: Timeline) -> dict[Reason, int]:
    """How often each problem was met."""
    return {problem.reason: problem.count for problem in timeline.source.problems}
