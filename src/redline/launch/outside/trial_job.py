"""Starts a job that is timed, quietly and in a folder of its own, and ends it when enough is known."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType

from redline.errors import InputError, UsageError
from redline.launch.inside.trial.file_guard import EXIT_CODE as FILE_GUARD_EXIT
from redline.launch.levers import environment_of, parse_lever
from redline.launch.outside.command import Command, command
from redline.launch.outside.command_line import understood
from redline.launch.outside.supervise import facts_of, make_shared_state
from redline.launch.settings import Settings, environment_for
from redline.launch.shared_state import LAST_STEP, PID, RANK, STEPS, ProcessSlot, SharedState

_TICK_S = 0.02
_GRACE_S = 5.0  # that a job gets to end after SIGTERM
_LOG_BYTES = 64 << 10


@dataclass(frozen=True, kw_only=True)
class TimedCommand:
    """What is started, and with which changes."""

    words: tuple[str, ...]  # as they were typed, without the environment
    environment: tuple[tuple[str, str], ...] = ()  # in addition to that of this process
    levers: tuple[str, ...] = ()
    python: Command | None = None  # None where it cannot be watched: then it has no steps
    why_unwatched: str = ""

    def __str__(self) -> str:
        return shlex.join([*(f"{name}={value}" for name, value in self.environment), *self.words])


def timed_command(words: Sequence[str], levers: Sequence[str] = ()) -> TimedCommand:
    """Of a command line that may begin with settings of the environment."""
    rest = list(words)
    environment: list[tuple[str, str]] = []
    while rest and "=" in rest[0] and rest[0].partition("=")[0].isidentifier():
        name, _, value = rest.pop(0).partition("=")
        environment.append((name, value))
    if not rest:
        raise UsageError("compare: which command? a program is a command line, such as 'python train.py'")
    python, why = _python_command(tuple(rest))
    return TimedCommand(
        words=tuple(rest), environment=tuple(environment), levers=tuple(levers), python=python, why_unwatched=why
    )


def _python_command(words: tuple[str, ...]) -> tuple[Command | None, str]:
    """How it is started so that it can be watched; None, and why not, where it cannot be."""
    try:
        typed = understood((), words)
        found = command(typed.torchrun, typed.job, typed.of_python)
    except UsageError as error:
        return None, str(error).removeprefix("run: ")
    return (None, f"python {found.blind} cannot be watched") if found.blind else (found, "")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a job that was timed ended."""

    exit_code: int  # negative for a signal
    wall_s: float
    cpu_s: float  # of all its processes


class TrialJob:
    """One run of a command. As a context it never leaves a process behind."""

    def __init__(self, started: TimedCommand, settings: Settings, folder: Path) -> None:
        self.command = started
        self._settings = settings
        self._log = TemporaryFile()  # noqa: SIM115 (closed when the job is over)
        self._folder = folder
        self.shared: SharedState | None = None
        self.ended: Finished | None = None

    def __enter__(self) -> TrialJob:
        python = self.command.python
        environment = {**os.environ, **dict(self.command.environment)}
        for lever in self.command.levers:
            environment |= environment_of(parse_lever(lever))
        if python is not None:
            self._tell(python)
            if self.shared is not None:
                environment = environment_for(environment, self._settings)
        self._cpu_s = _children_cpu_s()
        self._started_s = time.perf_counter()
        try:
            self._process = subprocess.Popen(
                self.command.words if python is None else python.arguments,
                env=environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise UsageError(f"compare: {self.command.words[0]}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ended is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _tell(self, python: Command) -> None:
        settings = self._settings
        self.shared = make_shared_state(python.processes)
        if self.shared is not None:
            settings.board, settings.slots = self.shared.path, self.shared.slots
            settings.elastic, settings.local_size = python.elastic, python.processes
            settings.levers = self.command.levers

    def wait(self, look: Callable[[], None] = lambda: None, until_s: float = inf) -> Finished | None:
        """Until it has ended, looking from time to time; None where that was not before this time of `perf_counter`."""
        while self._process.poll() is None:
            if time.perf_counter() > until_s:
                return None
            look()
            time.sleep(_TICK_S)
        self.ended = Finished(
            exit_code=self._process.returncode,
            wall_s=time.perf_counter() - self._started_s,
            cpu_s=_children_cpu_s() - self._cpu_s,
        )
        return self.ended

    def end_after(self, step: int) -> None:
        """Every rank ends with the end of this step."""
        if self.shared is not None:
            self.shared.job_words[LAST_STEP] = step

    def ranks(self) -> list[ProcessSlot]:
        """Those that have begun, in order."""
        if self.shared is None:
            return []
        slots = [self.shared.slot(number) for number in range(self.shared.slots)]
        return sorted((slot for slot in slots if slot.words[PID]), key=lambda slot: slot.words[RANK])

    def steps(self) -> int:
        """That every rank has done."""
        slots = self.ranks()
        all_here = self.shared is not None and len(slots) == self.shared.slots
        return min(slot.words[STEPS] for slot in slots) if all_here else 0

    def facts(self) -> dict[str, object]:
        """What the first rank tells of itself."""
        slots = self.ranks()
        return facts_of(slots[0]) if slots else {}

    def raise_if_failed(self) -> None:
        """A job that ended in another way than it should is no measurement."""
        if self.ended is None or not self.ended.exit_code:
            return
        wrote = self.facts().get("wrote")
        if wrote and self.ended.exit_code == FILE_GUARD_EXIT:
            raise InputError(
                f"{self.command}: it was about to write {wrote} after {self.steps()} steps, and it is run many times; "
                "let it write nothing, end it before (`steps=...`), or allow it (`allow_writes=True`)"
            )
        raise InputError(f"{self.command}: it ended with {self.ended.exit_code}: {self._last_line()}")

    def _last_line(self) -> str:
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"


def _children_cpu_s() -> float:
    """Of processes that have been waited for, and of those that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
