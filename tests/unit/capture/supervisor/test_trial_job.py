"""Programs that are started to be compared: with which environment, how failures are told, and what is left of them."""

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redline.capture.process import is_alive
from redline.capture.settings import Settings
from redline.capture.supervisor.trial_command import trial_command
from redline.capture.supervisor.trial_job import start_trial
from tests.support.running import PROGRAMS


def _settings(folder: Path | None = None, **others: object) -> Settings:
    known = {"capture": False, "on_trial": True, "timed_after_s": 0.0, "folder": str(folder or "")}
    return Settings({**known, **others})


def _script(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(text)
    return str(path)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_reads_a_setting_that_was_added_to_those_of_the_user(tmp_path: Path) -> None:
    script = _script(tmp_path, "import torch\nprint(torch._C._accelerator_getAllocatorSettings())")
    words = ["PYTORCH_ALLOC_CONF=max_split_size_mb:64,expandable_segments:False", sys.executable, script]
    with start_trial(trial_command(words, ["expandable-segments"], tmp_path), _settings(tmp_path)) as job:
        ended = job.wait()
    assert ended
    assert ended.exit_code == 0
    assert (tmp_path / "output.txt").read_text() == "max_split_size_mb:64,expandable_segments:True\n"


def test_the_error_of_a_job_is_told_not_what_it_printed_last(tmp_path: Path) -> None:
    script = _script(tmp_path, "print('epoch 1')\nraise ValueError('no data')")  # printed when it ends
    with start_trial(trial_command([sys.executable, script], folder=tmp_path), _settings()) as job:
        ended = job.wait()
        assert ended
        assert ended.exit_code == 1
        assert job.last_error() == "ValueError: no data"


WITH_WORKERS = """
import sys, time, torch
from descent import Descent


class SlowStream:
    def write(self, text):
        return len(text)

    def flush(self):
        time.sleep(1)  # as on a busy machine: meanwhile the end of the workers is noticed


sys.stdout = SlowStream()
loader = torch.utils.data.DataLoader(torch.zeros(10_000, 1), batch_size=1, num_workers=2)
model = torch.nn.Linear(1, 1)
optimizer = Descent(model.parameters(), lr=0.1)
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_workers_that_end_with_a_job_are_no_failure_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS), prepend=os.pathsep)
    words = [sys.executable, _script(tmp_path, WITH_WORKERS)]
    with start_trial(trial_command(words, folder=tmp_path), _settings()) as job:
        job.end_after(4)
        ended = job.wait()
        assert ended
        assert (ended.exit_code, job.steps()) == (0, 4), job.last_error()


def test_nothing_is_left_of_a_job_that_is_not_waited_for(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "import os, pathlib, signal, subprocess\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n"
        f"pids = [str(os.getpid()), str(subprocess.Popen(['sleep', '100']).pid), os.getcwd()]\n"
        f"pathlib.Path({str(tmp_path)!r}, 'pids').write_text(' '.join(pids))\n"
        "signal.pause()\n",
    )
    descriptors = len([*Path("/proc/self/fd").iterdir()])
    command = trial_command([sys.executable, script], folder=tmp_path)
    with start_trial(command, _settings(numbers={"folder": ""}), allow_writes=True):
        _wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text() != "")
    *pids, scratch = (tmp_path / "pids").read_text().split()
    _wait_until(lambda: not any(is_alive(int(pid)) for pid in pids))
    assert not Path(scratch).exists()
    assert len([*Path("/proc/self/fd").iterdir()]) == descriptors


def _wait_until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.01)
