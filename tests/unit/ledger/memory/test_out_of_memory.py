"""Why an allocation failed: what was asked, what was free and of no use, and which changes would have made it fit."""

import os
from pathlib import Path

import pytest

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import memory_history
from redline.ledger.memory.attribution import attributed
from redline.ledger.memory.out_of_memory import FitChange, LogitsShape, OutOfMemory, out_of_memory
from redline.trace.snapshot.read_snapshot import read_snapshot
from tests.support.made_snapshots import MAIN, MIB, Frame, MadeAllocator

LOSS: Frame = ("cross_entropy", "/env/site-packages/torch/nn/functional.py", 3504)
FORWARD: Frame = ("forward", "/job/model.py", 12)
BATCH: Frame = ("next_batch", "/job/data.py", 3)
NEW: Frame = ("reset_parameters", "/job/model.py", 1)


def _failed(made: MadeAllocator, size: int, *frames: Frame) -> MadeAllocator:
    with pytest.raises(MemoryError):
        made.alloc(size, *frames)
    return made


def _explained(made: MadeAllocator, path: Path) -> OutOfMemory:
    history = memory_history(read_snapshot(made.write(path)), 0)
    return out_of_memory(attributed(history), history.ooms[-1])


def _fragmented() -> MadeAllocator:
    """100 MiB, of which every second 10 MiB are free, in pieces: 40 MiB in 4 holes and 0 at the driver."""
    made = MadeAllocator(device_bytes=100 * MIB)
    blocks = [made.alloc(10 * MIB, FORWARD, MAIN) for _block in range(10)]
    for block in blocks[1:9:2]:
        made.free(block, MAIN)
    return _failed(made, 30 * MIB, FORWARD, MAIN)


def test_holes_that_are_too_small_one_by_one(tmp_path: Path) -> None:
    found = _explained(_fragmented(), tmp_path / "a")
    assert (found.asked_bytes, found.driver_free_bytes, found.short_bytes) == (30 * MIB, 0, 30 * MIB)
    assert found.ledger.holes == (10 * MIB,) * 4
    assert found.in_pieces_bytes == 40 * MIB
    assert (found.site, found.account) == ("model.py:12 forward", MemoryAccount.ACTIVATIONS)
    assert [(change.change, change.saves_bytes, change.would_fit) for change in found.changes] == [
        (FitChange.EXPANDABLE_SEGMENTS, 40 * MIB, True),
        (FitChange.RECOMPUTE, 60 * MIB, True),
        (FitChange.SMALLER_BATCH, 45 * MIB, True),
    ]


def test_pieces_of_less_than_a_page_are_of_no_use_to_anybody(tmp_path: Path) -> None:
    made = MadeAllocator(device_bytes=20 * MIB)
    blocks = [made.alloc(MIB, FORWARD, MAIN) for _block in range(20)]
    for block in blocks[::2]:
        made.free(block, MAIN)
    found = _explained(_failed(made, 5 * MIB, FORWARD, MAIN), tmp_path / "a")
    assert sum(found.ledger.holes) == 10 * MIB
    assert found.in_pieces_bytes == 0
    assert FitChange.EXPANDABLE_SEGMENTS not in [change.change for change in found.changes]


def test_a_change_that_saves_too_little_is_said_to(tmp_path: Path) -> None:
    made = MadeAllocator(device_bytes=100 * MIB)
    made.alloc(80 * MIB, NEW, MAIN)
    made.alloc(10 * MIB, FORWARD, MAIN)
    found = _explained(_failed(made, 50 * MIB, NEW, MAIN), tmp_path / "a")
    assert [(change.change, change.would_fit) for change in found.changes] == [
        (FitChange.RECOMPUTE, False),
        (FitChange.SMALLER_BATCH, False),
    ]


def _logits(*, norm_bytes: int) -> MadeAllocator:
    """4,096 tokens, 10,000 words, 256 wide, in 32 bits: the second copy fails."""
    made = MadeAllocator(device_bytes=400 * MIB)
    made.alloc(4096 * 8, BATCH, MAIN)
    made.alloc(10_000 * 256 * 4, NEW, MAIN)
    made.alloc(norm_bytes, NEW, MAIN)
    made.alloc(4096 * 10_000 * 4, LOSS, MAIN)
    made.alloc(4096 * 10_000 * 2, FORWARD, MAIN)
    return _failed(made, 4096 * 10_000 * 4, LOSS, MAIN)


def test_logits_are_told_by_the_arithmetic_of_sizes(tmp_path: Path) -> None:
    found = _explained(_logits(norm_bytes=256 * 4), tmp_path / "a")
    assert found.shape == LogitsShape(tokens=4096, vocabulary=10_000, element_bytes=4)
    assert found.ledger.accounts[MemoryAccount.LOGITS] == 4096 * 10_000 * 6  # with those in 16 bits, of the same shape
    saves = {change.change: change.saves_bytes for change in found.changes}
    assert saves[FitChange.CHUNKED_LOSS] == 4096 * 10_000 * 10


def test_no_shape_is_guessed_where_no_weight_proves_it(tmp_path: Path) -> None:
    assert _explained(_logits(norm_bytes=250 * 4), tmp_path / "a").shape is None


@pytest.mark.needs_traces
@pytest.mark.parametrize("rank", range(4))
def test_the_failure_of_real_snapshots(rank: int) -> None:
    name = f"a100_torchtitan_fsdp_rank{rank}_memory_snapshot.pickle.gz"
    path = Path(os.environ.get("REDLINE_TRACES", "/nonexistent")) / name
    if not path.exists():
        pytest.skip(f"{name} is not in REDLINE_TRACES")
    history = memory_history(read_snapshot(path), rank)
    found = out_of_memory(attributed(history), history.ooms[-1])
    assert found.asked_bytes == found.needed_bytes == 8192 * 128_256 * 4
    assert found.shape == LogitsShape(tokens=8192, vocabulary=128_256, element_bytes=4)
    assert found.site == "loss.py:21 cross_entropy_loss"
    assert (found.driver_free_bytes, found.short_bytes) == (4_028_760_064, 173_932_544)  # 3.752 and 0.162 GiB
    assert found.ledger.holes[0] < found.short_bytes  # no single hole would do
    assert found.changes[0].change is FitChange.EXPANDABLE_SEGMENTS
    assert all(change.would_fit for change in found.changes)
