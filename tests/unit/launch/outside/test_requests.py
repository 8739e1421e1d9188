"""Windows that are asked for while a job runs, as seen by two watchers that share nothing but a folder."""

from pathlib import Path

import pytest

from redline.launch.outside.requests import Requests
from redline.launch.shared_state import BEGIN, FILLED, PID, REQUESTED, STEPS, SharedState


@pytest.fixture
def boards() -> list[SharedState]:
    return [SharedState.make(1), SharedState.make(1)]


def watcher(folder: Path, board: SharedState, steps: int, step_ns: int) -> Requests:
    slot = board.claim(0)
    slot.words[PID], slot.words[STEPS], slot.words[FILLED] = 1, steps, 1
    slot.entries[0] = step_ns
    return Requests(folder, board, lambda: [slot])


def asked(board: SharedState) -> tuple[int, int]:
    return board.shared[REQUESTED], board.shared[BEGIN]


def test_one_takes_the_request_and_all_begin_at_the_same_step(tmp_path: Path, boards: list[SharedState]) -> None:
    first, second = (watcher(tmp_path, board, 100, 250_000_000) for board in boards)
    first.look()
    assert asked(boards[0]) == (0, 0)
    (tmp_path / "capture").touch()
    second.look()
    first.look()
    first.look()
    assert asked(boards[0]) == asked(boards[1]) == (1, 105)
    assert not (tmp_path / "capture").exists()
    first.ask()
    second.look()
    assert [asked(board)[0] for board in boards] == [2, 2]
    first.forget()
    assert list(tmp_path.iterdir()) == []


def test_a_request_that_is_being_written_is_taken_later(tmp_path: Path, boards: list[SharedState]) -> None:
    one = watcher(tmp_path, boards[0], 3, 0)
    (tmp_path / "capture-1").touch()
    one.look()
    assert asked(boards[0]) == (0, 0)
    (tmp_path / "capture-1").write_text("7\n")
    one.look()
    assert asked(boards[0]) == (1, 7)


def test_before_the_first_step_a_window_begins_soon(tmp_path: Path, boards: list[SharedState]) -> None:
    Requests(tmp_path, boards[0], list).ask()
    assert asked(boards[0]) == (1, 2)
    watcher(tmp_path / "gone", boards[1], 0, 0).ask()
    assert asked(boards[1]) == (0, 0)
