"""No trace with device work is taken for a job on CPUs, whoever made the device."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.ledger.rank.activity import activity_of
from redline.timeline.problems import Reason
from redline.timeline.timeline import Kind, Timeline
from redline.trace.reader import read_file
from tests.support.made_devices import Events, device_job, host_job

MADE = 200


def read(tmp_path: Path, events: Events, name: str = "t.json") -> Timeline:
    path = tmp_path / name
    path.write_text(json.dumps({"traceEvents": events}))
    (timeline,) = read_file(path).timelines
    return timeline


def reasons(timeline: Timeline) -> dict[Reason, int]:
    return {problem.reason: problem.count for problem in timeline.source.problems}


def test_no_job_on_an_invented_device_is_called_one_on_cpus(tmp_path: Path) -> None:
    for seed in range(MADE):
        timeline = read(tmp_path, device_job(random.Random(seed)))
        assert activity_of(timeline).device == "gpu", seed
        works = {timeline.texts[name] for name in timeline.spans.name[timeline.device_work.row].tolist()}
        if works:
            assert not any(name.startswith("aten::") or name == "note" for name in works), seed
            assert len(timeline.device_work) == 24, seed
        else:
            assert reasons(timeline)[Reason.UNKNOWN_DEVICE] == 24, seed


def test_the_same_jobs_without_the_device_are_on_cpus(tmp_path: Path) -> None:
    for seed in range(MADE):
        timeline = read(tmp_path, host_job(random.Random(seed)))
        assert activity_of(timeline).device == "cpu", seed
        assert reasons(timeline).keys() == {Reason.UNUSED_CATEGORY, Reason.RANK_INFERRED}, seed


@pytest.mark.parametrize("seed", range(0, MADE, 10))
def test_no_verdict_on_an_invented_device_speaks_of_cpus(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": device_job(random.Random(seed))}))
    text = str(redline.diagnose([path]))
    assert "CPU" not in text.split("\n\n", maxsplit=1)[0]


def ascend(*, with_device: bool = True) -> Events:
    """An export of Ascend's profiler in small: no categories, times as texts, lanes told by names alone."""
    names = {100: "Python", 5_000_000_001: "CANN", 5_000_000_002: "Ascend Hardware", 5_000_000_003: "Overlap Analysis"}
    labels = {100: "CPU", 5_000_000_001: "CPU", 5_000_000_002: "NPU", 5_000_000_003: "NPU"}
    events: Events = [
        {"ph": "M", "name": f"process_{kind}", "pid": pid, "tid": 0, "args": {key: said[pid]}}
        for kind, key, said in (("name", "name", names), ("labels", "labels", labels))
        for pid in names
    ]

    def add(pid: int, tid: int, name: str, at: int, us: float, **more: Any) -> None:
        row = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": f"17364088836881{at:02}.250", "dur": us}
        events.append({**row, "args": {}, **more})

    add(100, 100, "aten::mm", 0, 40, cat="cpu_op")
    add(5_000_000_001, 100, "AscendCL@aclrtMemcpyAsync", 5, 10)
    if with_device:
        add(5_000_000_002, 2, "MatMulV2", 20, 30)
        add(5_000_000_002, 2, "EVENT_WAIT", 50, 20)
        add(5_000_000_002, 3, "MEMCPY_ASYNC", 72, 4)
        add(5_000_000_003, 3, "Free", 10, 60)
    return events


def test_ascend_is_read_by_its_processes(tmp_path: Path) -> None:
    timeline = read(tmp_path, ascend())
    rows = timeline.device_work.row.tolist()
    assert [timeline.texts[timeline.spans.name[row]] for row in rows] == ["MatMulV2", "EVENT_WAIT", "MEMCPY_ASYNC"]
    assert timeline.spans.kind[rows].tolist() == [Kind.KERNEL, Kind.SYNC, Kind.COPY]
    assert activity_of(timeline).busy.length_ns == 34_000
    assert [device.name for device in timeline.metadata.devices] == ["Ascend Hardware"]
    assert timeline.source.unused == {"Overlap Analysis": (1, 60_000), "CANN": (1, 10_000)}


def test_its_host_alone_is_no_device(tmp_path: Path) -> None:
    timeline = read(tmp_path, ascend(with_device=False))
    assert activity_of(timeline).device == "cpu"
    assert Reason.UNKNOWN_DEVICE not in reasons(timeline)


def mtia(pid: int = 17) -> Events:
    calls = [
        {"ph": "X", "cat": "mtia_runtime", "name": "launch", "pid": 100, "tid": 1, "ts": 10.0, "dur": 5.0}
        | {"args": {"correlation": 1}},
        {"ph": "X", "cat": "mtia_runtime", "name": "synchronize", "pid": pid, "tid": 4, "ts": 20.0, "dur": 2.0},
    ]
    work = [
        {"ph": "X", "cat": "mtia_ccp_events", "name": name, "pid": pid, "tid": 4, "ts": at, "dur": us}
        | {"args": {"correlation": 1} if name == "fused_mm" else {}}
        for name, at, us in (("fused_mm", 30.0, 50.0), ("dma_request", 40.0, 5.0), ("event_wait", 90.0, 30.0))
    ]
    named = {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"MTIA {pid}"}}
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 1, "ts": 5.0, "dur": 20.0}
    return [operator, *calls, *work, named]


def test_a_device_that_has_calls_beside_its_streams_is_no_second_rank(tmp_path: Path) -> None:
    timeline = read(tmp_path, mtia())
    assert activity_of(timeline).busy.length_ns == 50_000
    assert activity_of(timeline).computing.length_ns == 50_000
    assert Reason.SUSPICIOUS_KERNEL not in reasons(timeline)
    kernel = timeline.spans.rows_of(Kind.KERNEL)
    (at,) = [index for index, row in enumerate(timeline.device_work.row.tolist()) if row in kernel]
    assert timeline.texts[timeline.spans.name[timeline.device_work.operator[at]]] == "aten::mm"


def test_a_device_of_another_kind_beside_a_known_one_is_used_only_where_launches_say_so(tmp_path: Path) -> None:
    known = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1e6, "dur": 9.0, "args": {}}
    tool = {"ph": "X", "cat": "tool", "name": "note", "pid": 55, "tid": 1, "ts": 1e6, "dur": 500.0}
    timeline = read(tmp_path, [*host_job(random.Random(0)), known, tool])
    assert activity_of(timeline).busy.length_ns == 9_000
    assert timeline.source.unused["tool"][0] >= 1
