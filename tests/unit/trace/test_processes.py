"""Several ranks in one file are taken apart: host spans by process, device spans by name or by launch."""

from collections import Counter
from pathlib import Path

import pytest

from redline.timeline.timeline import Kind, Timeline
from tests.support.events import Event, document, kernel, launch, names_of, op, process_name, read_all, read_one, span

RANK_PIDS = (25624, 25625)


def work_of(pid: int, *, device: int, first_id: int, late: float = 0) -> list[Event]:
    """Ten operators of a process, each with a launch and a kernel."""
    events: list[Event] = []
    for number in range(10):
        at, correlation = 100 * number + late, first_id + number
        events += [
            op(f"op of {pid}", at, 20, pid=pid),
            launch(at + 5, correlation=correlation, pid=pid),
            kernel(f"kernel of {pid}", at + 30, 20, correlation=correlation, device=device),
        ]
    return events


def owners(timelines: list[Timeline]) -> list[Counter[str]]:
    """How many operators and kernels of which process each timeline holds."""
    return [
        Counter(name for name in names_of(timeline) if name.startswith(("op of", "kernel of")))
        for timeline in timelines
    ]


WELL_SEPARATED = [Counter({f"op of {pid}": 10, f"kernel of {pid}": 10}) for pid in RANK_PIDS]


def test_two_processes_with_a_device_each(tmp_path: Path) -> None:
    events = [
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=1, first_id=101, late=50),
    ]
    timelines = read_all(document(events, rank=None), tmp_path)
    assert owners(timelines) == WELL_SEPARATED
    assert [set(timeline.device_work.launch.tolist()) & {-1} for timeline in timelines] == [set(), set()]


def test_two_processes_that_share_one_device(tmp_path: Path) -> None:
    events = [
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=0, first_id=101, late=50),
    ]
    assert owners(read_all(document(events, rank=None), tmp_path)) == WELL_SEPARATED


def test_kernels_without_a_launch_go_with_most_of_their_stream(tmp_path: Path) -> None:
    events = [
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=1, first_id=101, late=50),
        kernel("orphan", 2000, 5, device=1),
        span("gpu_user_annotation", "region", 0, 900, pid=1, tid=7),
    ]
    first, second = read_all(document(events, rank=None), tmp_path)
    assert "orphan" not in names_of(first)
    assert {"orphan", "region"} <= set(names_of(second))


def test_named_ranks_whose_ids_repeat(tmp_path: Path) -> None:
    """As merging tools write it: ids of correlation are unique within a rank only."""
    events = [
        process_name(RANK_PIDS[0], "Rank 0"),
        process_name(RANK_PIDS[1], "Rank 1"),
        process_name(0, "Rank 0 GPU 0"),
        process_name(1, "Rank 1 GPU 1"),
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=1, first_id=1, late=3),
    ]
    timelines = read_all(document(events, rank=None), tmp_path)
    assert owners(timelines) == WELL_SEPARATED
    assert [timeline.rank for timeline in timelines] == [0, 1]
    assert {timeline.rank_origin for timeline in timelines} == {"process name"}
    for timeline in timelines:
        launches = timeline.device_work.launch
        kernels = timeline.spans.start_ns[timeline.device_work.row]
        assert (kernels - timeline.spans.start_ns[launches] == 25_000).all()


def test_unnamed_processes_whose_ids_repeat(tmp_path: Path) -> None:
    """A call launches one kernel: of two calls and two kernels of one id, each kernel has a call of its own."""
    events = [
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=1, first_id=1, late=3),
    ]
    assert owners(read_all(document(events, rank=None), tmp_path)) == WELL_SEPARATED


def test_ranks_of_nothing_but_device_work(tmp_path: Path) -> None:
    events = [
        process_name(0, "Rank 4 GPU 0"),
        process_name(1, "Rank 5 GPU 1"),
        *(kernel("k of 4", 10 * number, 5, device=0) for number in range(5)),
        *(kernel("k of 5", 10 * number, 5, device=1) for number in range(5)),
    ]
    timelines = read_all(document(events, rank=None), tmp_path)
    assert {timeline.rank: set(names_of(timeline)) for timeline in timelines} == {4: {"k of 4"}, 5: {"k of 5"}}


def test_a_stray_event_or_two_make_no_rank(tmp_path: Path) -> None:
    many = [op("busy", 10 * number, 5, pid=1) for number in range(300)]
    timeline = read_one(document([*many, op("stray", 5, 1, pid=2)]), tmp_path)
    assert "stray" in names_of(timeline)


def test_the_profilers_own_processes_make_no_rank(tmp_path: Path) -> None:
    events = [
        op("a", 0, 5),
        span("Trace", "PyTorch Profiler (0)", 0, 100, pid="Spans", tid="PyTorch Profiler"),
        span("python_function", "main.py", 0, 50, pid=77),
        span("user_annotation", "region", 0, 50, pid=78),
    ]
    assert len(read_one(document(events), tmp_path).spans) == 4


def test_every_span_belongs_to_exactly_one_rank(tmp_path: Path) -> None:
    events = [
        *work_of(RANK_PIDS[0], device=0, first_id=1),
        *work_of(RANK_PIDS[1], device=1, first_id=101),
        span("user_annotation", "somewhere", 0, 5, pid=999),
        kernel("nobody's", 5000, 5, device=6),
        span("Trace", "PyTorch Profiler (0)", 0, 100, pid="Spans", tid="PyTorch Profiler"),
    ]
    timelines = read_all(document(events, rank=None), tmp_path)
    found = Counter(name for timeline in timelines for name in names_of(timeline))
    assert found == Counter(event["name"] for event in events)


def test_what_a_file_states_of_one_rank_is_not_said_of_two(tmp_path: Path) -> None:
    events = [*work_of(RANK_PIDS[0], device=0, first_id=1), *work_of(RANK_PIDS[1], device=1, first_id=101)]
    timelines = read_all(document(events, rank=3), tmp_path)
    assert [timeline.rank_origin for timeline in timelines] == ["order of the files"] * 2


def test_marks_and_arrows_go_with_their_thread(tmp_path: Path) -> None:
    events = [*work_of(RANK_PIDS[0], device=0, first_id=1), *work_of(RANK_PIDS[1], device=1, first_id=101)]
    marks = [
        {"ph": "i", "name": "[memory]", "pid": pid, "tid": 1, "ts": 1, "args": {"Bytes": pid, "Device Id": 0}}
        for pid in RANK_PIDS
    ]
    timelines = read_all(document([*events, *marks], rank=None), tmp_path)
    assert [timeline.memory.bytes.tolist() for timeline in timelines] == [[RANK_PIDS[0]], [RANK_PIDS[1]]]


def test_marks_of_a_thread_without_spans_are_kept(tmp_path: Path) -> None:
    events = [*work_of(RANK_PIDS[0], device=0, first_id=1), *work_of(RANK_PIDS[1], device=1, first_id=101)]
    mark = {"ph": "i", "name": "[memory]", "pid": RANK_PIDS[1], "tid": 99, "ts": 1, "args": {"Bytes": 8}}
    timelines = read_all(document([*events, mark], rank=None), tmp_path)
    assert sum(len(timeline.memory) for timeline in timelines) == 1


@pytest.mark.parametrize("name", ["rank " + "9" * 5000, "Rank 99999999999999999999"])
def test_an_absurd_rank_in_a_process_name_is_not_believed(tmp_path: Path, name: str) -> None:
    timeline = read_one(document([op("a", 0, 5), process_name(100, name)], rank=None), tmp_path)
    assert timeline.rank == -1


@pytest.mark.parametrize(("name", "rank"), [("Rank 3", 3), ("rank_12 host", 12), ("python (rank-7)", 7)])
def test_spellings_of_a_named_rank(tmp_path: Path, name: str, rank: int) -> None:
    timeline = read_one(document([op("a", 0, 5), process_name(100, name)], rank=None), tmp_path)
    assert (timeline.rank, timeline.rank_origin) == (rank, "process name")


@pytest.mark.parametrize("name", ["python", "frank 3", "rank", "ranks 3x"])
def test_names_that_state_no_rank(tmp_path: Path, name: str) -> None:
    timeline = read_one(document([op("a", 0, 5), process_name(100, name)], rank=None), tmp_path)
    assert timeline.rank == -1


def test_device_work_of_one_rank_keeps_its_kinds(tmp_path: Path) -> None:
    events = [*work_of(RANK_PIDS[0], device=0, first_id=1), *work_of(RANK_PIDS[1], device=1, first_id=101)]
    for timeline in read_all(document(events, rank=None), tmp_path):
        kinds = Counter(timeline.spans.kind.tolist())
        assert kinds == {Kind.OPERATOR: 10, Kind.RUNTIME: 10, Kind.KERNEL: 10}
