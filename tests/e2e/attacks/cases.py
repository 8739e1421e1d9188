"""How an adversarial script is run, bare and under `redline run`, and what of it must be the same."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.fault_cases import environment, redline_run
from tests.e2e.test_run_promises import TRAIN

SECONDS = 300
LOOP = "for number in range(25):\n    print(train(), flush=True)\n"
OUTPUT = "FOLDER_OF_THE_RUN"  # in a script: where Redline puts its files, which the script has no business with


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A script that is hard on whoever watches it."""

    text: str
    python: tuple[str, ...] = ()
    """Options of Python."""
    files: int | None = None
    """That a process may have open, by `ulimit -n`."""
    given: str = ""
    """On stdin."""
    variables: Mapping[str, str] = field(default_factory=dict)
    shell: str = 'exec "$@"'
    """What starts the command."""


def trains(text: str = LOOP, **how: object) -> Attack:
    """A script that begins with a tiny model, its optimizer, and `train()` for a step, which returns the loss."""
    return Attack(text=TRAIN + text, **how)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Seen:
    """All that a user sees of a job; losses are among its output."""

    status: int
    stdout: bytes
    stderr: bytes


def run_bare(attack: Attack, folder: Path) -> Seen:
    return _run(attack, [sys.executable, *attack.python], folder)


def run_watched(attack: Attack, folder: Path) -> Seen:
    python = ("python", *attack.python) if attack.python else ()
    return _run(attack, [*redline_run(folder / "run"), "--", *python], folder)


def _run(attack: Attack, command: Sequence[str], folder: Path) -> Seen:
    """From a folder of the same name each time: it is in tracebacks."""
    (folder / "job").mkdir(parents=True)
    script = folder / "job" / "script.py"
    script.write_text(attack.text.replace(OUTPUT, str(folder / "run")))
    limit = f"ulimit -n {attack.files} && " if attack.files else ""
    words = ["bash", "-c", limit + attack.shell, "bash", *command, script.name]
    with tempfile.TemporaryDirectory(prefix="f-") as temporary:
        known = environment(Path(temporary), "attack") | {"PATH": _path(), **attack.variables}
        ended = subprocess.run(
            words, cwd=script.parent, env=known, input=attack.given.encode(), capture_output=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    hidden = str(folder).encode()
    return Seen(ended.returncode, ended.stdout.replace(hidden, b"HERE"), _masked(ended.stderr.replace(hidden, b"HERE")))


def _path() -> str:
    """With the `python` that runs the tests first, as in an environment that is activated."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


_OF_CHANCE = (
    (rb"0x[0-9a-f]{8,}", b"0xN"),  # threads and objects
    (rb"\bpid[:= ]+\d+|\(pid \d+\)|pid\(s\) [\d, ]+", b"pid N"),
    (rb"(?m)^(?:USDT|UST|INFO|STAGE|WARNING|ERROR):.*\.cpp:\d+\].*\n", b""),  # Kineto's own lines
)


def _masked(text: bytes) -> bytes:
    for pattern, instead in _OF_CHANCE:
        text = re.sub(pattern, instead, text)
    return text


def differences(attack: Attack, folder: Path) -> list[str]:
    """What is not the same; nothing where all is."""
    bare, watched = run_bare(attack, folder / "bare"), run_watched(attack, folder / "watched")
    found = [
        f"{name}: {other!r} instead of {one!r}"
        for name in ("status", "stdout", "stderr")
        if (one := getattr(bare, name)) != (other := getattr(watched, name))
    ]
    shutil.rmtree(folder)
    return found
