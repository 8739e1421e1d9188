"""Finds every process that a command started, however detached: by a word in the environment that it inherits."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "REDLINE_BENCH_MARK"


def marked_environment(word: str) -> dict[str, str]:
    """For a command whose processes are to be found later."""
    return {**os.environ, MARK: word}


def processes_of(word: str) -> dict[int, str]:
    """Those that are alive, with their command lines; none of this process."""
    wanted = f"{MARK}={word}".encode()
    return {
        process: _command_line(process)
        for process in _all_processes()
        if process != os.getpid() and wanted in _read(process, "environ").split(b"\0") and not _is_zombie(process)
    }


def end_processes_of(word: str) -> None:
    for process in processes_of(word):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _all_processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _command_line(process: int) -> str:
    return _read(process, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def _is_zombie(process: int) -> bool:
    return _read(process, "stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def _read(process: int, name: str) -> bytes:
    """Nothing where it has ended, or belongs to somebody else."""
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:
        return b""
