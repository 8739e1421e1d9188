"""How an adversarial script is run, bare and under `redline run`, and what of it must be the same."""

import ast
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.fault_cases import environment, redline_run
from tests.support.promises import TRAIN

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
    files: Mapping[str, str]
    """That it has written where it was started, with their checksums."""


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
    return Seen(
        ended.returncode,
        _masked(ended.stdout.replace(hidden, b"HERE")),
        _masked(ended.stderr.replace(hidden, b"HERE")),
        _written(script.parent, hidden),
    )


def _written(folder: Path, hidden: bytes) -> dict[str, str]:
    """Checksums of files; a script names the folder that it removes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes().replace(hidden, b"HERE")).hexdigest()
        for path in files
    }


def _path() -> str:
    """With the `python` that runs the tests first, as in an environment that is activated."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


_OF_CHANCE = (
    (rb"0x[0-9a-f]{8,}", b"0xN"),  # threads and objects
    (rb"\bpid[:= ]+\d+|\(pid \d+\)|pid\(s\) [\d, ]+", b"pid N"),
    (rb"(?m)^Failed to read process name for pid .*\n", b""),
    (rb"(?m)^(?:USDT|UST|INFO|STAGE|WARNING|ERROR):.*\.cpp:\d+\].*\n", b""),  # Kineto's own lines
)


def _masked(text: bytes) -> bytes:
    for pattern, instead in _OF_CHANCE:
        text = re.sub(pattern, instead, text)
    return text


def of_folder(folder: Path) -> dict[str, Attack]:
    """Scripts of a folder; `FOLDER.csv` beside it says how some of them are started."""
    with folder.with_suffix(".csv").open(newline="") as file:
        started = {row["job"]: json.loads(row["how_it_is_started"] or "{}") for row in csv.DictReader(file)}
    return {path.stem: _given(path.read_text(), started.get(path.stem, {})) for path in sorted(folder.glob("*.py"))}


def _given(text: str, how: Mapping[str, Any]) -> Attack:
    most_bytes = how.get("vmem")
    return Attack(
        text=text,
        python=tuple(how.get("pyargs", ())),
        files=how.get("nofile"),
        given=ast.literal_eval(how.get("stdin", "b''")).decode(),
        variables=how.get("env", {}),
        shell=f'ulimit -v {most_bytes // 1024} && exec "$@"' if most_bytes else 'exec "$@"',
    )


def differences(attack: Attack, folder: Path) -> list[str]:
    """What is not the same; nothing where all is."""
    bare, watched = run_bare(attack, folder / "bare"), run_watched(attack, folder / "watched")
    found = [
        f"{name}: {other!r} instead of {one!r}"
        for name in ("status", "stdout", "stderr", "files")
        if (one := getattr(bare, name)) != (other := getattr(watched, name))
    ]
    shutil.rmtree(folder)
    return found
