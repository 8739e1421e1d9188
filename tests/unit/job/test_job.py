"""All ranks of a job: read in any number of processes, placed in order, and what is wrong with the set said."""

import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redline.errors import DamagedError, InputError
from redline.job import read_files
from redline.job.executors.executor import WorkerDied
from redline.job.job import Job, RankSummary, read_job, summarise
from redline.job.read_files import JobOptions
from redline.progress import ProgressStage
from redline.trace.reader import ReadOptions
from tests.support.damage.seed import seed_trace
from tests.support.events import Event, collective, document, kernel, launch, op, process_name, read_one, region, span

ALONE = JobOptions(jobs=1)


def write(folder: Path, *documents: bytes, name: str = "rank-{}.json") -> list[Path]:
    paths = [folder / name.format(number) for number in range(len(documents))]
    for path, data in zip(paths, documents, strict=True):
        path.write_bytes(data)
    return paths


def ranks_of(job: Job) -> list[int]:
    return [rank.rank for rank in job.ranks]


def of_rank(rank: int, world_size: int = 2, clock_us: float = 0) -> bytes:
    events = [op("a", clock_us, 5), *(collective(clock_us + 10 * number, 5) for number in range(1, 5))]
    return document(events, rank=rank, world_size=world_size)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ranks_are_placed_in_order_whatever_the_files_are_called(tmp_path: Path, jobs: int) -> None:
    paths = write(tmp_path, of_rank(2, 3), of_rank(0, 3), of_rank(1, 3), name="trace{}.json")
    job = read_job(paths, JobOptions(jobs=jobs))
    assert ranks_of(job) == [0, 1, 2]
    assert job.places == ((paths[1], 0), (paths[2], 0), (paths[0], 0))
    assert (job.world_size, job.missing, job.doubles, job.failures) == (3, (), (), ())


def test_clocks_are_compared(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, of_rank(0), of_rank(1, clock_us=1000)), ALONE)
    assert (job.clocks.offset_ns, job.clocks.operations) == ((0, 1_000_000), 4)


def test_missing_and_double_ranks(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, of_rank(0, 4), of_rank(2, 4), of_rank(2, 4)), ALONE)
    assert (ranks_of(job), job.doubles, job.missing) == ([0, 2, 2], (2,), (1, 3))


def test_a_single_trace_misses_nobody(tmp_path: Path) -> None:
    assert read_job(write(tmp_path, of_rank(3, 64)), ALONE).missing == ()


def test_ranks_that_are_not_known_follow_the_order_of_the_files(tmp_path: Path) -> None:
    data = document([op("a", 0, 5)], rank=None)
    job = read_job(write(tmp_path, data, data, data, name="t{}.json"), ALONE)
    assert ranks_of(job) == [0, 1, 2]
    assert {rank.rank_origin for rank in job.ranks} == {"order of the files"}


def test_several_ranks_of_one_file_have_their_places(tmp_path: Path) -> None:
    events = [
        *(op("a", 10 * number, 5, pid=pid) for pid in (5, 6) for number in range(5)),
        process_name(5, "Rank 1"),
        process_name(6, "Rank 0"),
    ]
    (path,) = write(tmp_path, document(events, rank=None))
    job = read_job([path], ALONE)
    assert (ranks_of(job), job.places) == ([0, 1], ((path, 1), (path, 0)))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_cannot_be_read_is_a_failure_beside_the_others(tmp_path: Path, jobs: int) -> None:
    paths = write(tmp_path, of_rank(0), b"rubbish", of_rank(1))
    job = read_job(paths, JobOptions(jobs=jobs))
    assert ranks_of(job) == [0, 1]
    assert [(failure.path, failure.message) for failure in job.failures] == [
        (str(paths[1]), f"{paths[1]}: not JSON, so not a trace of torch.profiler (begins with b'rubbish').")
    ]


def test_where_no_file_can_be_read_the_first_reason_is_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rank-0\.json: not JSON"):
        read_job(write(tmp_path, b"rubbish", b""), ALONE)


@pytest.mark.parametrize("jobs", [1, 2])
def test_strict_ends_with_the_first_damage(tmp_path: Path, jobs: int) -> None:
    damaged = document([op("a", 0, 5), {}], rank=1, world_size=2)
    options = JobOptions(jobs=jobs, reading=ReadOptions(strict=True))
    with pytest.raises(DamagedError, match=r"rank-1\.json: .*events without any field"):
        read_job(write(tmp_path, of_rank(0), damaged), options)
    assert len(read_job(write(tmp_path, of_rank(0), damaged), JobOptions(jobs=jobs)).ranks) == 2


def test_strict_ends_with_the_first_file_that_is_no_trace(tmp_path: Path) -> None:
    options = JobOptions(jobs=1, reading=ReadOptions(strict=True))
    with pytest.raises(InputError, match="not JSON"):
        read_job(write(tmp_path, of_rank(0), b"rubbish"), options)


def test_a_file_whose_reader_was_killed_is_a_failure_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pool makes of a killed worker is tested with the pool; here it is only told."""
    paths = write(tmp_path, of_rank(0), of_rank(1))

    def over_files_with_a_death(work: Callable[[Path], object], _: object, __: object) -> Iterator[tuple[int, object]]:
        yield 1, WorkerDied("was ended by SIGKILL")
        yield 0, work(paths[0])

    monkeypatch.setattr(read_files, "over_files", over_files_with_a_death)
    job = read_job(paths, ALONE)
    assert ranks_of(job) == [0]
    assert [failure.message for failure in job.failures] == [f"{paths[1]}: its reader was ended by SIGKILL."]


def test_progress_is_told_after_each_file(tmp_path: Path) -> None:
    told: list[tuple[ProgressStage, float, float]] = []

    def progress(stage: ProgressStage, done: float, total: float) -> None:
        told.append((stage, done, total))

    read_job(write(tmp_path, of_rank(0), b"rubbish", of_rank(1)), ALONE, progress)
    assert told == [(ProgressStage.READ, done, 3) for done in range(4)]


def test_any_number_of_processes_gives_the_same(tmp_path: Path) -> None:
    paths = write(tmp_path, *(of_rank(rank, 4, clock_us=100.0 * rank) for rank in range(4)))
    one, two = (read_job(paths, JobOptions(jobs=jobs)) for jobs in (1, 2))
    assert (one.clocks, one.places, one.world_size) == (two.clocks, two.places, two.world_size)
    assert [rank.source for rank in one.ranks] == [rank.source for rank in two.ranks]


@pytest.mark.parametrize("use_cache", [True, False])
def test_the_cache_is_used_only_where_it_is_wanted(
    tmp_path: Path, cache_of_the_test: Path, monkeypatch: pytest.MonkeyPatch, use_cache: bool
) -> None:
    monkeypatch.setattr("redline.trace.cache.WORTH_BYTES", 0)
    paths = write(tmp_path, of_rank(0))
    time.sleep(0.05)  # of a file that has just changed nothing is kept
    read_job(paths, JobOptions(jobs=1, use_cache=use_cache))
    assert bool(list(cache_of_the_test.iterdir())) is use_cache


# What one rank's timeline holds, in a few kilobytes.

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
