"""Starts a command on a terminal of its own, as wide as a test wants it, and reads all that it draws there."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.command_line import ROOT

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
    """All that the command writes to the terminal; where `stdout` is an open file, only stderr is the terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in _DECIDING}
    known |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    known |= environment or {}
    pid = os.fork()
    if pid == 0:
        try:
            os.login_tty(slave) if hasattr(os, "login_tty") else _take_terminal(slave)
            if stdout is not None:
                os.dup2(stdout, 1)
            os.chdir(folder)
            os.execvpe(command[0], [*command], known)
        finally:
            os._exit(127)
    os.close(slave)
    text = _everything(master)
    os.close(master)
    os.waitpid(pid, 0)
    return text


def _take_terminal(slave: int) -> None:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(slave, number)


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
    return [sys.executable, "-m", "redline", *words]


def without_colours(text: str) -> str:
    return _SEQUENCE.sub("", text)
