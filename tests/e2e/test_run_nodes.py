"""Two launchers of one job, as on two machines: they share a folder, and one record has the ranks of both."""

import importlib.util
import socket
from pathlib import Path

import pytest

from tests.support.running import PROGRAMS, REDLINE, record, started

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_ranks_of_both_launchers_are_in_one_record(tmp_path: Path) -> None:
    where = ["--nnodes", 2, "--nproc-per-node", 1, "--master-addr", "127.0.0.1", "--master-port", free_port()]
    ours = [*REDLINE, "--after", 6, "--rdzv-id", "experiment-7", *where]
    script = ["--", PROGRAMS / "stuck.py", "--how", "sleep", "--seconds", 0]
    with (
        started(tmp_path, *ours, "--node-rank", 0, *script) as first,
        started(tmp_path, *ours, "--node-rank", 1, *script) as second,
    ):
        assert (first.wait(), second.wait()) == (0, 0), first.output + second.output
    told = record(tmp_path / "redline-runs" / "stuck-experiment-7")
    assert told["world"] == 2
    assert [(one["rank"], one["steps"]) for one in told["ranks"]] == [(0, 12), (1, 12)]
    windows = [window for one in told["ranks"] for window in one["windows"]]
    assert [(one["state"], one["first_step"], one["steps"]) for one in windows] == [("written", 8, 3)] * 2
