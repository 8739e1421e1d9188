"""Running a twin: one that does not end is ended, with all that it has started."""

import sys
import time
from pathlib import Path

import pytest

from bench.capture import CannotRunError, finished
from bench.cases import cases_in

HANGS = '''"""Starts itself once more in a session of its own, as torchrun does with ranks, and neither ends."""

import subprocess
import sys
import time

from bench.label import Label

LABEL = Label(cause="host/none", says=("none",))

if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "again"], start_new_session=True)
time.sleep(600)
'''


def test_a_job_that_does_not_end_is_ended_with_its_ranks(tmp_path: Path) -> None:
    """A rank that is left would hold on to the output, and the bench would wait for it."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "hangs.py").write_text(HANGS, encoding="utf-8")
    (case,) = cases_in(tmp_path)
    began = time.monotonic()
    with pytest.raises(CannotRunError, match="no end after 2 s"):
        finished([sys.executable, str(case.path)], case, 2.0)
    assert time.monotonic() - began < 300
