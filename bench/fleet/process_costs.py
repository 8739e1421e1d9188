"""What a command and all processes that it starts take, daemons too: they are known by a mark in their environment."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MARK = "REDLINE_BENCH_RUN"
_LOOK_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one command."""

    wall_s: float
    cpu_s: float  # of what lived for less than half a second, nothing
    peak_bytes: int  # of its largest process
    killed: int  # processes that were killed on purpose


class _Watched:
    """The processes of one command, as they come and go."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{_MARK}={mark}".encode()
        self._others = set(Path("/proc").iterdir())  # that were there before: nothing of theirs is read
        self._is_ours: dict[str, bool] = {}
        self.cpu_s: dict[str, float] = {}
        self.peak_bytes = 0

    def look(self) -> None:
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and folder not in self._others:
                with suppress(OSError):
                    self._look_at(folder)

    def _look_at(self, folder: Path) -> None:
        if not self._is_ours.get(folder.name):  # again each time: the mark is seen once the program has begun
            self._is_ours[folder.name] = self._mark in (folder / "environ").read_bytes()
        if self._is_ours[folder.name]:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            self.cpu_s[folder.name] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
            self.peak_bytes = max(self.peak_bytes, int(fields[21]) * _PAGE_BYTES)

    def working(self, words: bytes, least_cpu_s: float) -> list[int]:
        """Those whose command line has these words, once they have worked for a while."""
        busy = [name for name, cpu_s in self.cpu_s.items() if cpu_s >= least_cpu_s]
        return [int(name) for name in busy if words in _command_line(name)]


def _command_line(process: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def cost_of(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    kill: bytes = b"",
) -> Cost:
    """Run a command in a folder to its end. With `kill`, the first worker whose command line has it is killed while it
    works."""
    mark = secrets.token_hex(8)
    watched = _Watched(mark)
    begin_s, killed = time.monotonic(), 0
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **(environment or {}), _MARK: mark}, stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            watched.look()
            victims = watched.working(kill, least_cpu_s=1.0) if kill and not killed else []
            if victims:
                os.kill(victims[0], signal.SIGKILL)
                killed = 1
            time.sleep(_LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(
        wall_s=time.monotonic() - begin_s,
        cpu_s=sum(watched.cpu_s.values()),
        peak_bytes=watched.peak_bytes,
        killed=killed,
    )
