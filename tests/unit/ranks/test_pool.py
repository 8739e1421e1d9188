"""The same function over many files; a worker that dies costs its file a second try, and other files nothing."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from redline.ranks import pool
from redline.ranks.pool import WorkerDied, over_files

KILL = "kill"  # a file of this content kills its worker; each time one letter is taken from it


def files(folder: Path, contents: list[str]) -> list[Path]:
    paths = [folder / f"{number}.txt" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    return paths


def shout(path: Path) -> str:
    return path.read_text().upper()


def read_or_die(path: Path, deaths: int, wait_s: float) -> str:
    """Kills its own process the first `deaths` times that it is given a file of "kill"; others take a while."""
    if path.read_text() != KILL:
        time.sleep(wait_s)
        return path.read_text()
    tries = path.with_suffix(".tries")
    tried = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (tried + 1))
    if tried < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def process_of(_: Path) -> int:
    return os.getpid()


def fail(path: Path) -> str:
    raise ZeroDivisionError(path.name)


@pytest.mark.parametrize("jobs", [None, 1, 2])
def test_every_file_has_its_result(tmp_path: Path, jobs: int | None) -> None:
    paths = files(tmp_path, ["a", "b", "c", "d", "e"])
    assert dict(over_files(shout, paths, jobs)) == {0: "A", 1: "B", 2: "C", 3: "D", 4: "E"}


def test_no_files_are_no_work() -> None:
    assert list(over_files(shout, [], 2)) == []


def test_little_work_is_done_here(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", "b"])
    assert set(dict(over_files(process_of, paths)).values()) == {os.getpid()}


def test_much_work_is_done_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORTH_BYTES", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    paths = files(tmp_path, ["a", "b"])
    assert os.getpid() not in dict(over_files(process_of, paths)).values()


def test_a_bug_in_the_work_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        list(over_files(fail, files(tmp_path, ["a", "b"]), 2))


def test_a_worker_that_is_killed_once_gets_its_file_again(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", KILL, "b"])
    work = partial(read_or_die, deaths=1, wait_s=0)
    assert dict(over_files(work, paths, 2)) == {0: "a", 1: "survived", 2: "b"}


def test_a_worker_that_is_killed_twice_is_the_outcome_of_its_file(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", KILL])
    results = dict(over_files(partial(read_or_die, deaths=9, wait_s=0), paths, 2))
    assert isinstance(results[1], WorkerDied)
    assert len((tmp_path / "1.tries").read_text()) == 2


def test_a_worker_that_is_killed_twice_costs_no_other_file(tmp_path: Path) -> None:
    paths = files(tmp_path, [KILL, "a", "b", "c", "d"])
    results = dict(over_files(partial(read_or_die, deaths=9, wait_s=0.3), paths, 2))
    assert isinstance(results.pop(0), WorkerDied)
    assert results == {1: "a", 2: "b", 3: "c", 4: "d"}
