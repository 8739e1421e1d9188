"""One trace file to timelines: archives, absences, strictness, and what a reader of the timeline would wonder about."""

import gzip
import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from redline.errors import DamagedError, InputError, NotATraceError
from redline.timeline.problems import Reason
from redline.timeline.timeline import TimelineOrigin
from redline.trace.reader import HARMLESS, ReadOptions, read_file
from tests.support.events import Event, document, kernel, launch, ledger_of, names_of, op, read_one, span

STRICT = ReadOptions(strict=True)


def archive(folder: Path, *members: tuple[str, bytes]) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    path = folder / "job.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue()))
    return path


def test_a_timeline_says_where_it_comes_from(tmp_path: Path) -> None:
    data = document([op("a", 0, 5)])
    timeline = read_one(data, tmp_path)
    assert timeline.origin is TimelineOrigin.MEASURED
    assert (timeline.source.path, timeline.source.member) == (f"{tmp_path}/trace.json", "")
    assert timeline.source.inflated_bytes == len(data)


def test_times_begin_at_zero(tmp_path: Path) -> None:
    timeline = read_one(document([op("b", 1_500_000.25, 5), op("a", 1_500_000, 5)]), tmp_path)
    assert timeline.spans.start_ns.tolist() == [0, 250]
    assert timeline.zero_ns == 1_500_000_000


def test_every_member_of_an_archive_is_a_timeline(tmp_path: Path) -> None:
    members = [(f"rank{rank}.json", document([op(f"op of {rank}", 0, 5)], rank=rank)) for rank in (0, 1)]
    found = read_file(archive(tmp_path, *members))
    assert [(timeline.rank, timeline.source.member) for timeline in found.timelines] == [
        (0, "rank0.json"),
        (1, "rank1.json"),
    ]
    assert found.failures == ()


def test_the_name_of_a_member_may_tell_its_rank(tmp_path: Path) -> None:
    path = archive(tmp_path, ("deep/rank-6.json.gz", gzip.compress(document([op("a", 0, 5)], rank=None))))
    (timeline,) = read_file(path).timelines
    assert (timeline.rank, timeline.rank_origin) == (6, "file name")


def test_a_member_that_is_no_trace_costs_only_itself(tmp_path: Path) -> None:
    path = archive(tmp_path, ("a.json", b"rubbish"), ("b.json", document([op("a", 0, 5)])), ("c.json", b""))
    found = read_file(path)
    assert len(found.timelines) == 1
    assert [failure.split(": ")[0] for failure in found.failures] == [f"{path}!a.json", f"{path}!c.json"]


def test_an_archive_without_any_trace_gives_the_first_reason(tmp_path: Path) -> None:
    path = archive(tmp_path, ("a.json", b"rubbish"), ("b.json", b""))
    with pytest.raises(InputError, match=r"a\.json: not JSON"):
        read_file(path)


def test_a_file_that_is_no_trace_keeps_its_own_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"rubbish")
    with pytest.raises(NotATraceError):
        read_file(path)


def test_an_unfinished_export_is_noted(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5)]), tmp_path, "trace.json.tmp")
    assert ledger_of(timeline) == {Reason.UNFINISHED_EXPORT: 1}


@pytest.mark.parametrize("kept", [500, 1500, 2600], ids=["in a header", "early in a member", "late in a member"])
def test_an_archive_that_is_cut_gives_what_is_there_and_says_so(tmp_path: Path, kept: int) -> None:
    data = document([op(f"op {number}", number, 1) for number in range(20)], rank=0)
    second = document([op(f"op {number}", number, 1) for number in range(40)], rank=1)
    path = tmp_path / "job.tar"
    path.write_bytes(gzip.decompress(archive(tmp_path, ("a.json", data), ("b.json", second)).read_bytes()))
    first_ends = 512 + (len(data) + 511) // 512 * 512
    path.write_bytes(path.read_bytes()[: first_ends + kept])
    found = read_file(path)
    assert len(found.timelines[0].spans) == 20
    lost = [timeline for timeline in found.timelines[1:] if Reason.TRUNCATED_FILE in ledger_of(timeline)]
    assert lost or found.failures


# --- absences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]])
def test_a_trace_without_timed_events_says_so(tmp_path: Path, events: list[Event]) -> None:
    timeline = read_one(document(events), tmp_path)
    assert (len(timeline.spans), ledger_of(timeline)) == (0, {Reason.NO_EVENTS: 1})


def test_launches_without_any_kernel_are_noted(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 50), launch(10, correlation=1)]), tmp_path)
    assert ledger_of(timeline) == {Reason.NO_DEVICE_EVENTS: 1}


@pytest.mark.parametrize("call", ["cudaDeviceSynchronize", "cudaEventQuery", "cudaGetDevice"])
def test_calls_that_launch_nothing_need_no_kernel(tmp_path: Path, call: str) -> None:
    timeline = read_one(document([op("a", 0, 50), launch(10, correlation=1, name=call)]), tmp_path)
    assert ledger_of(timeline) == {}


def test_in_a_cut_file_missing_kernels_are_no_wonder(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 50), launch(10, correlation=1), op("b", 60, 5)])[:-30], tmp_path)
    assert Reason.NO_DEVICE_EVENTS not in ledger_of(timeline)
    assert Reason.TRUNCATED_FILE in ledger_of(timeline)


def test_a_kernel_on_a_thread_of_the_host_is_suspicious(tmp_path: Path) -> None:
    events = [op("a", 0, 50), span("kernel", "fake", 10, 5, args={"correlation": 3}), kernel("k", 70, 5, correlation=4)]
    timeline = read_one(document(events), tmp_path)
    assert ledger_of(timeline) == {Reason.SUSPICIOUS_KERNEL: 1}
    assert "fake" in names_of(timeline)


# --- strictness -------------------------------------------------------------------------------------------------------


def test_a_sound_trace_passes_a_strict_reading(tmp_path: Path) -> None:
    events = [op("a", 0, 50), launch(10, correlation=1), kernel("k", 30, 5, correlation=1)]
    assert names_of(read_one(document(events), tmp_path, options=STRICT)) == ["a", "cudaLaunchKernel", "k"]


def test_damage_does_not_pass_a_strict_reading(tmp_path: Path) -> None:
    with pytest.raises(DamagedError) as caught:
        read_one(document([op("a", 0, 5), {}, op("b", 10, -7)]), tmp_path, options=STRICT)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{tmp_path}/trace.json: ")
    assert "events without any field" in first
    assert "more kinds of damage: 1" in first
    assert second == "Read it without `strict=True` to use the rest."


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([op("a", 0, 50), op("b", 10, 60)], Reason.CHILD_OUTLIVES_PARENT),
        ([kernel(f"k{n}", 10 * n, 13, correlation=n + 1) for n in range(5)], Reason.STREAM_OVERLAP),
        ([op("a", 0, 5), {"ph": "Z", "name": "x"}], Reason.UNKNOWN_PHASE),
    ],
)
def test_what_is_harmless_passes_a_strict_reading(tmp_path: Path, events: list[Event], reason: Reason) -> None:
    timeline = read_one(document(events), tmp_path, options=STRICT)
    assert set(ledger_of(timeline)) == {reason}
    assert reason in HARMLESS


def test_damage_in_one_member_does_not_pass_a_strict_reading(tmp_path: Path) -> None:
    path = archive(tmp_path, ("a.json", document([op("a", 0, 5)])), ("b.json", document([op("a", 0, 5), {}])))
    with pytest.raises(DamagedError, match=r"job\.tar\.gz!b\.json: "):
        read_file(path, STRICT)


def test_a_member_that_is_no_trace_does_not_pass_a_strict_reading(tmp_path: Path) -> None:
    path = archive(tmp_path, ("a.json", document([op("a", 0, 5)])), ("b.json", b"rubbish"))
    with pytest.raises(InputError, match=r"b\.json"):
        read_file(path, STRICT)


# --- problems of one file, several ranks ------------------------------------------------------------------------------


def test_the_ledger_of_the_file_is_in_each_of_its_ranks(tmp_path: Path) -> None:
    events = [op("a", 10 * number, 5, pid=pid) for pid in (5, 6) for number in range(5)]
    path = tmp_path / "trace.json"
    path.write_bytes(document([*events, {}], rank=None))
    for timeline in read_file(path).timelines:
        assert ledger_of(timeline)[Reason.EMPTY_EVENT] == 1


@pytest.mark.parametrize("place", [2, 3])  # the method, and flags that announce a name which never ends
def test_a_damaged_header_of_gzip_is_not_called_an_empty_file(tmp_path: Path, place: int) -> None:
    data = bytearray(gzip.compress(document([op("a", 0, 5)])))
    data[place] = 0x18
    path = tmp_path / "trace.json.gz"
    path.write_bytes(bytes(byte or 1 for byte in data) if place == 3 else bytes(data))
    with pytest.raises(NotATraceError, match=r"broken at its beginning.*\(a damaged gzip header\)"):
        read_file(path)


@pytest.mark.parametrize("count", [2, 30_000])  # and more than fits into what is kept of a tail
def test_a_second_list_of_events_is_read_too(tmp_path: Path, count: int) -> None:
    def events(name: str) -> str:
        return json.dumps([op(name, 10 * number, 5) for number in range(count)])

    info = '"distributedInfo": {"rank": 3, "world_size": 4}'
    text = f'{{"traceEvents": {events("a")}, {info}, "traceEvents": {events("b")}, "traceName": "x"}}'
    timeline = read_one(text.encode(), tmp_path)
    assert (names_of(timeline).count("a"), names_of(timeline).count("b")) == (count, count)
    assert (timeline.rank, timeline.metadata.world_size) == (3, 4)
    assert ledger_of(timeline) == {Reason.DUPLICATE_KEY: 1}


def test_a_list_inside_of_metadata_is_no_second_one(tmp_path: Path) -> None:
    text = (
        document([op("a", 0, 5)])[:-1] + b', "other": {"traceEvents": [{"ph": "X", "name": "b", "ts": 1, "dur": 1}]}}'
    )
    assert names_of(read_one(text, tmp_path)) == ["a"]


def test_white_space_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b" " * 20_000_000 + document([op("a", 0, 5)]))
    tracemalloc.start()
    timelines = read_file(path).timelines
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert names_of(timelines[0]) == ["a"]
    assert peak < 10_000_000
