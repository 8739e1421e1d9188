"""What a host can do instead of launching is found in real recordings of it, under the names that torch gives it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redline.job.read_files import JobOptions
from redline.verbs.diagnose import diagnose

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAM = Path(__file__).parent / "programs" / "held_up.py"
EXPECTED = {"collector": {"RL-H09"}, "breaks": {"RL-H10"}, "recompiles": {"RL-H11"}, "nothing": set[str]()}


def test_each_cause_is_found_and_no_other(tmp_path: Path) -> None:
    environment = {**os.environ, "KINETO_LOG_LEVEL": "6"}
    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], check=True, timeout=180, env=environment)
    found = {}
    for cause in EXPECTED:
        diagnosed = diagnose([tmp_path / f"{cause}.json"], options=JobOptions(use_cache=False))
        found[cause] = {one.code for one in diagnosed.findings.findings} & set().union(*EXPECTED.values())
    assert found == EXPECTED
