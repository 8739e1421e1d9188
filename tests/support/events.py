"""Events as Kineto writes them, with times in microseconds; traces of them, and what is read from those."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from redline.trace.reader import ReadOptions, read_file

HOST_PID, DEVICE_PID = 100, 0
MAIN_THREAD, STREAM = 1, 7
Event = dict[str, Any]


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
