"""The command line, run as a user does."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import redline
from tests.support.forked import Forked

ROOT = Path(__file__).parents[2]
REDLINE = [sys.executable, "-m", "redline"]


def environment() -> dict[str, str]:
    """That of a process which finds this very package from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(redline.__file__).parents[1])}


def run_redline(
    *arguments: str | Path, cwd: Path | None = None, told: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which has imported Redline already; pages and others start `REDLINE` anew.

    `told` is added to its environment.
    """
    words = [*map(str, arguments)]
    answer = forked().run(words, cwd or Path.cwd(), told)
    return subprocess.CompletedProcess([*REDLINE, *words], answer.exit_code, answer.output, answer.errors)


@cache
def forked() -> Forked:
    """One for all tests of this process."""
    scratch = Path(tempfile.mkdtemp(prefix="redline-commands-"))
    atexit.register(shutil.rmtree, scratch)
    forked = Forked(Path(redline.__file__).parents[1], scratch)
    atexit.register(forked.close)
    return forked
