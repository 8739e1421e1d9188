"""A budget of wall time: it runs out; a signal ends it where there is something to keep, a second one the program."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from redline.calibration import budget as module
from redline.calibration.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture(autouse=True)
def _handlers_are_given_back() -> Iterator[None]:
    """And are the usual ones meanwhile: of a process in the background, SIGINT may be ignored."""
    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {one: signal.signal(one, handler) for one, handler in usual.items()}
    yield
    assert {one: signal.getsignal(one) for one in usual} == usual
    for one, handler in before.items():
        signal.signal(one, handler)


def test_measuring_ends_before_the_budget_does(clock: Clock) -> None:
    budget = Budget(60)
    assert (budget.left_s(), budget.is_over, budget.is_late) == (48.0, False, False)
    clock.now += 48
    assert (budget.left_s(), budget.is_over, budget.is_late) == (0.0, True, False)
    clock.now += 7
    assert budget.is_late
    assert budget.why_over == "no time was left of 60 s"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_the_measuring_and_the_second_the_program(number: signal.Signals) -> None:
    budget = Budget(60)
    budget.has_results = True
    with budget.interruptible():
        signal.raise_signal(number)
        assert (budget.stopped_by, budget.left_s(), budget.is_late) == (number.name, 0.0, True)
        assert budget.why_over == f"stopped by {number.name}"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_before_there_is_anything_to_keep_a_signal_ends_the_program() -> None:
    budget = Budget(60)
    with budget.interruptible(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert budget.stopped_by == ""


def test_what_the_caller_ignores_or_handles_stays_so() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    budget = Budget(60)
    budget.has_results = True
    try:
        with budget.interruptible():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, ignored)
    assert (seen, budget.stopped_by) == ([signal.SIGTERM], "")


def test_a_child_that_was_forked_meanwhile_ends_as_any_other() -> None:
    """Workers of a data loader are ended with SIGTERM."""
    budget = Budget(60)
    budget.has_results = True
    with budget.interruptible():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert budget.stopped_by == ""


def test_in_another_thread_no_handler_is_set() -> None:
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with Budget(60).interruptible():
                pass
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert failed == []
