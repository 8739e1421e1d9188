"""The data-loader baseline: what it counts, and that neither processes nor shared memory are left, whatever fails."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest
import torch

from redline.calibration import loader
from redline.calibration.device import ProbeDevice

_BATCH_BYTES = 64 * 3 * 224 * 224


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    before = _shared_memory()
    yield
    assert multiprocessing.active_children() == []
    assert _shared_memory() <= before


def _shared_memory() -> set[str]:
    """Of this process and its workers: others use the machine too."""
    return {path.name for path in Path("/dev/shm").glob(f"torch_{os.getpid()}_*")}


def _fail_in_workers(monkeypatch: pytest.MonkeyPatch, fail: object) -> None:
    class Items(loader._Items):
        def __getitem__(self, number: int) -> torch.Tensor:
            if torch.utils.data.get_worker_info() is not None:
                assert callable(fail)
                fail()
            return super().__getitem__(number)

    monkeypatch.setattr(loader, "_Items", Items)


def _no_memory() -> None:
    raise RuntimeError("unable to allocate shared memory")


class TestPoints:
    def test_batches_are_timed_with_and_without_a_worker(self) -> None:
        points, declined = loader.loader_points(ProbeDevice("cpu"), quick=True, noise=0.05)
        assert [(point.workers, point.pinned, point.batch_bytes) for point in points] == [
            (0, False, _BATCH_BYTES),
            (1, False, _BATCH_BYTES),
        ]
        assert declined == ()
        assert all(point.batch_time_ns.low < point.batch_time_ns.high for point in points)

    @pytest.mark.slow
    def test_there_are_no_more_workers_than_processors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
        points, _ = loader.loader_points(ProbeDevice("cpu"), quick=False, noise=0.0)
        assert [point.workers for point in points] == [0, 1]

    def test_a_batch_is_as_large_as_is_said(self) -> None:
        batch = next(iter(loader._loader(0, ProbeDevice("cpu"), 1)))
        assert batch.nbytes == _BATCH_BYTES


class TestFailures:
    @pytest.mark.slow
    def test_workers_that_fail_are_declined_and_the_rest_is_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _fail_in_workers(monkeypatch, _no_memory)
        points, declined = loader.loader_points(ProbeDevice("cpu"), quick=True, noise=0.0)
        assert [point.workers for point in points] == [0]
        assert [(one.what, one.why) for one in declined] == [
            ("data loader with 1 worker", "RuntimeError: unable to allocate shared memory")
        ]

    def test_so_are_workers_that_die(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _fail_in_workers(monkeypatch, lambda: os._exit(1))
        _, declined = loader.loader_points(ProbeDevice("cpu"), quick=True, noise=0.0)
        assert len(declined) == 1
        assert "exited unexpectedly" in declined[0].why

    @pytest.mark.slow
    def test_and_workers_that_do_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loader, "_TIMEOUT_S", 1)
        _fail_in_workers(monkeypatch, lambda: time.sleep(60))
        _, declined = loader.loader_points(ProbeDevice("cpu"), quick=True, noise=0.0)
        assert [one.why for one in declined] == ["DataLoader timed out after 1 seconds"]
