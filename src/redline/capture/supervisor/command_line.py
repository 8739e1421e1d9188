"""A job as one types it without Redline, `python -u train.py` or `torchrun ... train.py`, told apart into its parts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.supervisor import torchrun as of_torchrun
from redline.capture.supervisor.command import MODULE, PYTHON_WITH_VALUE
from redline.errors import UsageError

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_ASKING_S = 10.0
_HEAD_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The parts of a job."""

    of_python: tuple[str, ...] = ()  # options of Python itself
    torchrun: tuple[str, ...] | None = None  # options of torchrun; None for a job without it
    job: tuple[str, ...]  # a script or `-m module`, with its own arguments


def understood(torchrun: Sequence[str], words: Sequence[str]) -> Typed:
    """The parts of `words`, before which options of torchrun may have been given."""
    return _typed((), tuple(torchrun) or None, tuple(words))


def _typed(of_python: tuple[str, ...], torchrun: tuple[str, ...] | None, words: tuple[str, ...]) -> Typed:
    first = words[0] if words else ""
    name = Path(first).name
    if _PYTHON.fullmatch(name):
        _refuse_foreign(first, typed=first)
        return _after_python(torchrun, words)
    if name == "torchrun":
        _refuse_foreign_script(shutil.which(first), typed=first)
        return _after_torchrun(of_python, torchrun, words[1:])
    if first in MODULE and words[1:2] == (of_torchrun.MODULE,):
        return _after_torchrun(of_python, torchrun, words[2:])
    if of_python and torchrun is not None and of_python != ("-u",):  # with which torchrun starts them anyway
        raise UsageError(
            f"run: torchrun starts Python without {of_python[0]}; say it in the environment (see `python --help-env`)"
        )
    return Typed(of_python=of_python, torchrun=torchrun, job=_found(words))


def _after_python(torchrun: tuple[str, ...] | None, words: tuple[str, ...]) -> Typed:
    """Split the words after python: its options, and then a script or a module."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", *MODULE):
        word = words[at]
        if word.startswith("-c"):
            raise UsageError("run: python -c has no script to name; put it into a file")
        at += 2 if word in PYTHON_WITH_VALUE else 1
    if words[at:] in ((), ("-",)):
        raise UsageError("run: which script? python alone reads one from its input; give a file")
    return _typed(words[1:at], torchrun, words[at:])


def _after_torchrun(of_python: tuple[str, ...], before: tuple[str, ...] | None, words: tuple[str, ...]) -> Typed:
    """Split the words after torchrun: more of its options, and then a script or a module."""
    at = 0
    while at < len(words) and (taken := of_torchrun.words_of(words[at], short=True)):
        of_torchrun.refuse_about_a_script(words[at])
        at += taken
    job = words[at:]
    if job and job[0].startswith("-") and job[0] not in MODULE:
        raise UsageError(f"run: {job[0]} is no option of torchrun that Redline knows; see `torchrun --help`")
    return Typed(of_python=of_python, torchrun=(*(before or ()), *words[:at]), job=_found(job))


def _found(job: tuple[str, ...]) -> tuple[str, ...]:
    """The same, with the file of its program."""
    return job if not job or job[0] in MODULE else (_program(job[0]), *job[1:])


def _program(name: str) -> str:
    """The file of a script, or of a command such as `accelerate`, which is a script too."""
    path = Path(name)
    if path.exists():
        if path.is_file() and path.suffix != ".py":
            _refuse_other_language(name)
        return name
    program = None if "/" in name else shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if program is None:
        raise UsageError(f"run: there is no file {name}, and no command of that name")
    _refuse_other_language(program)
    _refuse_foreign_script(program, typed=name)
    return program


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""  # Python will say why


def _interpreter(head: bytes) -> str:
    """The Python that a script names; installers hide a long path of it in a line of the shell."""
    lines = head.decode(errors="replace").splitlines()
    if not lines or not lines[0].startswith("#!"):
        return ""
    hidden = re.match(r"'''exec' \"?([^\"]+?)\"? \"\$0\"", lines[1]) if len(lines) > 1 else None
    if hidden:
        return hidden[1]
    words = lines[0][2:].split()
    return next((word for word in words if Path(word).name != "env" and not word.startswith("-")), "")


def _refuse_other_language(name: str) -> None:
    head = _head(name)
    interpreter = _interpreter(head)
    if head.startswith(b"\x7fELF"):
        raise UsageError(f"run: {name} is no Python program; only those can be watched")
    if interpreter and "python" not in Path(interpreter).name and "pypy" not in Path(interpreter).name:
        raise UsageError(
            f"run: {name} is a program for {Path(interpreter).name}; in it, put `redline run` before the command "
            "that starts Python"
        )


def _refuse_foreign_script(path: str | None, *, typed: str) -> None:
    """Refuse a command whose own Python is another: it has what it imports there."""
    interpreter = _interpreter(_head(path)) if path else ""
    if interpreter:
        _refuse_foreign(interpreter, typed=typed)


def _refuse_foreign(python: str, *, typed: str) -> None:
    """Redline starts the Python that it is installed in; another one may not have what the script needs."""
    interpreter = shutil.which(python)
    if interpreter is None or Path(interpreter).parent == Path(sys.executable).parent:
        return
    try:
        asked = [interpreter, "-c", "import sys; print(sys.prefix)"]
        prefix = subprocess.check_output(asked, stderr=subprocess.DEVNULL, text=True, timeout=_ASKING_S).strip()
    except (OSError, subprocess.SubprocessError):
        return
    if prefix and Path(prefix).resolve() != Path(sys.prefix).resolve():
        raise UsageError(
            f"run: {interpreter} is not the Python that Redline is installed in ({sys.executable}); "
            f"install Redline there, or leave {typed} out"
        )
