"""`redline run --digests` on two real ranks: what travels, what stays, and how it ends when everybody is told to end.

Whatever is done to the digesting process itself is in `tests/unit/capture/supervisor/test_source_digests.py`.
"""

import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.running import PROGRAMS, REDLINE, SECONDS, Started, finished, processes_that_name, record, started

TWO = ("--standalone", "--nproc-per-node", 2)
DIGESTING = "redline.verbs.digest_child"

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.slow,  # CI has `--digests` among the faults of test_run_faults.py
]


def test_a_late_rank_keeps_its_trace_and_the_newest_window_is_diagnosed_from_digests(tmp_path: Path) -> None:
    options = ["-q", "-o", "run", "--after", 2, "--budget", "100%", "--digests", "--keep-traces", 0]
    job = [PROGRAMS / "straggler.py", "--slow-part", "host"]
    ran = finished(tmp_path, *REDLINE, *options, "--digest-wait", 120, *TWO, "--", *job)
    assert ran.process.returncode == 0, ran.output
    told = record(tmp_path / "run")["digests"]
    assert (told["failed"], told["missed"], told["written"]) == (0, 0, 2)
    assert [(made["rank"], made["trace"]) for made in told["newest"]] == [(0, "deleted"), (1, "late")]
    assert [path.name for path in tmp_path.glob("run/window-*/*")] == ["rank-1.trace.json.gz"]
    said = finished(tmp_path, sys.executable, "-m", "redline", "diagnose", "run", "--json", "-q", "--no-cache")
    assert said.process.returncode == 0, said.output
    diagnosis = json.loads(said.output)
    assert [rank["rank"] for rank in diagnosis["ranks"]] == [0, 1]
    assert diagnosis["lateness"]["ranks"][0]["rank"] == 1


def digesting(folder: Path) -> int:
    """The process that digests for the run in this folder, 0 where there is none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if DIGESTING in line and str(folder) in line:
            return int(path.parent.name)
    return 0


def held_up(job: Started, folder: Path) -> None:
    """The job is in the middle of digesting, and stays there."""
    job.wait_until(lambda: bool(digesting(folder)))
    os.kill(digesting(folder), signal.SIGSTOP)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_everybody_is_told_to_end_in_the_middle_of_digesting(tmp_path: Path, number: signal.Signals) -> None:
    program = [PROGRAMS / "ranks.py", "--steps", 1_000_000, "--step-ms", 20, "--until", tmp_path / "until"]
    options = ["-q", "-o", tmp_path / "run", "--digests"]
    with started(tmp_path, *REDLINE, *options, *TWO, "--", *program) as job:
        held_up(job, tmp_path)
        job.process.send_signal(number)
        began_s = time.monotonic()
        code = job.wait()
    assert time.monotonic() - began_s < 60  # that torchrun may take to end its ranks, then 5 s for digests
    if number == signal.SIGTERM:
        bare = [sys.executable, "-m", "torch.distributed.run", *TWO, *program]
        with started(tmp_path, *bare, "--stepping", tmp_path / "stepping") as alone:
            alone.wait_until((tmp_path / "stepping").exists)
            alone.process.send_signal(number)
            assert code == alone.wait()
        told = record(tmp_path / "run")
        assert "not made in the time after the job" in " ".join(told["notes"])
        assert [window["state"] for rank in told["ranks"] for window in rank["windows"]] == ["written"] * 2
    until_s = time.monotonic() + SECONDS
    while processes_that_name(str(tmp_path)) and time.monotonic() < until_s:  # ranks of a torchrun that was killed
        time.sleep(0.1)
        (tmp_path / "until").touch()
    assert processes_that_name(str(tmp_path)) == []
    assert list(tmp_path.rglob("*.part")) == []
