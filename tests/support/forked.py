"""Commands of Redline in fresh processes, each forked from one that has imported it: a start costs a hundredth."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_SERVER = """
import importlib, io, json, os, pkgutil, signal, sys, time
from redline.cli import main
for name in ("findings", "ledger", "report", "verbs"):
    package = importlib.import_module("redline." + name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        importlib.import_module(module.name)
for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.chdir(task["folder"])
        os.environ.clear()
        os.environ.update(task["environment"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream, path in ((1, task["output"]), (2, task["errors"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), stream)
        code = main(task["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if task["kill_after_s"] is not None:
        time.sleep(task["kill_after_s"])
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a command ended, and what it said."""

    exit_code: int
    output: str
    errors: str


class Forked:
    """Starts commands of the package in `source`, one after the other."""

    def __init__(self, source: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._own = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=pipe, stdout=pipe, env={**os.environ, **self._own}, text=True
        )

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        kill_after_s: float | None = None,
        *,
        inherited: Mapping[str, str] = os.environ,
        streams: tuple[str, str] | None = None,
    ) -> Answer:
        """`environment` is added to what is inherited. Where files for both streams are given, the answer has none."""
        output, errors = self._scratch / "output", self._scratch / "errors"
        task = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {**inherited, **self._own, **(environment or {})},
            "output": streams[0] if streams else str(output),
            "errors": streams[1] if streams else str(errors),
            "kill_after_s": kill_after_s,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            said = ("", "") if streams else (output.read_text(), errors.read_text())
        return Answer(exit_code=code, output=said[0], errors=said[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._process:
            self._process.kill()
