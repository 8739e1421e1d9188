"""Memory timelines that torch exports: categories become accounts, and what is damaged is refused in a line."""

import gzip
import json
from pathlib import Path

import pytest

import redline
from redline.errors import InputError
from redline.ledger.accounts import MemoryAccount
from tests.support.real_traces import RealTraces

EXISTING, CREATED, CHANGED, DESTROYED = 1, 2, 3, 4
PARAMETER, ACTIVATION, GRADIENT, NONE = 0, 4, 5, 7
CHANGES = [
    [-1, EXISTING, 400, PARAMETER],
    [1000, CREATED, 300, ACTIVATION],
    [2000, CREATED, 50, NONE],
    [2500, CHANGED, -50, NONE],
    [2500, CHANGED, 50, GRADIENT],
    [3000, DESTROYED, -300, ACTIVATION],
]


def _written(path: Path, changes: object) -> Path:
    path.write_bytes(gzip.compress(json.dumps(changes).encode()))
    return path


def test_the_peak_of_a_timeline(tmp_path: Path) -> None:
    result = redline.memory(_written(tmp_path / "memory.raw.json.gz", CHANGES))
    peak = result.first.peak
    assert peak.live_bytes == 750
    assert peak.accounts[MemoryAccount.PARAMETERS] == 400
    assert peak.accounts[MemoryAccount.ACTIVATIONS] == 300
    assert peak.accounts[MemoryAccount.UNKNOWN] == 50
    assert result.first.course.accounts[MemoryAccount.GRADIENTS][-1] == 50
    assert "categories alone" in " ".join(result.text().split())
    assert "<polygon" in result.rendered("html")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([[1, CREATED, 10, 99]], "categories or sizes that torch does not write"),
        ([[1, CREATED, 1 << 60, NONE]], "categories or sizes that torch does not write"),
        ([[1, DESTROYED, -10, NONE]], "more is freed than there was"),
        ([[1, CREATED, "x", NONE]], "not a whole memory timeline"),
    ],
)
def test_a_damaged_timeline_is_refused(changes: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        redline.memory(_written(tmp_path / "memory.raw.json.gz", changes))


def test_a_cut_timeline_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text(json.dumps(CHANGES)[:-9])
    with pytest.raises(InputError, match="not a whole memory timeline"):
        redline.memory(tmp_path / "memory.json")


@pytest.mark.needs_traces
def test_a_real_timeline(traces: RealTraces) -> None:
    peak = redline.memory(traces / "hta_memory_timeline.raw.gz").first.peak
    assert sum(peak.accounts.values()) == peak.live_bytes > 0
    assert peak.accounts[MemoryAccount.UNKNOWN] < 0.5 * peak.live_bytes
