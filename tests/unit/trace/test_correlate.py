"""Which call launched which kernel, by correlation id."""

from pathlib import Path

import pytest

from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from tests.support.events import document, kernel, launch, ledger_of, names_of, read_one


def launched_by(timeline: Timeline) -> dict[str, str]:
    """For each kernel the name of the call that launched it, "" for none."""
    names = names_of(timeline)
    work = timeline.device_work
    return {
        names[row]: names[call] if call >= 0 else ""
        for row, call in zip(work.row.tolist(), work.launch.tolist(), strict=True)
    }


def test_kernels_find_their_launch_by_id_in_whatever_order(tmp_path: Path) -> None:
    events = [
        kernel("k2", 20, 5, correlation=2),
        launch(1, correlation=2, name="launch 2"),
        launch(3, correlation=1, name="launch 1"),
        kernel("k1", 30, 5, correlation=1),
        kernel("copy", 40, 5, correlation=3, category="gpu_memcpy"),
        launch(5, correlation=3, name="cudaMemcpyAsync"),
    ]
    timeline = read_one(document(events), tmp_path)
    assert launched_by(timeline) == {"k2": "launch 2", "k1": "launch 1", "copy": "cudaMemcpyAsync"}
    assert ledger_of(timeline) == {}


def test_one_launch_of_a_graph_starts_many_kernels(tmp_path: Path) -> None:
    events = [
        launch(0, correlation=9, name="cudaGraphLaunch"),
        *(kernel(f"k{number}", 10 + 10 * number, 5, correlation=9) for number in range(5)),
    ]
    timeline = read_one(document(events), tmp_path)
    assert set(launched_by(timeline).values()) == {"cudaGraphLaunch"}
    assert ledger_of(timeline) == {}


def test_of_calls_that_share_an_id_the_latest_before_the_kernel_is_meant(tmp_path: Path) -> None:
    events = [
        launch(0, correlation=5, name="first"),
        kernel("a", 10, 5, correlation=5),
        launch(20, correlation=5, name="second"),
        kernel("b", 30, 5, correlation=5),
        launch(40, correlation=5, name="third"),
        kernel("c", 50, 5, correlation=5),
    ]
    timeline = read_one(document(events), tmp_path)
    assert launched_by(timeline) == {"a": "first", "b": "second", "c": "third"}
    assert ledger_of(timeline) == {Reason.REUSED_CORRELATION: 1}


def test_a_kernel_before_all_of_them_takes_the_first(tmp_path: Path) -> None:
    events = [
        kernel("early", 0, 5, correlation=5),
        launch(20, correlation=5, name="first"),
        launch(40, correlation=5, name="second"),
    ]
    timeline = read_one(document(events), tmp_path)
    assert launched_by(timeline) == {"early": "first"}
    assert ledger_of(timeline) == {Reason.REUSED_CORRELATION: 1, Reason.KERNEL_BEFORE_LAUNCH: 1}


@pytest.mark.parametrize("correlation", [0, -1, -7])
def test_no_id_is_no_link(tmp_path: Path, correlation: int) -> None:
    events = [launch(0, correlation=correlation), kernel("k", 10, 5, correlation=correlation)]
    timeline = read_one(document(events), tmp_path)
    assert launched_by(timeline) == {"k": ""}
    assert ledger_of(timeline) == {Reason.NO_CORRELATION: 1}


def test_an_id_that_no_call_has_is_no_link(tmp_path: Path) -> None:
    timeline = read_one(document([launch(0, correlation=4), kernel("k", 10, 5, correlation=5)]), tmp_path)
    assert launched_by(timeline) == {"k": ""}


def test_a_kernel_that_begins_before_its_launch_is_kept_and_noted(tmp_path: Path) -> None:
    timeline = read_one(document([launch(10, correlation=5), kernel("k", 8, 5, correlation=5)]), tmp_path)
    assert launched_by(timeline) == {"k": "cudaLaunchKernel"}
    assert ledger_of(timeline) == {Reason.KERNEL_BEFORE_LAUNCH: 1}


@pytest.mark.parametrize("count", [0, 3])
def test_kernels_without_any_call_in_the_trace(tmp_path: Path, count: int) -> None:
    events = [kernel(f"k{number}", 10 * number, 5, correlation=number + 1) for number in range(count)]
    timeline = read_one(document(events), tmp_path)
    assert set(launched_by(timeline).values()) == ({""} if count else set())
