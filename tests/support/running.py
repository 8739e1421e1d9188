"""Starts `redline run` as a user would, in a folder of the test, and reads what it left there."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.command_line import ROOT

PROGRAMS = ROOT / "tests" / "e2e" / "programs"
# A busy machine may need half a minute to a first step, and then a timed window were captured before it.
NO_TIMED_WINDOW = ("--timed-after", "0")
REDLINE = (sys.executable, "-m", "redline", "run", *NO_TIMED_WINDOW)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
SECONDS = 300.0  # only guards against a hang: other load may slow a job tenfold
_QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}

Record = dict[str, Any]


class Started:
    """A command that runs; its output goes to files, so that nothing waits for a reader."""

    def __init__(self, folder: Path, command: tuple[object, ...], environment: Mapping[str, str]) -> None:
        self._output = folder / f"output-{time.monotonic_ns()}.txt"
        known = {**os.environ, **_QUIET, "PYTHONPATH": str(ROOT / "src"), **environment}
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                [*map(str, command)], cwd=folder, env=known, stdout=file, stderr=file, stdin=subprocess.DEVNULL
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self) -> int:
        return self.process.wait(SECONDS)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        until_s = time.monotonic() + SECONDS
        while not is_so():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until_s, self.output
            time.sleep(0.02)


@contextmanager
def started(folder: Path, *command: object, environment: Mapping[str, str] | None = None) -> Iterator[Started]:
    """The command, which is ended at the latest when the test is over."""
    one = Started(folder, command, environment or {})
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
            one.wait()


def finished(folder: Path, *command: object, environment: Mapping[str, str] | None = None) -> Started:
    """The command, once it is over."""
    with started(folder, *command, environment=environment) as one:
        one.wait()
    return one


def record(folder: Path) -> Record:
    """What `redline run` wrote about the run in this folder."""
    content: Record = json.loads((folder / "run.json").read_text())
    return content


def processes_that_name(text: str) -> list[str]:
    """The command lines of processes in which this text occurs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if text in line:
            found.append(line)
    return found
