"""A process beside the job that gets only what the job leaves: idle priority, limits, and no life beyond its starter's.

It is in a process group of its own, so that signals for the job's group and Ctrl-C are none for it. It stays in the
session: Linux may share cores out by session first, and then idle priority would count for nothing against the job.
It holds no descriptor of ours: whoever reads the job's output sees its end when the job ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from redline.capture.process import FIRST_FOR_THE_OOM_KILLER

_PARENT_DIES = 1  # of prctl
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # system calls, which the C library has no function for
_IDLE_IO = 3 << 13
_OF_PROCESS = 1
_MOST_FILE_BYTES = 1 << 20  # that it may write; a digest has 32 KB
_READ_BYTES = 1 << 16
_GONE_S = 2.0  # in which a killed process is gone, unless a disk holds it
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class SideProcess:
    """A command whose output is lines, which are read without waiting for any."""

    def __init__(self, words: Sequence[str], *, memory_bytes: int, cpu_s: int) -> None:
        """OSError where no process can be had."""
        libc, parent = ctypes.CDLL(None), os.getpid()

        def prepare() -> None:
            libc.prctl(_PARENT_DIES, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before it could be told
                os._exit(1)
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            _limit(memory_bytes, cpu_s)

        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        try:
            process = subprocess.Popen(
                [*words],
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                preexec_fn=prepare,  # noqa: PLW1509 (the watcher has one thread)
            )
        except BaseException:
            os.close(self._output)
            raise
        finally:
            os.close(write)
        process.returncode = 0  # its starter waits for it itself
        self.pid = process.pid
        self._text = b""
        self._is_open = True
        _give_way(self.pid)  # only now: to wait for the start of a process that nobody lets run could take for ever

    def lines(self) -> list[bytes]:
        """Those that were written since the last time."""
        with suppress(OSError):  # nothing now
            while data := os.read(self._output, _READ_BYTES):
                self._text += data
        *whole, self._text = self._text.split(b"\n")
        return whole

    def close(self) -> None:
        """It has ended, and was waited for."""
        if self._is_open:
            os.close(self._output)
            self._is_open = False

    def kill(self) -> None:
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self, ended: Callable[[int, resource.struct_rusage], None]) -> None:
        """Kill it, and say how it ended; where a disk holds it, it is left to end by itself."""
        self.kill()
        until_s = time.monotonic() + _GONE_S
        while time.monotonic() < until_s:
            try:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                ended(status, usage)
                return
            time.sleep(0.01)


def _limit(memory_bytes: int, cpu_s: int) -> None:
    """A process that goes astray ends, and leaves no core behind."""
    most = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: _MOST_FILE_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in most.items():
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _give_way(pid: int) -> None:
    """Lower its claims as far as the system allows: processor, disk, and memory when that runs out."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, 19)
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _OF_PROCESS, pid, _IDLE_IO)
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(FIRST_FOR_THE_OOM_KILLER, encoding="ascii")
