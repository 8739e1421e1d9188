"""Every real trace of the set reads, and nothing of it is lost: counts equal the manifest, times an independent sum."""

import csv
import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redline.job.job import summarise
from redline.timeline.timeline import BUSY_KINDS, Kind, Timeline
from redline.trace.reader import read_file
from tests.support.real_traces import REAL_TRACES, RealTraces

MANIFEST = "manifest.csv"
NOT_TRACES = ("memory_snapshot", "hta_memory_timeline")
COUNTED = (
    "cpu_op",
    "kernel",
    "gpu_memcpy",
    "cuda_runtime",
    "python_function",
    "user_annotation",
    "gpu_user_annotation",
)
# The manifest did not know the spelling of 2021, "Memcpy".
COPIES_OF_2021 = {"tb_resnet50": 12}

pytestmark = pytest.mark.needs_traces


def _rows() -> list[dict[str, str]]:
    """One row without content where there is no manifest: what needs it is skipped."""
    if MANIFEST not in REAL_TRACES:
        return [{"file": MANIFEST}]
    with (REAL_TRACES / MANIFEST).open() as file:
        return [row for row in csv.DictReader(file) if not any(word in row["file"] for word in NOT_TRACES)]


def _raw_events(path: Path) -> list[dict[str, Any]]:
    """The events as the standard library reads them, with exact times."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row["file"])
def test_nothing_of_a_trace_is_lost(row: dict[str, str], traces: RealTraces) -> None:
    path = traces / row["file"]
    timelines = read_file(path).timelines
    _check_counts(row, timelines)
    for timeline in timelines:
        timeline.self_check()
        summarise(timeline)
        dropped_or_repaired = [one.reason for one in timeline.source.problems if one.reason.effect != "noted"]
        assert dropped_or_repaired == []
    raw_events = _raw_events(path)
    _check_kernel_time(row, timelines, raw_events)
    _check_every_span(timelines, raw_events)


def _check_counts(row: dict[str, str], timelines: tuple[Timeline, ...]) -> None:
    events = timelines[0].source.events
    assert sum(events.values()) == int(row["events"])
    counted = {category: events.get(category, 0) for category in COUNTED}
    expected = {category: int(row[f"n_{category}"]) for category in COUNTED}
    for name, copies in COPIES_OF_2021.items():
        if row["file"].startswith(name):
            expected["gpu_memcpy"] = copies
    assert counted == expected


def _check_kernel_time(row: dict[str, str], timelines: tuple[Timeline, ...], raw_events: list[dict[str, Any]]) -> None:
    kernels = [event for event in raw_events if event["ph"] == "X" and event.get("cat") in ("kernel", "Kernel")]
    exact_ns = int(sum(Decimal(event["dur"]) for event in kernels) * 1000)
    assert sum(_on_device_ns(timeline, Kind.KERNEL, Kind.COMMUNICATION) for timeline in timelines) == exact_ns
    if row["kernel_sum_ms"]:  # of the manifest: with copies and sets, but those of 2021 it did not know
        of_2021 = any(event.get("cat") == "Kernel" for event in raw_events)
        kinds = (Kind.KERNEL, Kind.COMMUNICATION) if of_2021 else BUSY_KINDS
        found_ns = sum(_on_device_ns(timeline, *kinds) for timeline in timelines)
        assert found_ns / 1e6 == pytest.approx(float(row["kernel_sum_ms"]), abs=0.0051)


def _on_device_ns(timeline: Timeline, *kinds: Kind) -> int:
    spans = timeline.spans
    on_device = np.array([lane.on_device for lane in timeline.lanes] or [False])[spans.lane]
    return int(spans.dur_ns[np.isin(spans.kind, kinds) & on_device].sum())


def _check_every_span(timelines: tuple[Timeline, ...], raw_events: list[dict[str, Any]]) -> None:
    """Of each timed event, its start and duration in whole nanoseconds; some writers print a double's tail."""
    starts = Counter((_ns(event["ts"]), _ns(event["dur"])) for event in raw_events if event["ph"] == "X")
    first = min(start for start, _ in starts)
    found: Counter[tuple[int, int]] = Counter()
    for timeline in timelines:
        found.update(zip((timeline.spans.start_ns + first).tolist(), timeline.spans.dur_ns.tolist(), strict=True))
    assert found == starts


def _ns(us: Decimal | int | str) -> int:
    return int((Decimal(us) * 1000).to_integral_value())
