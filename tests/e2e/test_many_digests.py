"""What the job's half of `diagnose` takes for each rank, measured with ranks of which no two are alike."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from redline.findings.aggregate import findings_of
from redline.ledger.job.combine import combine
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest_file import decoded, encoded
from tests.support.made_digests import distinct_digests, write_distinct

MOST_BYTES_PER_RANK = 60_000  # with so few ranks, what is made on the way counts as well
NOT_FOR_TEXT = ("jinja2", "plotly", "markdown_it", "multiprocessing", "numpy.random", "redline.ledger.rank.step_view")


@pytest.mark.slow
def test_memory_per_rank_is_small_and_does_not_grow() -> None:
    """Measured at 65 and 260 ranks; before ranks were held as columns it was more than 100 KB."""
    files = [encoded(digest, "a test") for digest in distinct_digests(260, simulated=16)]
    _peak_bytes(files[:8])  # what is made once
    few, many = (_peak_bytes(files[:count]) / count for count in (65, 260))
    assert many <= MOST_BYTES_PER_RANK
    assert many <= 1.15 * few


def _peak_bytes(files: list[bytes]) -> int:
    """Of loading digests, combining them, and looking for findings."""
    tracemalloc.start()
    diagnosis = combine([decoded(data, "here") for data in files])
    findings_of(diagnosis, outline_of(diagnosis))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(set(diagnosis.kinds)) == len(files)
    return peak


@pytest.mark.slow
def test_16384_digests_take_at_most_700_mb(tmp_path: Path) -> None:
    write_distinct(tmp_path / "digests", 16_384)
    code = "import sys; from redline.cli import main; sys.exit(main(['diagnose', sys.argv[1]]))"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "digests")], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert usage.ru_maxrss * 1024 <= 700_000_000


def test_the_verb_imports_nothing_that_only_some_commands_need() -> None:
    code = f"import sys, redline.verbs.diagnose; print([name for name in {NOT_FOR_TEXT} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
