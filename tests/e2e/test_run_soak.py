"""A short sample of `scripts/soak_run.py`: many windows in one process leave no memory, files or threads behind."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT
from tests.support.running import finished

WINDOWS = 80
LARGEST_SLOPE_BYTES = 16 << 10  # so few windows are mostly warm-up; a trace that is kept would be far more

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def test_many_windows_leave_nothing_behind(tmp_path: Path) -> None:
    script = [ROOT / "scripts" / "soak_run.py", "--windows", WINDOWS, "--every", 10, "--no-bare"]
    soak = finished(tmp_path, sys.executable, *script, "--folder", tmp_path)
    assert soak.process.returncode in (0, 1), soak.output
    figures = json.loads(soak.output)["redline run"]
    assert figures["windows"] == WINDOWS
    assert figures["resident_bytes_per_window"] < LARGEST_SLOPE_BYTES
    assert figures["files"][0] == figures["files"][1]
    assert figures["threads"][0] == figures["threads"][1]
    kept = sorted(path.name for path in (tmp_path / "run").glob("window-*"))
    assert len(kept) == 4, "of windows that are not kept, no folder is left either"
