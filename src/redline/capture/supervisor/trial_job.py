"""Starts a program that is compared, quietly and in a folder of its own, and ends it when enough is known."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from redline.capture.levers import environment_of_all
from redline.capture.settings import Settings, environment_for
from redline.capture.shared_state import LAST_STEP, PID, RANK, STEPS, ProcessSlot, SharedState
from redline.capture.supervisor.command import Command
from redline.capture.supervisor.guardian import SCRATCH, VARIABLE, Guardian, end_processes, processes_of
from redline.capture.supervisor.supervise import facts_of, make_shared_state
from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError, UsageError

_TICK_S = 0.02
_GRACE_S = 5.0  # that a job gets to end after SIGTERM
_HELPERS_GRACE_S = 3.0  # that helpers of a job, such as a resource tracker, get to see that it has ended
_OFFSPRING = 64  # ranks that a script may start by itself
_LOG_BYTES = 64 << 10
_MOST_LETTERS = 300
_ERROR = re.compile(r"(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)")
_COPIED_BYTES = 1 << 20  # of a file at most: logs and tables of results, not data


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a job ended."""

    exit_code: int  # negative for a signal
    wall_s: float
    cpu_s: float  # of all its processes, where no other job ran meanwhile


class TrialJob:
    """One run of a command."""

    def __init__(
        self,
        command: TrialCommand,
        process: subprocess.Popen[bytes],
        shared: SharedState | None,
        log: IO[bytes],
        started_s: float,
    ) -> None:
        self.command = command
        self.shared = shared  # None where it is not watched
        self.ended: Finished | None = None
        self.left_processes = 0  # that outlived it, known once it is over; they were ended then
        self._process = process
        self._log = log
        self._cpu_s = _children_cpu_s()
        self._started_s = started_s

    def wait(self, goes_on: Callable[[], bool] = lambda: True, until_s: float = inf) -> Finished | None:
        """Until it has ended; None where that was not before this time of `perf_counter`, or it is not to go on.

        The latter is asked from time to time.
        """
        while self._process.poll() is None:
            if time.perf_counter() > until_s or not goes_on():
                return None
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
        """The facts that the first rank tells of itself."""
        slots = self.ranks()
        return facts_of(slots[0]) if slots else {}

    def wrote(self) -> str | None:
        """The file of the user that it was about to write when it was ended."""
        return next((str(facts["wrote"]) for facts in map(facts_of, self.ranks()) if facts.get("wrote")), None)

    def raise_if_it_wrote(self, otherwise: str) -> None:
        """It was ended before it wrote to a file of the user, who can do `otherwise`."""
        wrote = self.wrote()
        if wrote is not None:
            raise InputError(
                f"{self.command}: it was about to write {wrote}, and it is run several times; "
                f"{otherwise}, or allow it (`allow_writes=True`)"
            )

    def last_error(self) -> str:
        """The last line of a traceback; else the last line."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_BYTES))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        for line in reversed(lines):
            told = _ERROR.fullmatch(line)
            if told and "ChildFailedError" not in line:
                return told[1][:_MOST_LETTERS]
        return lines[-1][:_MOST_LETTERS] if lines else "it said nothing"


@contextmanager
def start_trial(command: TrialCommand, settings: Settings, *, allow_writes: bool = False) -> Iterator[TrialJob]:
    """A job with these settings. Nothing of it is left afterwards but its output, where `settings.folder` is given."""
    mark = Guardian.of_this_process().next_mark()
    with make_scratch(command.folder, mark) as scratch, _log(settings.folder) as log:
        settings.scratch = str(scratch)
        settings.guarded = () if allow_writes else tuple(map(str, guarded_folders(command)))
        settings.kept_levers, settings.levers = command.kept, command.levers
        shared = _shared(command.python, settings)
        started_s = time.perf_counter()
        try:
            process = _started(command, settings, log, mark, is_watched=shared is not None)
            job = TrialJob(command, process, shared, log, started_s)
            try:
                yield job
            finally:
                _end(process)
                job.left_processes = _end_helpers(mark)
        finally:
            if shared is not None:
                shared.close()


def _log(folder: str) -> IO[bytes]:
    return Path(folder, "output.txt").open("w+b") if folder else TemporaryFile()


def _shared(python: Command | None, settings: Settings) -> SharedState | None:
    """The memory through which its processes tell what they do; None where it cannot be watched."""
    if python is None:
        return None
    shared = make_shared_state(python.processes + (_OFFSPRING if settings.follow else 0))
    if shared is not None:
        settings.board, settings.slots = shared.path, shared.slots
        settings.elastic, settings.local_size = python.elastic, python.processes
    return shared


def _started(
    command: TrialCommand, settings: Settings, log: IO[bytes], mark: str, *, is_watched: bool
) -> subprocess.Popen[bytes]:
    repeatable = {"PYTHONHASHSEED": "0"} if settings.numbers else {}
    environment = {**os.environ, **repeatable, **dict(command.environment), VARIABLE: mark}
    environment = environment_of_all((*command.kept, *command.levers), environment)
    try:
        return subprocess.Popen(
            command.words if command.python is None else command.python.arguments,
            env=environment_for(environment, settings) if is_watched else environment,
            cwd=settings.scratch,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise UsageError(f"compare: {command.words[0]}: {error.strerror}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    process.kill()
    process.wait()


def _end_helpers(mark: str) -> int:
    """How many processes were left after all others had time to see that the job is over."""
    until_s = time.perf_counter() + _HELPERS_GRACE_S
    while (left := [pid for pid in processes_of(mark) if not _is_of_compiler(pid)]) and time.perf_counter() < until_s:
        time.sleep(_TICK_S)
    end_processes(mark, quiet_ticks=1)
    return len(left)


def _is_of_compiler(pid: int) -> bool:
    """A worker of torch.compile, which looks only now and then whether it is still needed."""
    with suppress(OSError):
        return b"torch/_inductor/compile_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _children_cpu_s() -> float:
    """CPU time of processes that have been waited for, and of those that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def guarded_folders(command: TrialCommand) -> list[Path]:
    """Where a job that is started many times must not write: the user's folder, and that of the script."""
    script = command.folder / command.python.script if command.python else None
    folders = [command.folder, *([script.parent] if script and script.is_file() else [])]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


@contextmanager
def make_scratch(original: Path, mark: str = "") -> Iterator[Path]:
    """Looks like the original folder: small files are copies, which a job may overwrite, all else are links.

    New files go into the new folder, which is removed afterwards.
    """
    scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{mark}")).resolve()
    try:
        for entry in sorted(original.resolve().iterdir()):
            if _is_copied(entry):
                shutil.copy2(entry, scratch / entry.name)
            else:
                (scratch / entry.name).symlink_to(entry)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)  # links are removed, never followed


def _is_copied(entry: Path) -> bool:
    """Modules are links: what is imported must be where it was, for its neighbours and for tracebacks."""
    return entry.is_file() and entry.suffix != ".py" and entry.stat().st_size <= _COPIED_BYTES
