"""Which rank a trace claims to be of, and how that is known."""

from pathlib import Path

import pytest

from redline.timeline.problems import Reason
from redline.trace.rank_claim import (
    FROM_COLLECTIVES,
    FROM_FILE_NAME,
    FROM_METADATA,
    FROM_ORDER,
    FROM_PROCESS_NAME,
    rank_in_file_name,
)
from tests.support.events import collective, document, ledger_of, op, process_name, read_one


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
