"""The same function over many files; a worker that dies costs its file a second try, and other files nothing."""

import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from redline.errors import UnexpectedError, UsageError
from redline.job.executors import over_files as module
from redline.job.executors.executor import ExecutorChoice, WorkerDied
from redline.job.executors.over_files import FileScheduler, Pace, over_files
from redline.job.executors.process_pool import ProcessPool

TWO = ExecutorChoice(jobs=2)
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
    assert dict(over_files(shout, paths, ExecutorChoice(jobs=jobs))) == {0: "A", 1: "B", 2: "C", 3: "D", 4: "E"}


def test_no_files_are_no_work() -> None:
    assert list(over_files(shout, [], TWO)) == []


def test_little_work_is_done_here(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", "b"])
    assert set(dict(over_files(process_of, paths)).values()) == {os.getpid()}


def test_much_work_is_done_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_BYTES", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    paths = files(tmp_path, ["a", "b"])
    assert os.getpid() not in dict(over_files(process_of, paths)).values()


def test_a_bug_in_the_work_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        list(over_files(fail, files(tmp_path, ["a", "b"]), TWO))


def test_a_worker_that_is_killed_once_gets_its_file_again(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", KILL, "b"])
    work = partial(read_or_die, deaths=1, wait_s=0)
    assert dict(over_files(work, paths, TWO)) == {0: "a", 1: "survived", 2: "b"}


def test_a_worker_that_is_killed_twice_is_the_outcome_of_its_file(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", KILL])
    results = dict(over_files(partial(read_or_die, deaths=9, wait_s=0), paths, TWO))
    assert isinstance(results[1], WorkerDied)
    assert str(results[1]) == "was ended by SIGKILL"
    assert len((tmp_path / "1.tries").read_text()) == 2


def test_a_worker_that_is_killed_twice_costs_no_other_file(tmp_path: Path) -> None:
    paths = files(tmp_path, [KILL, "a", "b", "c", "d"])
    results = dict(over_files(partial(read_or_die, deaths=9, wait_s=0.3), paths, TWO))
    assert isinstance(results.pop(0), WorkerDied)
    assert results == {1: "a", 2: "b", 3: "c", 4: "d"}


def give_what_no_pipe_takes(path: Path) -> object:
    return (lambda: None) if path.read_text() == "odd" else path.read_text()


def leave(path: Path) -> str:
    text = path.read_text()
    if text == "exit":
        os._exit(3)
    if text == "leave":
        sys.exit("no more")
    return text


def test_a_result_that_no_pipe_takes_costs_its_file_and_says_why(tmp_path: Path) -> None:
    results = dict(over_files(give_what_no_pipe_takes, files(tmp_path, ["a", "odd", "b"]), TWO))
    odd = results.pop(1)
    assert isinstance(odd, UnexpectedError)
    assert "Redline failed on it: " in str(odd)
    assert "pickle" in str(odd)
    assert results == {0: "a", 2: "b"}


def test_a_worker_that_ends_says_how(tmp_path: Path) -> None:
    results = dict(over_files(leave, files(tmp_path, ["a", "exit", "leave", "b"]), TWO))
    assert str(results.pop(1)) == "ended with exit code 3"
    assert str(results.pop(2)) == "was ended by SystemExit: no more"
    assert results == {0: "a", 3: "b"}


def slow_the_first_time(path: Path, seconds: float) -> str:
    """A file of "slow" hangs whoever gets it first; each start leaves its process behind."""
    begun = path.with_suffix(f".{os.getpid()}.begun")
    begun.touch()
    if path.read_text() == "slow" and len(list(path.parent.glob(f"{path.stem}.*.begun"))) == 1:
        time.sleep(seconds)
    return path.read_text()


def test_a_straggler_is_started_again_and_the_first_to_finish_wins(tmp_path: Path) -> None:
    """If the second start did not win, this would take five minutes."""
    paths = files(tmp_path, ["slow", "a", "b", "c", "d"])
    pace = Pace(sizes_bytes=[0] * 5, floor_s=0.2, enough=3)
    begin_s = time.monotonic()
    with ProcessPool(partial(slow_the_first_time, seconds=300), 2) as pool:
        results = dict(FileScheduler(pool, paths, pace).outcomes())
    assert time.monotonic() - begin_s < 150
    assert results == {0: "slow", 1: "a", 2: "b", 3: "c", 4: "d"}
    starts = [int(path.suffixes[0][1:]) for path in tmp_path.glob("0.*.begun")]
    assert len(starts) == 2
    assert not any(Path(f"/proc/{process}").exists() for process in starts)


def test_no_task_is_a_straggler_by_its_size(tmp_path: Path) -> None:
    pace = Pace(sizes_bytes=[1_000_000, 1_000_000, 1_000_000, 100_000_000], floor_s=0)
    assert pace.patience_s(3) == float("inf")
    for index in range(3):
        pace.finished(index, 0.5)
    assert pace.patience_s(0) == pytest.approx(2.0)
    assert pace.patience_s(3) == pytest.approx(200.0)
    assert Pace(sizes_bytes=[1]).patience_s(0) == float("inf")


def test_workers_end_when_nobody_wants_more(tmp_path: Path) -> None:
    paths = files(tmp_path, ["a", "b", "c", "d"])
    outcomes = cast("Generator[tuple[int, object], None, None]", over_files(process_of, paths, TWO))
    with closing(outcomes):
        _, worker = next(outcomes)
    assert isinstance(worker, int)
    assert not Path(f"/proc/{worker}").exists()


def test_a_choice_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="is that of a Ray cluster, and goes with `executor=ray`"):
        ExecutorChoice(address="10.0.0.1:6379")
    with pytest.raises(UsageError, match="can be pool or ray, not 'dask'"):
        ExecutorChoice(name="dask")  # type: ignore[arg-type]
