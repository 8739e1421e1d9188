"""Ends what a trial has started when the one who tries is gone, however that came about.

The processes of a trial are known by a mark in their environment, which all that they start inherit. A small process of
its own waits for the end of the one who tries, kills all that have its mark, and removes their folders. So nothing is
left even after SIGKILL.

This file is also that process: it imports the standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VARIABLE = "REDLINE_TRIAL"  # of the environment: the mark of the one who tries, and the number of the trial
SCRATCH = "redline-trial-"  # folders for temporary files begin so, with the mark
_TICK_S = 0.05
_QUIET_TICKS = 5  # without a process, after which none will come


def processes_of(mark: str) -> list[int]:
    """Those that were started with this mark, or with one that begins so."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # gone, or somebody else's
                continue
            if any(variable.startswith(wanted) for variable in variables):
                found.append(int(entry.name))
    return found


def end_processes(mark: str, quiet_ticks: int = _QUIET_TICKS) -> None:
    """Until none is left: one that ends may have started another."""
    quiet = 0
    while quiet < quiet_ticks:
        found = processes_of(mark)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        quiet = 0 if found else quiet + 1
        if found or quiet < quiet_ticks:
            time.sleep(_TICK_S)


class Guardian:
    """The one guardian of this process: started with its first trial, it ends with it."""

    _here: Guardian | None = None

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.mark = f"{self.pid}-{time.time_ns():x}-"
        self._trials = 0
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, self.mark, tempfile.gettempdir()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what is sent to all of this terminal is not for it
        )

    @classmethod
    def of_this_process(cls) -> Guardian:
        if cls._here is None or cls._here.pid != os.getpid():
            cls._here = cls()
        return cls._here

    def next_mark(self) -> str:
        """For another trial."""
        self._trials += 1
        return f"{self.mark}{self._trials}-"


def _guard(mark: str, temporary: str) -> None:
    while os.read(0, 1):
        pass
    end_processes(mark)
    for folder in Path(temporary).glob(f"{SCRATCH}{mark}*"):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _guard(*sys.argv[1:])
