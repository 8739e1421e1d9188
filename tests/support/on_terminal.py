"""Starts a command on a terminal of its own, as wide as a test wants it, and reads all that it draws there."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.command_line import REDLINE, ROOT, forked

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DECIDING = ("COLUMNS", "FORCE_COLOR", "NO_COLOR")  # variables of whoever starts the tests


def drawn(
    command: Sequence[str],
    *,
    columns: int = 100,
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> str:
    """All that the command writes to the terminal; where `stdout` is an open file, only stderr is the terminal.

    Commands of Redline are forked from a process that has imported it.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in _DECIDING}
    known |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    known |= environment or {}
    terminal = os.ttyname(slave)
    streams = terminal if stdout is None else f"/proc/{os.getpid()}/fd/{stdout}", terminal

    def run() -> None:
        try:
            if [*command[: len(REDLINE)]] == REDLINE:
                forked().run(command[len(REDLINE) :], folder, inherited=known, streams=streams)
            else:
                subprocess.run(
                    command, cwd=folder, env=known, stdin=slave, stdout=stdout or slave, stderr=slave, check=False
                )
        finally:
            os.close(slave)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        text = _everything(master)
        running.result()
    os.close(master)
    return text


def _everything(master: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the last process that had it open is gone
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode(errors="replace").replace("\r\n", "\n")


def redline(*words: str) -> list[str]:
    return [*REDLINE, *words]


def without_colours(text: str) -> str:
    return _SEQUENCE.sub("", text)
