"""The snapshot of an accelerator's memory is whole or absent. CUDA itself is not here: something else writes it."""

from pathlib import Path

import pytest

from redline.capture.process import peak_bytes
from redline.capture.settings import Settings
from redline.capture.shared_state import SharedState
from redline.capture.worker.process_context import ProcessContext

torch = pytest.importorskip("torch")


def snapshot_of(folder: Path | None, disk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> str:
    from redline.capture.worker.memory import dump_snapshot

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda path: Path(path).write_bytes(b"blocks"))
    shared = SharedState.make(1)
    known = {"folder": str(folder or ""), "rank": 3, "disk_bytes": disk_bytes, "free_bytes": 0}
    return dump_snapshot(ProcessContext(shared, 0, shared.claim(0), Settings(known)))


def test_a_snapshot_has_the_name_of_its_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert snapshot_of(tmp_path, 1 << 20, monkeypatch) == "memory-rank-3.pickle"
    assert [path.name for path in tmp_path.iterdir()] == ["memory-rank-3.pickle"]
    assert (tmp_path / "memory-rank-3.pickle").read_bytes() == b"blocks"


def test_there_is_none_without_a_folder_or_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert snapshot_of(None, 1 << 20, monkeypatch) == ""
    assert snapshot_of(tmp_path, 0, monkeypatch) == ""
    assert not list(tmp_path.iterdir())


def test_the_history_of_the_allocator_waits_until_cuda_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from redline.capture.worker.memory import record_history

    asked: list[dict[str, object]] = []
    monkeypatch.setattr(torch.cuda, "_queued_calls", [])
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **how: asked.append(how))
    record_history()
    assert asked == []
    ((begin, _),) = torch.cuda._queued_calls
    begin()
    assert asked == [{"stacks": "python", "max_entries": 100_000}]


def test_a_history_that_cannot_be_recorded_costs_the_job_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from redline.capture.worker.memory import record_history

    def fails(**_: object) -> None:
        raise RuntimeError("no such allocator")

    monkeypatch.setattr(torch.cuda, "_queued_calls", [])
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", fails)
    record_history()
    torch.cuda._queued_calls[0][0]()


def test_a_trial_is_told_of_the_memory_that_runs_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from redline.capture.worker import memory

    assert memory.most_bytes() == peak_bytes() > 0
    monkeypatch.setattr(memory, "uses_cuda", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"reserved_bytes.all.peak": 5 << 30})
    assert memory.most_bytes() == 5 << 30
