"""A job that is well tuned is left in peace: no finding is worth more than a twentieth of its step."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redline.job.read_files import JobOptions
from redline.verbs.diagnose import diagnose

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAM = Path(__file__).parent / "programs" / "tuned.py"


def test_a_tuned_job_has_no_finding_of_weight(tmp_path: Path) -> None:
    trace = tmp_path / "tuned.json"
    environment = {**os.environ, "KINETO_LOG_LEVEL": "6"}
    subprocess.run([sys.executable, str(PROGRAM), str(trace)], check=True, timeout=180, env=environment)
    found = diagnose([trace], options=JobOptions(use_cache=False))
    verdict = found.findings.verdict
    assert not verdict.worthwhile
    assert (verdict.healthy, verdict.rated_share) == (False, 0)  # without a profile of the machine, nothing is rated
    assert [(one.code, one.share) for one in found.findings.findings if one.share > 0.05] == []
