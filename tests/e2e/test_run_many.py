"""`redline run` with many processes that have no torch: all are started, told, counted, and none is left behind."""

import importlib.util
import signal
from pathlib import Path

import pytest

from tests.support.running import PROGRAMS, REDLINE, TORCHRUN, finished, processes_that_name, record, started

SOME, MANY = 4, 32
WORKER = PROGRAMS / "stub_worker.py"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torchrun is part of torch")


def test_a_failure_of_one_of_many_ends_the_job_as_torchrun_would(tmp_path: Path) -> None:
    worker = [WORKER, "--folder", tmp_path, "--wait", "--failing-rank", "1"]
    alone = finished(tmp_path, *TORCHRUN, "--nproc-per-node", 2, *worker)
    for path in tmp_path.glob("started-*"):
        path.unlink()
    watched = finished(tmp_path, *REDLINE, "--nproc-per-node", SOME, "-o", "run", "--", *worker)
    assert watched.process.returncode == alone.process.returncode == 1, watched.output
    ranks = record(tmp_path / "run")["ranks"]
    assert [one["rank"] for one in ranks] == list(range(SOME))
    assert [one["steps"] for one in ranks] == [5 + rank for rank in range(SOME)]
    assert {one["step_kind"] for one in ranks} == {"by hand"}
    assert processes_that_name(str(tmp_path)) == []


def test_many_are_told_to_end_and_all_are_in_the_record(tmp_path: Path) -> None:
    worker = [WORKER, "--folder", tmp_path, "--wait"]
    with started(tmp_path, *REDLINE, "--nproc-per-node", MANY, "-o", "run", "--", *worker) as watched:
        watched.wait_until(lambda: len(list(tmp_path.glob("started-*"))) == MANY)
        watched.process.send_signal(signal.SIGTERM)
        watched.wait()
    assert len(list(tmp_path.glob("told-*"))) == MANY
    told = record(tmp_path / "run")
    assert (told["world"], told["launcher"]) == (MANY, "torchrun")
    assert [(one["rank"], one["steps"]) for one in told["ranks"]] == [(rank, 5 + rank) for rank in range(MANY)]
    assert all(one["finished"] and one["peak_bytes"] < 100 << 20 for one in told["ranks"])
    assert len(list((tmp_path / "run" / "steps").glob("rank-*.json"))) == MANY
    assert processes_that_name(str(tmp_path)) == []
