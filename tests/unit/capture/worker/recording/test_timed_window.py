"""A function is run in the main thread between two instructions, and what a handler raises there reaches the script."""

import threading
import time
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from redline.capture.worker.recording.timed_window import MainThreadCall

_WITHIN_NS = 500_000_000


class Interrupted(MainThreadCall):
    """A handler of the script raises before the first instruction of the call."""

    def __bool__(self) -> bool:
        raise TimeoutError("of a handler")


def asked(call: MainThreadCall, act: Callable[[], None]) -> list[bool]:
    """What the thread that asks is told, while the main thread runs Python code."""
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(call.run(act, _WITHIN_NS, must=True)))
    thread.start()
    until_s = time.monotonic() + 60
    try:
        while thread.is_alive() and time.monotonic() < until_s:
            sum(range(100))
    finally:
        thread.join()
    return told


def test_the_main_thread_runs_it_once() -> None:
    ran_in: list[threading.Thread] = []
    call = MainThreadCall(lambda: True)
    assert asked(call, lambda: ran_in.append(threading.current_thread())) == [True]
    assert ran_in == [threading.main_thread()]


def test_nothing_is_run_in_another_process() -> None:
    ran: list[str] = []
    assert asked(MainThreadCall(lambda: False), lambda: ran.append("ran")) == [False]
    assert ran == []


def test_a_failure_of_ours_stays_with_us() -> None:
    def fail() -> None:
        raise ValueError("ours")

    assert asked(MainThreadCall(lambda: True), fail) == [True]


def test_what_a_handler_raises_at_once_reaches_the_script_as_it_is() -> None:
    """Not as SystemError, which is what Python makes of a call that fails without saying so."""
    with pytest.raises(TimeoutError, match="of a handler"):
        asked(Interrupted(lambda: True), lambda: None)
