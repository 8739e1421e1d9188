"""The command line, run as a user does."""

import os
import subprocess
import sys
from pathlib import Path

import redline

ROOT = Path(__file__).parents[2]
REDLINE = [sys.executable, "-m", "redline"]


def environment() -> dict[str, str]:
    """That of a process which finds this very package from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(redline.__file__).parents[1])}


def run_redline(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REDLINE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        cwd=cwd,
        env=environment(),
    )
