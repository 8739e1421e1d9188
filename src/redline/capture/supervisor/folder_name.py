"""The folder of a run: its name, and what it holds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

from redline.capture.run_record import NAME
from redline.capture.supervisor.environment import Position
from redline.storage import path_of_this_machine

RUNS = Path("redline-runs")
CAPTURE = "capture"  # a file of this name asks for a window


def choose(script: str, where: Position | None, named: str | None, job: str | None = None) -> Path:
    """What the user named, or a new name; all watchers of a job choose the same one, as far as they can know."""
    if named is not None:
        return path_of_this_machine(named, "run: the folder of a run")
    stem = re.sub(r"[^\w.-]+", "-", Path(script).stem) or "run"
    if job is not None:
        return unused_folder(
            RUNS / f"{stem}-{re.sub(r'[^A-Za-z0-9.]+', '-', job)}", lambda path: (path / NAME).exists()
        )
    if where is None:
        return unused_folder(RUNS / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}", lambda path: path.exists())
    # The other processes may be here already; a record is there only once a run is over.
    return unused_folder(RUNS / f"{stem}-{where.launcher}-{where.job}", lambda path: (path / NAME).exists())


def unused_folder(path: Path, is_used: Callable[[Path], bool]) -> Path:
    """This one, or the first of PATH-2, PATH-3, ... that is not used."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(candidate for candidate in chain([path], others) if not is_used(candidate))
