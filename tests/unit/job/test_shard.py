"""Which part of a job a task of Slurm, torchrun or Kubernetes has: said by the user, or by the launcher."""

from pathlib import Path

import pytest

from redline.errors import UsageError
from redline.job.shard import Shard, shard_from

FILES = [Path(f"rank-{rank}.json") for rank in range(10)]
SLURM = {
    "SLURM_ARRAY_TASK_ID": "5",
    "SLURM_ARRAY_TASK_MIN": "1",
    "SLURM_ARRAY_TASK_MAX": "8",
    "SLURM_ARRAY_TASK_COUNT": "8",
}


@pytest.mark.parametrize("count", [1, 2, 3, 10, 12])
def test_parts_hold_every_file_once(count: int) -> None:
    parts = [Shard(index=index, count=count).of(FILES) for index in range(count)]
    assert sorted(place for part in parts for place in part) == list(range(10))
    assert all(FILES[place] == path for part in parts for place, path in part.items())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("environment", "text", "part"),
    [
        ({}, "3/8", "3/8"),
        (SLURM, "auto", "4/8"),
        ({**SLURM, "SLURM_ARRAY_TASK_MAX": "15", "SLURM_ARRAY_TASK_STEP": "2"}, "auto", "2/8"),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "1"}, "auto/8", "3/8"),
        ({"RANK": "0", "WORLD_SIZE": "4"}, "auto", "0/4"),
        ({"JOB_COMPLETION_INDEX": "7"}, "auto/8", "7/8"),
        ({"JOB_COMPLETION_INDEX": "2", "RANK": "2", "WORLD_SIZE": "8"}, "auto/8", "2/8"),
    ],
)
def test_a_part_is_given_or_told_by_the_launcher(environment: dict[str, str], text: str, part: str) -> None:
    assert str(shard_from(text, environment)) == part


@pytest.mark.parametrize(
    ("environment", "text", "message"),
    [
        ({}, "8/8", "8/8 does not exist: of 8 parts the last is 7/8; parts are counted from 0"),
        ({}, "0/0", "0/0 does not exist; parts are counted from 0"),
        ({}, "three", "is 'three'; give I/N, such as 0/8 for the first of eight parts, or auto, or auto/N"),
        ({}, "-1/8", "is '-1/8'; give I/N"),
        ({}, "1/x", "is '1/x'; give I/N"),
        ({}, "auto", "none of SLURM_ARRAY_TASK_ID, RANK and JOB_COMPLETION_INDEX is set"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "auto", "SLURM_ARRAY_TASK_COUNT, _MIN or _MAX is not set; give auto/N"),
        ({**SLURM, "SLURM_ARRAY_TASK_COUNT": "3"}, "auto", "has 3 tasks between 1 and 8; give I/N, or make it 0-2"),
        ({"RANK": "1"}, "auto", "RANK is set and WORLD_SIZE is not; give auto/N"),
        ({"JOB_COMPLETION_INDEX": "1"}, "auto", "does not say how many parts there are; give auto/N with its"),
        ({**SLURM, "RANK": "1", "WORLD_SIZE": "2"}, "auto", "SLURM_ARRAY_TASK_ID and RANK are set, and say different"),
    ],
)
def test_what_names_no_part_is_refused(environment: dict[str, str], text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        shard_from(text, environment)
    assert message in str(raised.value)
