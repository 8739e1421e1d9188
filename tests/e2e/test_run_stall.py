"""A rank that gets stuck is named from outside, with the place where it stands, and the job is not touched."""

import importlib.util
from pathlib import Path

import pytest

from tests.support.running import PROGRAMS, REDLINE, finished, record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.mark.parametrize(
    ("how", "state"), [("sleep", "sleeping"), pytest.param("stop", "stopped", marks=pytest.mark.slow)]
)
def test_the_rank_that_the_others_wait_for_is_named(tmp_path: Path, how: str, state: str) -> None:
    options = ["-o", "run", "--nproc-per-node", 2, "--standalone", "--stall-after", 2]
    ran = finished(tmp_path, *REDLINE, *options, PROGRAMS / "stuck.py", "--how", how)
    assert ran.process.returncode == 0, ran.output
    told = record(tmp_path / "run")
    assert [one["steps"] for one in told["ranks"]] == [12, 12]  # the job went on as if nothing had happened
    # On a busy machine, other steps may take as long: the planted one is told by where both ranks stand.
    (stall,) = [one for one in told["stalls"] if [rank["steps"] for rank in one["ranks"]] == [5, 5]]
    assert stall["held_by"] == [1]
    waiting, stuck = stall["ranks"]
    assert stuck["state"] == state
    assert waiting["in_torch"]
    assert "wait for rank 1" in ran.output
    if how == "sleep":  # a stopped process cannot say where it stands
        assert "in lose_time" in stuck["user"]
        stacks = [path.read_text() for path in (tmp_path / "run").glob("stall-*.txt")]
        assert any("in lose_time" in stack for stack in stacks)


def test_a_job_that_never_steps_is_told_of_later_and_once(tmp_path: Path) -> None:
    script = tmp_path / "idle.py"
    script.write_text("import time\n\ndef wait() -> None:\n    time.sleep(4.5)\n\nwait()\n")
    ran = finished(tmp_path, *REDLINE, "-o", "run", "--stall-after", 0.5, script)
    assert ran.process.returncode == 0
    assert ran.output.count("no step for") == 2  # while it ran, and in the summary
    assert "in wait" in ran.output
