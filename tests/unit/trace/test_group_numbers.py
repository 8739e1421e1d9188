"""Numbers of collectives from the count of their group, where exactly that many are in the trace."""

from pathlib import Path

import pytest

from redline.timeline.timeline import NONE
from redline.trace.perfetto import write_timelines
from redline.trace.reader import read_file
from tests.support.events import document, read_one, region

EVENTS = [
    region("gloo:all_reduce", 10, 5),
    region("gloo:send", 20, 5),
    region("gloo:broadcast", 30, 5, tid=2),
    region("gloo:all_reduce", 30.5, 9),
]


def numbers(groups: object, folder: Path) -> list[int]:
    timeline = read_one(document(EVENTS, redline={"version": 1, "groups": groups}), folder)
    return [int(number) for number in timeline.communications.sequence]


def group(opened: int, closed: int, name: str = "0") -> dict[str, object]:
    return {"name": name, "ranks": [0, 1], "opened": opened, "closed": closed}


def test_of_the_one_group_that_was_at_work(tmp_path: Path) -> None:
    assert numbers([group(41, 44), group(7, 7, "1")], tmp_path) == [41, NONE, 42, 43]


@pytest.mark.parametrize(
    "groups",
    [[], [group(41, 45)], [group(41, 43)], [group(41, 44), group(7, 8, "1")], [group(-1, 2)], "nonsense"],
    ids=["none", "one is missing", "one too many", "two groups", "no count", "damaged"],
)
def test_no_numbers_where_the_count_does_not_tell_them(groups: object, tmp_path: Path) -> None:
    assert numbers(groups, tmp_path) == [NONE] * 4


def test_they_are_written_and_read_again(tmp_path: Path) -> None:
    timeline = read_one(document(EVENTS, redline={"version": 1, "groups": [group(41, 44)]}), tmp_path)
    write_timelines([timeline], tmp_path / "out.json", made_by="a test")
    (again,) = read_file(tmp_path / "out.json").timelines
    assert again.communications.sequence.tolist() == [41, NONE, 42, 43]
    assert again.communications.described.tolist() == [0] * 4
