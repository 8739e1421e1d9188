"""A rank that gets stuck is named from outside, with the place where it stands, and the job is not touched."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAMS = Path(__file__).parent / "programs"
QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redline", "run", "-o", str(folder), *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **QUIET}
    )


@pytest.mark.parametrize(("how", "state"), [("sleep", "sleeping"), ("stop", "stopped")])
def test_the_rank_that_the_others_wait_for_is_named(tmp_path: Path, how: str, state: str) -> None:
    script = str(PROGRAMS / "stuck.py")
    ran = run(tmp_path / "run", "--nproc-per-node", "2", "--standalone", "--stall-after", "2", script, "--how", how)
    assert ran.returncode == 0, ran.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [one["steps"] for one in record["ranks"]] == [12, 12]  # the job went on as if nothing had happened
    (stall,) = record["stalls"]
    assert stall["held_by"] == [1]
    waiting, stuck = stall["ranks"]
    assert (waiting["steps"], stuck["steps"], stuck["state"]) == (5, 5, state)
    assert waiting["in_torch"]
    assert "wait for rank 1" in ran.stderr
    if how == "sleep":  # a stopped process cannot say where it stands
        assert "in lose_time" in stuck["user"]
        assert "in lose_time" in (tmp_path / "run" / "stall-1.txt").read_text()


def test_a_job_that_never_steps_is_told_of_later_and_once(tmp_path: Path) -> None:
    script = tmp_path / "idle.py"
    script.write_text("import time\n\ndef wait() -> None:\n    time.sleep(4.5)\n\nwait()\n")
    ran = run(tmp_path / "run", "--stall-after", "0.5", str(script))
    assert ran.returncode == 0
    assert ran.stderr.count("no step for") == 2  # while it ran, and in the summary
    assert "in wait" in ran.stderr
