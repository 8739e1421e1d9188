"""What a trial has started ends with the one who tries: after its end, and when that one is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from redline.capture.process import is_alive
from redline.capture.settings import Settings
from redline.capture.supervisor.guardian import SCRATCH, processes_of
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.supervisor.trial_job import start_trial

LEAVES = """
import os, pathlib, subprocess, sys
detached = subprocess.Popen(["sleep", "100"], start_new_session=True, stdout=subprocess.DEVNULL)
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {detached.pid} {os.getcwd()}")
"""
TRIES = """
import sys, time
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.supervisor.trial_job import start_trial
from redline.capture.settings import Settings
command = trial_command([sys.executable, *sys.argv[1:]])
with start_trial(command, Settings({"capture": False}), allow_writes=True) as job:
    job.wait()
"""


def _until(seen: Path) -> list[str]:
    for _ in range(400):
        if seen.exists() and len(seen.read_text().split()) == 3:
            return seen.read_text().split()
        time.sleep(0.05)
    raise AssertionError("the job did not begin")


def test_a_process_that_outlives_its_job_is_ended_and_counted(tmp_path: Path) -> None:
    script, seen = tmp_path / "job.py", tmp_path / "seen"
    script.write_text(LEAVES)
    command = trial_command([sys.executable, str(script), str(seen)], folder=tmp_path)
    with start_trial(command, Settings({"capture": False}), allow_writes=True) as job:
        assert job.wait() is not None
    _, detached, _ = _until(seen)
    assert job.left_processes == 1
    assert not is_alive(int(detached))


def test_a_job_that_leaves_nothing_is_not_blamed(tmp_path: Path) -> None:
    with start_trial(
        trial_command([sys.executable, "-c", "pass"], folder=tmp_path), Settings({"capture": False})
    ) as job:
        assert job.wait() is not None
    assert job.left_processes == 0


def test_nothing_is_left_when_the_one_who_tries_is_killed(tmp_path: Path) -> None:
    script, seen = tmp_path / "job.py", tmp_path / "seen"
    script.write_text(f"{LEAVES}\nimport time; time.sleep(100)")
    with subprocess.Popen([sys.executable, "-c", TRIES, str(script), str(seen)], cwd=tmp_path) as tries:
        job, detached, scratch = _until(seen)
        assert Path(scratch).name.startswith(f"{SCRATCH}{tries.pid}-")
        assert set(processes_of(f"{tries.pid}-")) == {int(job), int(detached)}
        tries.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not Path(scratch).exists():
            break
        time.sleep(0.05)
    assert not is_alive(int(job))
    assert not is_alive(int(detached))
    assert not Path(scratch).exists()
