"""Digests in a store: what `watch` and `lake add` say of them is what they say of files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from redline.errors import UsageError
from redline.verbs.lake import add_to_lake, ask_lake
from redline.verbs.watch import watch
from redline.watch.follow import Following
from redline.watch.job_monitor import WatchedWindow
from tests.support.made_windows import HEALTHY, write_windows

Put = Callable[[str, bytes], None]
ONCE = Following(once=True, grace_s=60)


@pytest.fixture
def run(tmp_path: Path, put: Put) -> Path:
    """Two windows of a job on this machine, and the same at faulty://job."""
    return written(tmp_path / "run", put, windows=2)


def written(run: Path, put: Put, *, windows: int) -> Path:
    write_windows(run / "digests", [HEALTHY] * windows)
    for path in run.rglob("*.digest"):
        put(f"faulty://job/{path.relative_to(run)}", path.read_bytes())
    return run


def test_watch_reads_windows_of_a_store(run: Path) -> None:
    here, there = (
        [window.figures.step_ns for window in watch([folder], following=ONCE) if isinstance(window, WatchedWindow)]
        for folder in (run, "faulty://job")
    )
    assert len(here) == 2
    assert there == here


def test_watch_sees_what_comes_to_a_store_later(run: Path, put: Put) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        for path in (run / "digests" / "window-2").iterdir():
            put(f"faulty://job/digests/window-3/{path.name}", path.read_bytes())

    following = Following(grace_s=60, sleep_s=sleep)
    names = []
    for window in watch(["faulty://job"], following=following):
        assert isinstance(window, WatchedWindow)
        names.append(window.figures.name.text)
        if len(names) == 3:
            break
    assert (names, len(pauses)) == (["window-1", "window-2", "window-3"], 1)


def test_a_lake_takes_digests_of_a_store(tmp_path: Path, put: Put) -> None:
    """Of one window: how long each of several stands for the job depends on when its files were written."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    run = written(tmp_path / "run", put, windows=1)
    add_to_lake([run], tmp_path / "here")
    add_to_lake(["faulty://job"], tmp_path / "there")
    here, there = (ask_lake(tmp_path / name, "accounts").answer for name in ("here", "there"))
    assert here.column("gpu_hours")
    assert list(there.column("gpu_hours")) == pytest.approx(list(here.column("gpu_hours")))
    with pytest.raises(UsageError, match="a lake is a folder of this machine or of a file system"):
        add_to_lake([run], "faulty://lake")
