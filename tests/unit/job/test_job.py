"""All ranks of a job: read in any number of processes, placed in order, and what is wrong with the set said."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redline.errors import DamagedError, InputError
from redline.job import read_files
from redline.job.executors.executor import WorkerDied
from redline.job.job import Job, read_job
from redline.job.read_files import JobOptions
from redline.progress import ProgressStage
from redline.trace.reader import ReadOptions
from tests.support.events import collective, document, op, process_name

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
