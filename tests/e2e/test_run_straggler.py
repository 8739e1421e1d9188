"""`redline run`, then `redline diagnose`, as a user does: a rank that is a fifth slower is named, its size and kind."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run_redline
from tests.support.running import PROGRAMS, REDLINE, finished

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

ATTEMPTS = 4  # other load on the machine delays a rank here and there


def diagnosed(folder: Path, part: str) -> tuple[dict[str, Any], float]:
    """What `diagnose` says of a run with a slow part, and by how much the part was really longer."""
    folder.mkdir()
    options = ["-q", "-o", "run", "--after", 3, "--nproc-per-node", 2, "--standalone"]
    ran = finished(folder, *REDLINE, *options, "--", PROGRAMS / "straggler.py", "--slow-part", part)
    assert ran.process.returncode == 0, ran.output
    said = run_redline("diagnose", "run", "--json", "-q", "--no-cache", cwd=folder)
    assert said.returncode == 0, said.stderr
    longer = re.search(r"longer: (\d+)", ran.output)
    assert longer is not None
    return json.loads(said.stdout), float(longer[1])


@pytest.mark.parametrize(
    "part", ["input", *(pytest.param(part, marks=pytest.mark.slow) for part in ("host", "compute"))]
)
def test_a_rank_that_is_a_fifth_slower_is_named(tmp_path: Path, part: str) -> None:
    for attempt in range(ATTEMPTS):
        found, longer_ns = diagnosed(tmp_path / str(attempt), part)
        late = found["lateness"]["ranks"][0]
        is_last = attempt == ATTEMPTS - 1
        named = (late["rank"], late["cause"]) == (1, part)
        sized = late["cause_ns"] == pytest.approx(longer_ns, rel=0.1)
        if (named and sized) or is_last:
            assert named, late
            assert sized, (late, longer_ns)
            assert "RL-N13" in {one["code"] for one in found["findings"]}
            return
