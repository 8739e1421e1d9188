"""When a job is said to stand still, and which ranks it seems to wait for."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from redline.capture.shared_state import LAST_NS, LEFT, PID, RANK, STARTED_NS, STEPS, SharedState
from redline.capture.supervisor import stall as module
from redline.capture.supervisor.stall import Stall, StallWatch, Standing, ask_recorders, recordings

AFTER_S = 100.0
UP_NS = int(1e12)  # the clock of a machine that was just started has no 500 s behind it
GONE = 1 << 22  # no process has such a number


@dataclass
class Rank:
    """Of a job that is looked at: its steps, and the seconds since the last one or since its start."""

    steps: int
    quiet_s: float
    pid: int = os.getpid()
    left: bool = False


def told(monkeypatch: pytest.MonkeyPatch, *ranks: Rank, looks: int = 1) -> list[Stall]:
    """What is told of a job in which these ranks stand so."""
    monkeypatch.setattr(module, "_ANSWER_S", 0.0)
    shared, heard = SharedState.make(len(ranks)), list[Stall]()
    slots = [shared.claim(number) for number in range(len(ranks))]
    now_ns = UP_NS + time.perf_counter_ns()
    monkeypatch.setattr(module, "perf_counter_ns", lambda: now_ns)
    for number, (slot, one) in enumerate(zip(slots, ranks, strict=True)):
        slot.words[PID], slot.words[RANK], slot.words[STEPS], slot.words[LEFT] = one.pid, number, one.steps, one.left
        slot.words[LAST_NS if one.steps else STARTED_NS] = now_ns - int(one.quiet_s * 1e9)
    watch = StallWatch(lambda: slots, AFTER_S, heard.append)
    for _ in range(looks):
        watch.look()
    return heard


def test_a_rank_that_has_stepped_may_be_quiet_for_as_long_as_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Rank(9, 80), Rank(9, 95)) == []
    (stall,) = told(monkeypatch, Rank(9, 80), Rank(8, 101))
    assert [one.steps for one in stall.ranks] == [9, 8]
    assert 101 <= stall.after_s < 400
    assert stall.held_by == (1,)


def test_before_the_first_step_five_times_as_long_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling and loading take long."""
    assert told(monkeypatch, Rank(0, 450), Rank(0, 300)) == []
    assert len(told(monkeypatch, Rank(0, 501), Rank(0, 300))) == 1
    assert len(told(monkeypatch, Rank(0, 101), Rank(1, 5))) == 1  # another rank has begun: what does this one wait for?


def test_it_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(told(monkeypatch, Rank(9, 101), looks=3)) == 1


def test_ranks_that_wait_and_cross_the_limit_later_are_the_same_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank that is stuck has been quiet a little longer than the one that waits for it."""
    monkeypatch.setattr(module, "_ANSWER_S", 0.0)
    shared, heard = SharedState.make(2), list[Stall]()
    slots = [shared.claim(number) for number in range(2)]
    for number, slot in enumerate(slots):
        slot.words[PID], slot.words[RANK], slot.words[STEPS] = os.getpid(), number, 5
        slot.words[LAST_NS] = time.perf_counter_ns() - int(1e9 * (AFTER_S + 1 - 10 * number))
    watch = StallWatch(lambda: slots, AFTER_S, heard.append)
    watch.look()
    slots[1].words[LAST_NS] -= int(20e9)
    watch.look()
    assert len(heard) == 1
    slots[1].words[STEPS] += 1  # it stepped since: that it stands again is news
    watch.look()
    assert len(heard) == 2


def test_processes_that_are_over_are_no_concern(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Rank(9, 101, left=True), Rank(9, 101, pid=GONE), Rank(9, 1)) == []


def standing(
    rank: int, *, steps: int = 5, state: str = "sleeping", in_torch: bool = True, where: str = "x"
) -> Standing:
    return Standing(
        rank=rank, steps=steps, quiet_s=9, state=state, where=where, user=where, in_torch=in_torch, stacks=""
    )


@pytest.mark.parametrize(
    ("ranks", "held_by"),
    [
        ([standing(0), standing(1, state="stopped"), standing(2, steps=4)], (1,)),
        ([standing(0), standing(1, steps=4, in_torch=False), standing(2, steps=3)], (1, 2)),
        ([standing(0), standing(1, in_torch=False), standing(2)], (1,)),
        ([standing(0), standing(1, in_torch=False, where=""), standing(2)], (0, 1, 2)),  # nobody knows where it is
        ([standing(0), standing(1)], (0, 1)),
        (
            [standing(0, state="stopped"), standing(1, state="stopped", steps=4)],
            (1,),
        ),  # all are stopped: who is behind?
        ([standing(0, in_torch=False), standing(1, in_torch=False)], (0, 1)),
    ],
)
def test_whom_the_others_wait_for(ranks: list[Standing], held_by: tuple[int, ...]) -> None:
    assert module._held_by(ranks) == held_by


ASKED = """
import resource, signal, sys
from redline.capture.shared_state import PID, SharedState
from redline.capture.worker.stacks import answer_with_stacks

slot = SharedState.open(sys.argv[1], 1).claim(0)
answer_with_stacks(slot)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL if "deadly" in sys.argv else signal.SIG_IGN)
if "limited" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("words", "answers"), [("", True), ("deadly", True), ("limited", True), ("deadly limited", False)]
)
def test_a_process_that_would_die_of_its_answer_is_not_asked(words: str, answers: bool) -> None:
    shared = SharedState.make(1)
    command = [sys.executable, "-c", ASKED, shared.path, *words.split()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        slot = shared.slot(0)
        slot.words[PID] = process.pid
        (text,) = module._ask_for_stacks([slot])
    assert process.returncode == 0
    assert ("most recent call first" in text or len(text) == 64) == answers


# The flight recorder's files are found where torch writes them, and asked for by the pipes that it listens to.

PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"TORCH_FR_DUMP_TEMP_FILE": "here/trace_"}, "here/trace_3"),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "here/trace_"}, "here/trace_3"),
        ({"TORCH_FR_DUMP_TEMP_FILE": "here/new_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "here/old_"}, "here/new_3"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "home"}, "cache/torch/comm_lib_trace_rank_3"),
        ({"HOME": "home"}, "home/.cache/torch/comm_lib_trace_rank_3"),
    ],
)
def test_files_are_found_where_torch_writes_them(tmp_path: Path, environment: dict[str, str], name: str) -> None:
    known = {key: str(tmp_path / value) for key, value in environment.items()}
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    (path.parent / "other").touch()
    now_s = time.time()
    assert recordings(now_s - 60, asked=False, environment=known) == ()
    path.touch()
    assert recordings(now_s - 60, asked=False, environment=known) == (str(path),)
    os.utime(path, (now_s - 100, now_s - 100))
    assert recordings(now_s - 60, asked=False, environment=known) == ()  # of an earlier hang


def test_a_monitor_that_listens_is_asked(tmp_path: Path) -> None:
    """As NCCL's monitor does: it reads its pipe without waiting, once in a while, and writes its file."""
    pipe, trace = tmp_path / "pipe_1.pipe", tmp_path / "trace_1"
    os.mkfifo(pipe)
    listening = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def monitor() -> None:
        until_s = time.monotonic() + 30
        while not os.read(listening, 128) and time.monotonic() < until_s:
            time.sleep(0.2)
        trace.write_bytes(b"...")

    thread = threading.Thread(target=monitor)
    thread.start()
    known = {PIPES: str(tmp_path / "pipe_"), "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "trace_")}
    since_s = time.time() - 1
    try:
        assert ask_recorders([0, 1], known)  # rank 0 has no pipe
        assert recordings(since_s, asked=True, environment=known) == (str(trace),)
    finally:
        thread.join()
        os.close(listening)


def test_nobody_is_asked_where_nobody_listens(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_0.pipe")
    assert not ask_recorders([0], {})
    assert not ask_recorders([0, 1], {PIPES: str(tmp_path / "pipe_")})
