"""The shared memory: slots that do not touch each other, facts that are whole or absent, windows in order."""

import json
import os

import pytest

from redline.capture import shared_state as at
from redline.capture.settings import Settings
from redline.capture.shared_state import FACTS_BYTES, WINDOWS, SharedState
from redline.capture.supervisor.rank_records import rank_record
from redline.capture.supervisor.supervise import facts_of


@pytest.fixture
def shared() -> SharedState:
    return SharedState.make(3)


def test_another_process_sees_what_was_written(shared: SharedState) -> None:
    child = os.fork()
    if child == 0:
        other = SharedState.open(shared.path, 3).claim(1)
        other.words[at.STEPS] = 42
        other.write_facts(b'{"host": "here"}')
        os._exit(0)
    os.waitpid(child, 0)
    assert shared.slot(1).words[at.STEPS] == 42
    assert shared.slot(1).read_facts() == b'{"host": "here"}'
    assert shared.slot(0).words[at.STEPS] == shared.slot(2).words[at.STEPS] == 0


def test_slots_do_not_overlap(shared: SharedState) -> None:
    slots = [shared.claim(number) for number in range(3)]
    for number, slot in enumerate(slots, start=1):
        slot.words[at.RESTART] = slot.entries[0] = number
        for window in range(1, WINDOWS + 1):
            slot.new_window(window)[at.FIRST_STEP] = number
        slot.write_facts(b"x" * FACTS_BYTES)
    for number, slot in enumerate(slots, start=1):
        assert slot.words[at.RESTART] == slot.entries[0] == number
        assert {window[at.FIRST_STEP] for window in slot.windows()} == {number}


def test_facts_that_are_too_large_leave_the_former_ones(shared: SharedState) -> None:
    slot = shared.claim(0)
    slot.write_facts(b"{}")
    slot.write_facts(b"x" * (FACTS_BYTES + 1))
    assert slot.read_facts() == b"{}"


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff"])
def test_facts_that_are_no_facts(shared: SharedState, text: bytes) -> None:
    slot = shared.claim(0)
    slot.write_facts(text)
    assert facts_of(slot) == {}


def test_the_newest_windows_are_kept_in_order(shared: SharedState) -> None:
    slot = shared.claim(0)
    for number in range(1, WINDOWS + 11):
        slot.new_window(number)[at.STATE] = at.WRITTEN
    assert [window[at.NUMBER] for window in slot.windows()] == list(range(11, WINDOWS + 11))


def test_numbers_of_windows_may_leave_gaps(shared: SharedState) -> None:
    slot = shared.claim(0)
    for number in (3, 3 + WINDOWS, 3 + 2 * WINDOWS):
        slot.new_window(number)[at.FIRST_STEP] = 10 * number
    assert [slot.window(number)[at.FIRST_STEP] for number in (3, 3 + WINDOWS, 4)] == [30, 30 + 10 * WINDOWS, 0]
    slot.window(3)[at.NUMBER] = 0
    assert [window[at.NUMBER] for window in slot.windows()] == [3 + WINDOWS, 3 + 2 * WINDOWS]


def test_settings_go_through_the_environment() -> None:
    told = Settings({"after": 3, "when": "step_time>1s", "stacks": True})
    heard = Settings.from_text(told.to_text())
    assert (heard.after, heard.when, heard.stacks, heard.steps) == (3, "step_time>1s", True, 3)


# --- from the board to the record -------------------------------------------------------------------------------------


def made(shared: SharedState, lengths_ns: list[int]) -> at.ProcessSlot:
    slot = shared.claim(0)
    slot.words[at.PID] = 7
    slot.words[at.KIND] = at.BY_OPTIMIZER
    slot.words[at.STEPS] = slot.words[at.FILLED] = len(lengths_ns)
    for number, length_ns in enumerate(lengths_ns):
        slot.entries[2 * number], slot.entries[2 * number + 1] = length_ns, length_ns // 10
    return slot


def test_a_record_leaves_out_first_and_captured_steps(shared: SharedState) -> None:
    slot = made(shared, [0, 9000, 9000, 9000, *[100] * 6, *[500] * 5, *[100] * 10])
    window = slot.new_window(1)
    window[at.STATE] = at.WRITTEN
    window[at.FIRST_STEP], window[at.CAPTURED_STEPS] = 12, 3
    window[at.FROM_NS], window[at.TO_NS] = 1000, 2500
    slot.write_facts(json.dumps({"host": "h", "notes": [{"code": "budget"}], "model": {}}).encode())
    record = rank_record(slot)
    assert (record.step_ns, record.step_p10_ns, record.step_p90_ns, record.slowest_ns) == (100, 100, 100, 100)
    assert (record.step_mean_ns, record.step_wait_ns) == (100, 10)
    assert record.windows[0].slowdown == 5.0
    assert record.windows[0].path == "window-1/rank-0.trace.json.gz"
    assert (record.host, record.notes, record.facts) == ("h", ({"code": "budget"},), {"model": {}})


def test_a_record_of_a_process_that_did_nothing(shared: SharedState) -> None:
    record = rank_record(made(shared, []))
    assert (record.steps, record.step_ns, record.step_mean_ns, record.windows, record.finished) == (
        0,
        None,
        None,
        (),
        False,
    )


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (at.EXPORTING, "killed"),
        (at.WRITTEN, "written"),
        (at.LOST_SPACE, "no space"),
        (at.LOST_INCOMPLETE, "incomplete"),
        (at.LOST_ERROR, "failed"),
        (at.LOST_KILLED, "killed"),
    ],
)
def test_what_became_of_a_window(shared: SharedState, state: int, word: str) -> None:
    slot = made(shared, [])
    slot.new_window(1)[at.STATE] = state
    (window,) = rank_record(slot).windows
    assert window.state == word
    assert bool(window.sha256) == (word == "written")


# --- many -------------------------------------------------------------------------------------------------------------


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_128_ranks_with_9_lives_each_need_one_descriptor_in_the_watcher_and_none_in_the_job() -> None:
    before = descriptors()
    shared = SharedState.make(128 * 9)
    slots = [shared.slot(number) for number in range(shared.slots)]
    assert len(descriptors() - before) == 1
    job = [SharedState.open(shared.path, shared.slots) for _ in range(9)]
    for restart, one in enumerate(job):
        slot = one.claim(128 * restart + 127)
        slot.words[at.PID], slot.words[at.STEPS] = os.getpid(), restart
        slot.entries[0] = one.job_words[at.REQUESTED] = restart + 1
    assert len(descriptors() - before) == 1
    assert [number for number, slot in enumerate(slots) if slot.words[at.PID]] == [128 * n + 127 for n in range(9)]
    assert [slots[128 * n + 127].entries[0] for n in range(9)] == list(range(1, 10))
    assert shared.job_words[at.REQUESTED] == 9


def test_a_board_that_is_gone_is_no_longer_opened(shared: SharedState) -> None:
    other = SharedState.open(shared.path, shared.slots)
    slot = other.claim(1)
    other.path = "/dev/null"  # as another process with the number of the watcher might have it
    with pytest.raises(OSError, match="the watcher is gone"):
        other.set_aside(1, 0)
    slot.words[at.STEPS] = 5  # what is mapped stays
    assert shared.slot(1).words[at.STEPS] == 5
