"""The folder of real traces."""

import os
from pathlib import Path

import pytest


class RealTraces:
    """Published traces that cannot be redistributed. Without one, what needs it is skipped, by the name of the file."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None

    def __contains__(self, name: str) -> bool:
        return self._folder is not None and (self._folder / name).exists()

    def __truediv__(self, name: str) -> Path:
        if self._folder is None or name not in self:
            pytest.skip(f"no real trace {name}: set REDLINE_TRACES to the folder that holds it")
        return self._folder / name

    def names(self, pattern: str) -> list[str]:
        """The names of those that match. Without any it is the pattern, so that a test is skipped by that name."""
        found = sorted(self._folder.glob(pattern)) if self._folder is not None else []
        return [str(path.relative_to(self._folder or "")) for path in found] or [pattern]


REAL_TRACES = RealTraces(os.environ.get("REDLINE_TRACES"))
