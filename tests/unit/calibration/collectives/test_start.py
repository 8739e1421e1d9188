"""The command that starts the ranks, and what is said when they fail."""

import sys
from pathlib import Path

import msgspec
import pytest

from redline.calibration.collectives import start
from redline.calibration.collectives.start import RankFailure, failure_path
from redline.errors import InputError, UsageError


def test_ranks_of_one_machine_meet_at_a_free_port(tmp_path: Path) -> None:
    words = start.command(["--nproc-per-node", "2"], tmp_path, ["--quick"])
    assert words[:5] == [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    assert words[-5:] == ["-m", "redline.calibration.collectives.worker", "--folder", str(tmp_path), "--quick"]


@pytest.mark.parametrize("option", ["--nnodes=2", "--master-port=1234", "--rdzv_endpoint=a:1", "--standalone"])
def test_where_they_meet_is_left_to_the_user(option: str, tmp_path: Path) -> None:
    assert start.command([option], tmp_path, [])[3] == option


def leave(folder: Path, rank: int, at_ns: int, line: str, *, is_usage: bool = False) -> None:
    failure = RankFailure(rank=rank, at_ns=at_ns, line=line, is_usage=is_usage)
    failure_path(folder, rank).write_bytes(msgspec.json.encode(failure))


def test_the_rank_that_failed_first_is_named(tmp_path: Path) -> None:
    leave(tmp_path, 0, 2000, "Connection closed by peer")
    leave(tmp_path, 3, 1000, "out of memory")
    told = start.failure(tmp_path, ["anything"], 1)
    assert isinstance(told, InputError)
    assert str(told) == "the collectives could not be measured: rank 3 failed\nout of memory"


def test_what_makes_no_sense_is_an_error_of_usage(tmp_path: Path) -> None:
    leave(tmp_path, 0, 1000, "give more", is_usage=True)
    told = start.failure(tmp_path, [], 1)
    assert isinstance(told, UsageError)
    assert str(told) == "calibrate: give more"


def test_a_rank_that_was_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    tail = [
        "Failures:",
        "  traceback : Signal 15 (SIGTERM) received by PID 7143",
        "Root Cause (first observed failure):",
        "  traceback : Signal 9 (SIGKILL) received by PID 7144",
    ]
    told = str(start.failure(tmp_path, tail, 1))
    assert told == "the collectives could not be measured: a rank was ended by SIGKILL"


def test_what_torchrun_complains_about_is_handed_on(tmp_path: Path) -> None:
    tail = ["usage: torchrun [-h]", "torchrun: error: unrecognized arguments: --nonsense", ""]
    told = str(start.failure(tmp_path, tail, 2))
    assert told.endswith("torchrun failed\ntorchrun: error: unrecognized arguments: --nonsense")


def test_without_any_word_the_exit_code_is_told(tmp_path: Path) -> None:
    assert str(start.failure(tmp_path, [], 7)).endswith("torchrun failed\nexit code 7")
