"""The job as it is, with some steps captured."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from redline.capture.supervisor.trial_command import trial_command
from redline.tuning.captured_job import capture_job
from tests.support.running import PROGRAMS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

SLOWLY_WRITTEN = """
import os, time, torch
from descent import Descent

replace = os.replace


def slow(source, target):
    time.sleep(3)
    replace(source, target)


os.replace = slow  # also in the process that writes the trace, as on a busy machine
model = torch.nn.Linear(8, 8)
optimizer = Descent(model.parameters(), lr=0.1)
for step in range(1000):
    model(torch.rand(4, 8)).sum().backward()
    optimizer.step()
"""


def test_traces_are_waited_for_though_the_job_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS), prepend=os.pathsep)
    (tmp_path / "job.py").write_text(SLOWLY_WRITTEN)
    command = trial_command([sys.executable, str(tmp_path / "job.py")], folder=tmp_path)
    captured = capture_job(command, tmp_path / "start", 120.0)
    assert captured.traces == (tmp_path / "start" / "window-1" / "rank-0.trace.json.gz",)
    assert captured.traces[0].exists()
