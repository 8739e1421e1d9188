"""Which rank a trace is of, and how that is known; then the ranks of a whole job."""

import subprocess
import sys
from pathlib import Path

import pytest

from redline.timeline.problems import Reason
from redline.trace.ranks import (
    FROM_COLLECTIVES,
    FROM_FILE_NAME,
    FROM_METADATA,
    FROM_ORDER,
    FROM_PROCESS_NAME,
    job_ranks,
    rank_in_file_name,
)
from tests.conftest import collective, document, ledger_of, op, process_name, read_one

# --- one trace --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-7.pt.trace.json.gz", 7),
        ("rank_12.json", 12),
        ("trace_rank3.json", 3),
        ("worker0.1234.pt.trace.json", 0),
        ("gpu-5.json", 5),
        ("host_r2_trace.json", 2),
        ("Rank 9.json", 9),
        ("/data/rank-1/trace.json", -1),  # the name of the file, not of its folder
        ("trace.json", -1),
        ("frontier12.json", -1),
        ("rank123456789012.json", -1),
        ("1234.json", -1),
    ],
)
def test_the_rank_in_a_file_name(name: str, rank: int) -> None:
    assert rank_in_file_name(name) == rank


def test_what_the_trace_states_comes_first(tmp_path: Path) -> None:
    events = [op("a", 0, 5), process_name(100, "Rank 4"), collective(10, 5, args={"Rank": 1})]
    timeline = read_one(document(events, rank=3), tmp_path, "rank-5.json")
    assert (timeline.rank, timeline.rank_origin) == (3, FROM_METADATA)
    assert Reason.RANK_INFERRED not in ledger_of(timeline)


def test_then_the_name_of_the_process(tmp_path: Path) -> None:
    events = [op("a", 0, 5), process_name(100, "Rank 4"), collective(10, 5, args={"Rank": 1})]
    timeline = read_one(document(events, rank=None), tmp_path, "rank-5.json")
    assert (timeline.rank, timeline.rank_origin) == (4, FROM_PROCESS_NAME)
    assert Reason.RANK_INFERRED not in ledger_of(timeline)


def test_then_its_place_in_a_group_of_collectives(tmp_path: Path) -> None:
    events = [op("a", 0, 5), collective(10, 5, args={"Rank": 1, "Process Group Ranks": "[2, 6]"})]
    timeline = read_one(document(events, rank=None), tmp_path, "rank-5.json")
    assert (timeline.rank, timeline.rank_origin) == (6, FROM_COLLECTIVES)
    assert ledger_of(timeline)[Reason.RANK_INFERRED] == 1


@pytest.mark.parametrize("members", ["[0, 1, ...]", "", "5", '["a", "b"]', "[" * 100_000])
def test_a_group_that_cannot_be_read_says_nothing(tmp_path: Path, members: str) -> None:
    events = [op("a", 0, 5), collective(10, 5, args={"Rank": 0, "Process Group Ranks": members})]
    timeline = read_one(document(events, rank=None), tmp_path, "rank-5.json")
    assert (timeline.rank, timeline.rank_origin) == (5, FROM_FILE_NAME)


@pytest.mark.parametrize("members", ["[-5]", "[true]", "[100000000000000000000]"])
def test_a_group_with_an_absurd_member_says_nothing(tmp_path: Path, members: str) -> None:
    events = [op("a", 0, 5), collective(10, 5, args={"Rank": 0, "Process Group Ranks": members})]
    timeline = read_one(document(events, rank=None), tmp_path, "rank-5.json")
    assert timeline.rank == 5


def test_then_the_name_of_the_file(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5)], rank=None), tmp_path, "rank-5.json")
    assert (timeline.rank, timeline.rank_origin) == (5, FROM_FILE_NAME)
    assert ledger_of(timeline) == {Reason.RANK_INFERRED: 1}


def test_else_only_the_order_of_the_files_can_tell(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5)], rank=None), tmp_path)
    assert (timeline.rank, timeline.rank_origin) == (-1, FROM_ORDER)


# --- a job ------------------------------------------------------------------------------------------------------------


def test_stated_ranks_are_kept_in_any_order() -> None:
    job = job_ranks([(2, FROM_METADATA), (0, FROM_METADATA), (1, FROM_PROCESS_NAME)], world_size=3)
    assert (job.ranks, job.doubles, job.missing) == ((2, 0, 1), (), ())
    assert job.origins == (FROM_METADATA, FROM_METADATA, FROM_PROCESS_NAME)


def test_ranks_without_a_trace_are_missing() -> None:
    assert job_ranks([(0, FROM_METADATA), (3, FROM_METADATA)], world_size=5).missing == (1, 2, 4)


def test_two_traces_that_state_one_rank_are_doubles() -> None:
    job = job_ranks([(1, FROM_METADATA), (1, FROM_METADATA), (0, FROM_METADATA)], world_size=2)
    assert (job.ranks, job.doubles) == ((1, 1, 0), (1,))


def test_nothing_known_is_numbered_in_order() -> None:
    job = job_ranks([(-1, FROM_ORDER)] * 3, world_size=0)
    assert (job.ranks, job.origins, job.doubles, job.missing) == ((0, 1, 2), (FROM_ORDER,) * 3, (), ())


def test_free_numbers_are_those_that_nobody_states() -> None:
    job = job_ranks([(-1, FROM_ORDER), (0, FROM_METADATA), (-1, FROM_ORDER), (2, FROM_METADATA)], world_size=4)
    assert (job.ranks, job.doubles, job.missing) == ((1, 0, 3, 2), (), ())


def test_of_two_that_infer_one_rank_the_second_gets_a_free_one() -> None:
    job = job_ranks([(1, FROM_FILE_NAME), (1, FROM_FILE_NAME), (2, FROM_FILE_NAME)], world_size=0)
    assert job.ranks[0] == 1
    assert job.ranks[2] == 2
    assert job.doubles == ()
    assert sorted(job.ranks) == [0, 1, 2]
    assert job.origins == (FROM_FILE_NAME, FROM_ORDER, FROM_FILE_NAME)


def test_an_inferred_rank_gives_way_to_a_stated_one() -> None:
    job = job_ranks([(0, FROM_FILE_NAME), (0, FROM_METADATA)], world_size=2)
    assert (job.ranks, job.doubles) == ((1, 0), ())


def test_an_absurd_world_size_does_not_fill_the_memory() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20));"
        "from redline.trace.ranks import FROM_METADATA, job_ranks;"
        "job_ranks([(0, FROM_METADATA)], world_size=10**12)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
