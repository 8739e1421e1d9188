"""What watching costs a job: microseconds a step, a watcher that sleeps, and no module that is not needed.

Ratios of whole runs are too noisy for CI; `scripts/benchmark_run.py` measures them.
"""

import importlib.util
import json
import os
import time
from pathlib import Path

import pytest

from tests.support.running import PROGRAMS, REDLINE, finished, record, started

MOST_OF_TRAINING = 0.5  # of forward and backward of one number; a fifth is usual: 7 to 10 microseconds
MOST_MODULES = {"without_torch": 10, "with_torch": 52}
MASKING = ("redline.artifacts", "redline.errors")  # of secrets in what is recorded
WATCHED_S = 5.0
MOST_SHARE = 0.02  # of a core, for the watcher; a tenth of that is usual


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_step_costs_microseconds_and_few_modules(tmp_path: Path) -> None:
    job = finished(tmp_path, *REDLINE, "--watch-only", "-q", "-o", "run", "--", PROGRAMS / "hook_cost.py")
    assert job.process.returncode == 0, job.output
    figures = json.loads(job.output)
    assert figures["hooks"] == 1
    assert figures["watching_ns"] < MOST_OF_TRAINING * figures["training_ns"]
    assert record(tmp_path / "run")["ranks"][0]["steps"] == figures["steps"]
    for when, most in MOST_MODULES.items():
        names = [name for name in figures[when] if name not in ("redline", "redline.capture")]
        assert all(name.startswith(("redline.capture.", *MASKING)) for name in names), names
        assert not any(".outside" in name for name in names)
        assert len(names) <= most, names


def test_the_watcher_sleeps_while_the_job_runs(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(100)\n")
    with started(tmp_path, *REDLINE, "-o", "run", "--", script) as job:
        job.wait_until((tmp_path / "begun").exists)
        time.sleep(1)
        before_s = cpu_s(job.process.pid)
        time.sleep(WATCHED_S)
        spent_s = cpu_s(job.process.pid) - before_s
    assert spent_s <= MOST_SHARE * WATCHED_S


def cpu_s(pid: int) -> float:
    """Of one process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
