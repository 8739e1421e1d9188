"""Starts the job, hands signals on to it, watches it from outside, and ends the way it ended.

The watcher is the job's parent and nothing more: it holds none of its pipes, speaks to it through the shared state
only, and what it writes, it writes when the job is over.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from redline.capture import shared_state as at
from redline.capture.levers import environment_of_all
from redline.capture.process import is_alive
from redline.capture.settings import Settings, environment_for
from redline.capture.shared_state import ProcessSlot, SharedState
from redline.capture.supervisor.command import Command

_TICK_S = 0.25
_TERMINAL = 128  # si_code of signals that the kernel sends; those of Ctrl-C reach the job without our help
_PARENT_DIES = 1  # of prctl
_HANDED_ON = {
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGPIPE",
                 "SIGXCPU", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGURG")
} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))  # fmt: skip
_AWAITED = _HANDED_ON | {signal.SIGCHLD}
_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_WRITERS_S = 120.0  # that traces may take to be written after the job is over
_LAST_WORDS_S = 2.0  # that one may then take to remove what it needs no more


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the job ended."""

    status: int  # the status from `waitpid`
    started_ns: int
    ended_ns: int

    @property
    def exit_code(self) -> int | None:
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None

    @property
    def signal_number(self) -> int | None:
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None


class Supervisor:
    """One job on this machine."""

    def __init__(
        self, command: Command, settings: Settings, shared: SharedState | None, ticked: Callable[[], None]
    ) -> None:
        self._command = command
        self._settings = settings
        self._shared = shared
        self._ticked = ticked
        self._terminated = False  # somebody told the job to end
        self._slots: list[ProcessSlot] = []
        self.mask: SignalMask | None = None  # that the job begins with, where ours was changed before
        self.capture_signal: int | None = None
        self.capture_asked: Callable[[], None] = lambda: None
        self.other_ended: Callable[[int, int, resource.struct_rusage], None] = lambda pid, status, usage: None
        self._over_s = 0.0  # when the job was over

    def run(self) -> Ended:
        """Start the job and stay until it is over."""
        libc = ctypes.CDLL(None)
        with signals_held() as before:
            started_ns = time.perf_counter_ns()
            job = self._start(libc, before if self.mask is None else self.mask)
            status = self._stay(job)
            self._over_s = time.monotonic()
            return Ended(status=status, started_ns=started_ns, ended_ns=time.perf_counter_ns())

    def _start(self, libc: ctypes.CDLL, mask: SignalMask) -> int:
        def prepare() -> None:
            libc.prctl(_PARENT_DIES, signal.SIGKILL, 0, 0, 0)  # if we are killed, so would the job have been
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        changed = environment_of_all(self._settings.kept_levers, os.environ)
        environment = changed if self._shared is None else environment_for(changed, self._settings)
        job = subprocess.Popen(self._command.arguments, env=environment, preexec_fn=prepare, close_fds=False)  # noqa: PLW1509
        job.returncode = 0  # we wait for it ourselves
        return job.pid

    def _stay(self, job: int) -> int:
        last_s = 0.0
        while True:
            caught = signal.sigtimedwait(_AWAITED, _TICK_S)
            if caught is not None and caught.si_signo != signal.SIGCHLD:
                self._hand_on(job, caught)
            status = self._reap(job)
            if status is not None:
                return status
            if time.monotonic() - last_s >= _TICK_S:
                last_s = time.monotonic()
                self._ticked()

    def _hand_on(self, job: int, caught: signal.struct_siginfo) -> None:
        if caught.si_signo == self.capture_signal:
            self.capture_asked()
            return
        self._terminated |= caught.si_signo in _END
        if caught.si_code != _TERMINAL:
            os.kill(job, caught.si_signo)

    def _reap(self, job: int) -> int | None:
        """The status of the job once it is over. Others become our children where we are the first of a container."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid == job:
                return status
            if pid == 0:
                return None
            self.other_ended(pid, status, usage)

    def wait_for_writers(self) -> None:
        """Traces that are being written get the time to be finished, less of it where somebody wants us to end."""
        most_s = self._settings.flush_s if self._terminated else _WRITERS_S
        until_s = time.monotonic() + most_s
        with signals_held():
            while writing := list(self._writing()):
                self._reap(-1)
                hurry = signal.sigtimedwait(_END, 0.05)
                self._terminated |= hurry is not None
                if time.monotonic() > until_s or hurry is not None:
                    for window in writing:
                        _end_writer(window)
                        window[at.STATE] = at.LOST_KILLED
            until_s = min(until_s, time.monotonic() + _LAST_WORDS_S)
            while any(_cleans_up(window) for slot in self._taken() for window in slot.windows()):
                if time.monotonic() > until_s or signal.sigtimedwait(_END, 0.01) is not None:
                    break

    def wait_for_others(self, look: Callable[[], None], is_done: Callable[[], bool], most_s: float) -> None:
        """Processes of ours get the time to end, less of it where somebody wants us to end."""
        until_s = time.monotonic() + most_s
        if self._terminated:
            until_s = min(until_s, self._over_s + self._settings.flush_s)
        with signals_held():
            while not is_done() and time.monotonic() < until_s:
                caught = signal.sigtimedwait({*_END, signal.SIGCHLD}, 0.05)
                if caught is not None and caught.si_signo in _END:
                    break
                self._reap(-1)
                look()

    def _writing(self) -> list[memoryview[int]]:
        windows = []
        for slot in self._taken():
            for window in slot.windows():
                if window[at.STATE] == at.DISOWNED:
                    _end_writer(window)
                elif window[at.STATE] == at.EXPORTING:
                    if is_alive(window[at.EXPORTER]):
                        windows.append(window)
                    elif not is_alive(slot.words[at.PID]):  # which is about to write it
                        window[at.STATE] = at.LOST_KILLED
        return windows

    def slots(self) -> list[ProcessSlot]:
        """Those of the job's ranks.

        Where the first process has others take the steps, it is none, nor are those of them that never took one. Where
        some train, those that only call a model help them: they make data, or evaluate.
        """
        taken = self._taken()
        with_steps = [slot for slot in taken if slot.words[at.STEPS] or _has_timed_window(slot)]
        if not any(slot.words[at.OFFSPRING] for slot in with_steps):
            return [slot for slot in taken if not slot.words[at.OFFSPRING]]
        return [slot for slot in with_steps if slot.words[at.KIND] != at.BY_CALLS] or with_steps

    def helpers(self) -> list[ProcessSlot]:
        """Those of processes that were watched and turned out to be none of the ranks."""
        ranks = {slot.words[at.PID] for slot in self.slots()}
        return [slot for slot in self._taken() if slot.words[at.PID] not in ranks]

    def _taken(self) -> list[ProcessSlot]:
        if self._shared is not None and not self._slots:
            self._slots = [self._shared.slot(number) for number in range(self._shared.slots)]
        return [slot for slot in self._slots if slot.words[at.PID]]


def _has_timed_window(slot: ProcessSlot) -> bool:
    """It was captured, though it took no step that was recognised."""
    window = slot.window(at.TIMED_WINDOW)
    return bool(window[at.NUMBER]) and window[at.STATE] != at.DISOWNED


def _cleans_up(window: memoryview[int]) -> bool:
    """Its trace is there, and who wrote it has not yet removed the rest and said how long it took."""
    return (
        window[at.STATE] == at.WRITTEN
        and not window[at.WRITING_NS]
        and bool(window[at.EXPORTER])
        and is_alive(window[at.EXPORTER])
    )


def _end_writer(window: memoryview[int]) -> None:
    if not window[at.WRITING_NS] and is_alive(
        window[at.EXPORTER]
    ):  # otherwise it has ended, and the number may be another's
        with suppress(OSError):
            os.kill(window[at.EXPORTER], signal.SIGKILL)


SignalMask = Collection[int]


@contextmanager
def signals_held() -> Iterator[SignalMask]:
    """Meanwhile signals wait for whoever asks for them; with those that were held before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile, after the job, who is told to end gets a KeyboardInterrupt: the exit code stays that of the job."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _END}
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)  # which raises at once if one was held
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        for number, handler in before.items():
            signal.signal(number, handler)


def forget_pending() -> None:
    """Drop those of the signals held that tell us to end, which we are about to do."""
    while signal.sigtimedwait(_END, 0) is not None:
        pass


def die_like(ended: Ended) -> int:
    """The exit code of the job; where a signal ended it, the same signal ends this process."""
    import sys

    for name in ("stdout", "stderr"):
        try:
            stream = getattr(sys, name)
            if stream is not None:  # as one that is closed from the start
                stream.flush()
        except (OSError, ValueError):  # Python would try again, and end with another exit code
            setattr(sys, name, None)
    number = ended.signal_number
    if number is None:
        return int(ended.exit_code or 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the job has left its own
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def make_shared_state(slots: int) -> SharedState | None:
    """The shared memory; None where the system has none to give, and the job runs unwatched."""
    try:
        return SharedState.make(slots)
    except OSError:
        return None


def facts_of(slot: ProcessSlot) -> dict[str, object]:
    try:
        facts = json.loads(slot.read_facts() or b"{}")
    except ValueError:  # it was being written when its writer was killed
        return {}
    return facts if isinstance(facts, dict) else {}
