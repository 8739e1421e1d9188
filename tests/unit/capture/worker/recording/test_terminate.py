"""SIGTERM while a window is open, and whose an exception is that comes out of our own work."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from redline.capture.worker.recording.terminate import FlushOnTerm
from redline.capture.worker.recording.writer import untold


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """What was called, with a handler of the script's own in place."""
    called: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("script"))
    yield called
    signal.signal(signal.SIGTERM, before)


def test_what_was_recorded_is_saved_before_the_scripts_handler_runs(calls: list[str]) -> None:
    theirs = signal.getsignal(signal.SIGTERM)
    term = FlushOnTerm(lambda: calls.append("saved"), 5.0)
    term.arm()
    signal.raise_signal(signal.SIGTERM)
    assert calls == ["saved", "script"]
    assert signal.getsignal(signal.SIGTERM) is theirs


def test_a_signal_while_saving_takes_effect_afterwards(calls: list[str]) -> None:
    term = FlushOnTerm(lambda: calls.append("never"), 5.0)
    term.arm()
    with term.saving():
        signal.raise_signal(signal.SIGTERM)
        calls.append("saved")
    assert calls == ["saved", "script"]


def test_a_handler_that_the_script_sets_meanwhile_stays(calls: list[str]) -> None:
    term = FlushOnTerm(lambda: calls.append("saved"), 5.0)
    term.arm()
    former = signal.getsignal(signal.SIGTERM)

    def chained(number: int, frame: FrameType | None) -> None:
        assert callable(former)
        former(number, frame)
        calls.append("later")

    signal.signal(signal.SIGTERM, chained)
    signal.raise_signal(signal.SIGTERM)
    term.disarm()
    assert calls == ["saved", "script", "later"]
    assert signal.getsignal(signal.SIGTERM) is chained


def test_who_listens_for_signals_goes_on_listening() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    former = signal.set_wakeup_fd(write_end)
    term = FlushOnTerm(lambda: None, 5.0)
    term.arm()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.set_wakeup_fd(former) == write_end
    os.close(read_end)
    os.close(write_end)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_armed_and_disarmed_nothing_is_left() -> None:
    threads, files = threading.active_count(), open_files()
    for _ in range(20):
        term = FlushOnTerm(lambda: None, 5.0)
        term.arm()
        assert threading.active_count() == threads
        term.disarm()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.set_wakeup_fd(-1) == -1
    while open_files() > files:  # threads that have just been told to end
        threading.Event().wait(0.01)


_OUT_OF_MEMORY_AT_ONCE = """
import ctypes, mmap, resource, sys, time
from pathlib import Path
from redline.capture.worker.recording.terminate import FlushOnTerm

take = ctypes.PyDLL(None).mmap  # without letting other threads run meanwhile
take.restype, take.argtypes = ctypes.c_ssize_t, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
term = FlushOnTerm(lambda: None, 5.0)
most = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE + (32 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
sys.setswitchinterval(60)
term.arm()
size = 8 << 20
while size >= mmap.PAGESIZE:
    if take(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0) == -1:
        size //= 2
time.sleep(0.2)  # now they may
"""


def test_memory_that_is_gone_right_after_the_window_opens_is_not_told_of_by_our_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OUT_OF_MEMORY_AT_ONCE], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    FlushOnTerm(lambda: None, 5.0).arm()
    assert signal.signal(signal.SIGTERM, before) is signal.SIG_IGN


def test_another_thread_leaves_signals_alone(calls: list[str]) -> None:
    term = FlushOnTerm(lambda: calls.append("saved"), 5.0)
    for act in (term.arm, term.disarm):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    signal.raise_signal(signal.SIGTERM)
    assert calls == ["script"]


def test_the_handler_for_children_hears_of_the_scripts_own_only() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))
    try:
        with untold():
            ours = os.fork()
            if ours == 0:
                os._exit(0)
            os.waitpid(ours, 0)
        assert heard == []
        with untold():
            theirs = os.fork()
            if theirs == 0:
                os._exit(0)
            os.waitid(os.P_PID, theirs, os.WEXITED | os.WNOWAIT)
        assert heard == [1]
        os.waitpid(theirs, 0)
    finally:
        signal.signal(signal.SIGCHLD, before)
