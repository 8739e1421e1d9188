"""Recorded waits: for which stream and event each is, who recorded that, and what is written comes back."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from redline.timeline.timeline import BUSY_KINDS, NONE, Kind, Timeline, Waiter
from redline.trace.perfetto import write_timelines
from redline.trace.reader import read_file
from redline.trace.store import packed, unpacked
from tests.support.events import Event, document, kernel, launch, names_of, read_one, span
from tests.support.real_traces import RealTraces
from tests.support.traces.synthetic import JobSpec, ParallelSizes, write_job

BACK, OTHER = 7, 20  # streams


def wait(
    ts: float,
    correlation: int,
    args: Mapping[str, int] | None = None,
    *,
    name: str = "Stream Wait Event",
    stream: int = OTHER,
) -> Event:
    about = {"stream": stream, "correlation": correlation, "device": 0, **(args or {})}
    return span("cuda_sync", name, ts, 1, pid=0, tid=stream, args=about)


def for_record(correlation: int, *, stream: int = BACK, event: int = 3) -> dict[str, int]:
    return {
        "wait_on_stream": stream,
        "wait_on_cuda_event_record_corr_id": correlation,
        "wait_on_cuda_event_id": event,
    }


def call(name: str, ts: float, correlation: int) -> Event:
    return launch(ts, correlation, name=name)


TWO_STREAMS = [
    launch(0, 1),
    kernel("first", 10, 50, correlation=1, stream=BACK),
    call("cudaEventRecord", 3, 2),
    call("cudaStreamWaitEvent", 6, 4),
    wait(7, 4, for_record(2)),
    launch(9, 5),
    kernel("second", 60, 5, correlation=5, stream=OTHER),
]


def only_wait(events: list[Event], folder: Path) -> dict[str, int]:
    timeline = read_one(document(events), folder)
    assert len(timeline.waits) == 1
    return {name: int(values[0]) for name, values in timeline.waits.columns().items()}


def test_a_wait_knows_its_stream_its_event_and_the_call_that_recorded_it(tmp_path: Path) -> None:
    timeline = read_one(document(TWO_STREAMS), tmp_path)
    (row,), (record,) = timeline.waits.row.tolist(), timeline.waits.record.tolist()
    assert Kind(timeline.spans.kind[row]) is Kind.SYNC
    assert timeline.lanes[timeline.spans.lane[row]].stream == OTHER
    assert (names_of(timeline)[record], timeline.spans.start_ns[record]) == ("cudaEventRecord", 3000)
    assert timeline.waits.waiter.tolist() == [Waiter.STREAM_FOR_EVENT]
    assert (timeline.waits.stream.tolist(), timeline.waits.event.tolist()) == ([BACK], [3])
    records = timeline.event_records
    assert (records.row.tolist(), records.stream.tolist(), records.reached.tolist()) == ([record], [BACK], [NONE])


@pytest.mark.parametrize(
    ("name", "stream", "waiter", "waited"),
    [
        ("Stream Sync", BACK, Waiter.HOST_FOR_STREAM, BACK),
        ("Context Sync", 2**32 - 1, Waiter.HOST_FOR_DEVICE, NONE),
        ("Event Sync", -1, Waiter.HOST_FOR_EVENT, NONE),
    ],
)
def test_the_host_waits_too(name: str, stream: int, waiter: Waiter, waited: int, tmp_path: Path) -> None:
    found = only_wait([*TWO_STREAMS[:3], call("sync", 6, 4), wait(7, 4, name=name, stream=stream)], tmp_path)
    assert (found["waiter"], found["stream"], found["event"], found["record"]) == (waiter, waited, NONE, NONE)


def test_a_record_from_before_the_window_is_known_by_its_number(tmp_path: Path) -> None:
    found = only_wait([*TWO_STREAMS[:2], call("cudaStreamWaitEvent", 6, 40), wait(7, 40, for_record(33))], tmp_path)
    assert (found["stream"], found["record_correlation"], found["record"]) == (BACK, 33, NONE)


def test_a_record_after_the_wait_is_not_what_was_waited_for(tmp_path: Path) -> None:
    """Kineto kept only the last record of an event: https://github.com/pytorch/kineto/pull/1339"""
    events = [*TWO_STREAMS[:4], wait(7, 4, for_record(9)), call("cudaEventRecord", 20, 9)]
    found = only_wait(events, tmp_path)
    assert [found[name] for name in ("stream", "record_correlation", "record")] == [NONE] * 3
    assert found["event"] == 3


def test_of_repeated_correlations_the_last_call_before_the_wait_is_meant(tmp_path: Path) -> None:
    again = [call("cudaEventRecord", ts, 2) for ts in (5, 30)]
    timeline = read_one(document([*TWO_STREAMS, *again]), tmp_path)
    assert timeline.spans.start_ns[timeline.waits.record].tolist() == [5000]


def test_the_mark_of_an_event_tells_its_stream_where_no_wait_does(tmp_path: Path) -> None:
    about = {"event_id": 3, "stream": BACK, "correlation": 2, "device": 0}
    mark = span("cuda_event", "cudaEvent", 60, 0.001, pid=0, tid=BACK, args=about)
    timeline = read_one(document([*TWO_STREAMS[:3], mark]), tmp_path)
    records = timeline.event_records
    assert (names_of(timeline)[records.row[0]], records.stream.tolist(), records.event.tolist()) == (
        "cudaEventRecord",
        [BACK],
        [3],
    )
    assert timeline.spans.start_ns[records.reached].tolist() == [60_000]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[Timeline]:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=4, layout=ParallelSizes(dp=2, pp=2), microbatches=2, steps=2, sync_events=True), folder)
    return [read_file(path).timelines[0] for path in sorted(folder.glob("*.gz"))]


def test_work_begins_after_what_its_stream_waited_for(job: list[Timeline]) -> None:
    for timeline in job:
        spans, work, waits = timeline.spans, timeline.device_work, timeline.waits
        reached = dict(zip(timeline.event_records.row.tolist(), timeline.event_records.reached.tolist(), strict=True))
        launch_of = dict(zip(work.row.tolist(), work.launch.tolist(), strict=True))
        busy = work.take(np.isin(spans.kind[work.row], np.array(BUSY_KINDS, np.uint8)))
        between = waits.take(waits.waiter == Waiter.STREAM_FOR_EVENT)
        assert len(between)
        for row, record in zip(between.row.tolist(), between.record.tolist(), strict=True):
            asked_ns = spans.start_ns[launch_of[row]]
            later = busy.row[(spans.lane[busy.row] == spans.lane[row]) & (spans.start_ns[busy.launch] > asked_ns)]
            assert spans.start_ns[later].min() >= spans.start_ns[reached[record]]


def assert_same_waits(found: Timeline, expected: Timeline) -> None:
    for table in ("waits", "event_records"):
        there, here = getattr(found, table).columns(), getattr(expected, table).columns()
        assert {name: values.tolist() for name, values in there.items()} == {
            name: values.tolist() for name, values in here.items()
        }
    assert found.communications.sequence.tolist() == expected.communications.sequence.tolist()


def test_what_is_written_or_kept_comes_back(job: list[Timeline], tmp_path: Path) -> None:
    for timeline in job:
        write_timelines([timeline], tmp_path / "out.json", made_by="a test", force=True)
        assert_same_waits(read_file(tmp_path / "out.json").timelines[0], timeline)
    for found, expected in zip(unpacked(memoryview(b"".join(packed(tuple(job))))), job, strict=True):
        assert_same_waits(found, expected)


@pytest.mark.parametrize(
    ("name", "waits", "between", "records"),
    [
        ("hta_alexnet_cp.json.gz", 41, 20, 20),
        ("hta_event_sync_multistream.json.gz", 5, 1, 3),
        ("hta_simple_add_cp.json.gz", 41, 20, 0),  # of before the number of the record was written
    ],
)
def test_waits_of_real_traces(traces: RealTraces, name: str, waits: int, between: int, records: int) -> None:
    (timeline,) = read_file(traces / name).timelines
    assert len(timeline.waits) == waits
    of_streams = timeline.waits.take(timeline.waits.waiter == Waiter.STREAM_FOR_EVENT)
    assert len(of_streams) == between
    assert (of_streams.stream >= 0).all()
    assert len(timeline.event_records) == records
    recorded = timeline.waits.record[timeline.waits.record != NONE]
    assert {names_of(timeline)[row] for row in recorded.tolist()} <= {"cudaEventRecord"}
