"""Windows that are asked for while a job runs, as seen by two watchers that share nothing but a folder."""

from pathlib import Path

import pytest

from redline.capture.shared_state import BEGIN, FILLED, PID, REQUESTED, STEPS, SharedState
from redline.capture.supervisor.run_folder import Requests


@pytest.fixture
def shared_states() -> list[SharedState]:
    return [SharedState.make(1), SharedState.make(1)]


def watcher(folder: Path, shared: SharedState, steps: int, step_ns: int) -> Requests:
    slot = shared.claim(0)
    slot.words[PID], slot.words[STEPS], slot.words[FILLED] = 1, steps, 1
    slot.entries[0] = step_ns
    return Requests(folder, shared, lambda: [slot])


def asked(shared: SharedState) -> tuple[int, int]:
    return shared.job_words[REQUESTED], shared.job_words[BEGIN]


def test_one_takes_the_request_and_all_begin_at_the_same_step(tmp_path: Path, shared_states: list[SharedState]) -> None:
    first, second = (watcher(tmp_path, shared, 100, 250_000_000) for shared in shared_states)
    first.look()
    assert asked(shared_states[0]) == (0, 0)
    (tmp_path / "capture").touch()
    second.look()
    first.look()
    first.look()
    assert asked(shared_states[0]) == asked(shared_states[1]) == (1, 105)
    assert not (tmp_path / "capture").exists()
    first.ask()
    second.look()
    assert [asked(shared)[0] for shared in shared_states] == [2, 2]
    first.forget()
    assert list(tmp_path.iterdir()) == []


def test_a_request_that_is_being_written_is_taken_later(tmp_path: Path, shared_states: list[SharedState]) -> None:
    one = watcher(tmp_path, shared_states[0], 3, 0)
    (tmp_path / "capture-1").touch()
    one.look()
    assert asked(shared_states[0]) == (0, 0)
    (tmp_path / "capture-1").write_text("7\n")
    one.look()
    assert asked(shared_states[0]) == (1, 7)


def test_before_the_first_step_a_window_begins_soon(tmp_path: Path, shared_states: list[SharedState]) -> None:
    Requests(tmp_path, shared_states[0], list).ask()
    assert asked(shared_states[0]) == (1, 2)
    watcher(tmp_path / "gone", shared_states[1], 0, 0).ask()
    assert asked(shared_states[1]) == (0, 0)
