"""Samples of the training thread's stack: what they say, and that they leave nothing behind."""

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redline.capture.worker.recording import stack_samples as module
from redline.capture.worker.recording.stack_samples import StackSampleCollector


@pytest.fixture
def samples() -> Iterator[StackSampleCollector]:
    sampler = StackSampleCollector(lambda: True)
    yield sampler
    sampler.abandon()


def threads() -> int:
    return len(sys._current_frames())


def adding(until: float) -> None:
    """Holds the interpreter lock all the time."""
    total = 0
    while time.perf_counter() < until:
        for number in range(200):
            total += number


def waiting(until: float) -> None:
    """Gives the interpreter lock away."""
    while (left := until - time.perf_counter()) > 0:
        time.sleep(min(left, 0.002))


def becomes_true(condition: Callable[[], bool]) -> bool:
    """Within a time that a busy machine keeps."""
    until = time.perf_counter() + 30
    while not condition() and time.perf_counter() < until:
        time.sleep(0.002)
    return condition()


def functions_of(part: Any) -> list[str]:
    """Which of the two functions each sample was taken in; empty where it was in neither."""
    names = [[frame.split()[1] for frame in stack] for stack in part["stacks"]]
    return [next((name for name in names[at] if name in ("adding", "waiting")), "") for at in part["stack"]]


def test_samples_name_the_function_that_runs_and_are_of_both(
    samples: StackSampleCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it holds the interpreter lock or not. On a busy machine there are fewer samples, none of them wrong.

    Shares are those of the clock where this process had a processor: else it waits for one, and so does the sampler.
    """
    monkeypatch.setattr(module, "CPU_SHARE", 0.05)  # a loaded machine must not leave too few of them
    ran: list[tuple[int, int, str]] = []
    samples.window_opened()
    began_cpu_s = time.process_time()

    def alternate() -> bool:
        for work, length_s in ((adding, 0.03), (waiting, 0.01 + 0.0004 * (len(ran) % 60))):
            began_ns = time.time_ns()
            work(time.perf_counter() + length_s)
            ran.append((began_ns, time.time_ns(), work.__name__))
        return len(samples._stack) >= 100

    assert becomes_true(alternate)
    samples.window_closed()
    part: Any = samples.part()
    found = functions_of(part)
    for due_ns, delay_ns, function in zip(part["time_ns"], part["delay_ns"], found, strict=True):
        during = {name for began_ns, ended_ns, name in ran if began_ns <= due_ns + delay_ns and due_ns <= ended_ns}
        assert function in during | {""}, "between when it was due and when it was taken, this function ran"
    cpu_ns = 1e9 * (time.process_time() - began_cpu_s)
    length_ns = {name: sum(ended - began for began, ended, of in ran if of == name) for name in ("adding", "waiting")}
    for name, ns in length_ns.items():
        assert found.count(name) >= 10
        if cpu_ns > 0.95 * length_ns["adding"]:
            assert found.count(name) / len(found) == pytest.approx(ns / sum(length_ns.values()), abs=0.2)


def test_stacks_have_the_innermost_frame_first_with_its_line(samples: StackSampleCollector) -> None:
    samples.window_opened()
    waiting(time.perf_counter() + 0.1)
    samples.window_closed()
    part: Any = samples.part()
    stack = next(stack for stack in part["stacks"] if any(frame.endswith(" waiting") for frame in stack))
    file, _, rest = stack[0].partition(":")
    assert file.endswith("test_stack_samples.py")
    assert rest.split()[1] == "waiting"
    first = waiting.__code__.co_firstlineno
    assert first < int(rest.split()[0]) <= first + 4
    assert stack[1].endswith(" test_stacks_have_the_innermost_frame_first_with_its_line")
    assert part["time_ns"] == sorted(part["time_ns"])
    assert min(part["delay_ns"]) >= 0


def test_the_thread_ends_with_the_window(samples: StackSampleCollector) -> None:
    before = threads()
    samples.window_opened()
    assert becomes_true(lambda: threads() == before + 1)
    samples.window_closed()
    assert becomes_true(lambda: threads() == before)


def test_a_window_that_came_to_nothing_leaves_no_thread(samples: StackSampleCollector) -> None:
    before = threads()
    samples.window_opened()
    samples.abandon()
    samples.abandon()
    assert becomes_true(lambda: threads() == before)


def test_nothing_of_the_script_is_kept(samples: StackSampleCollector) -> None:
    class Held:
        pass

    def work() -> "weakref.ref[Held]":
        held = Held()
        waiting(time.perf_counter() + 0.05)
        return weakref.ref(held)

    samples.window_opened()
    held = work()
    assert held() is None
    samples.window_closed()
    assert samples.part() is not None


def test_a_fork_has_no_thread_of_ours_and_its_parent_is_sampled_on(
    samples: StackSampleCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CPU_SHARE", 1.0)
    samples.window_opened()
    child = os.fork()
    if child == 0:
        os._exit(threads() - 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    after_ns = time.time_ns()

    def is_sampled_on() -> bool:
        part: Any = samples.part()
        return part is not None and part["time_ns"][-1] > after_ns

    assert becomes_true(is_sampled_on)


def test_samples_are_bounded(samples: StackSampleCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SAMPLES", 8)
    monkeypatch.setattr(module, "CPU_SHARE", 1.0)
    samples.window_opened()
    waiting(time.perf_counter() + 0.3)
    samples.window_closed()
    part: Any = samples.part()
    assert 3 <= len(part["stack"]) < 8
    assert len(part["stack"]) == len(part["time_ns"]) == len(part["delay_ns"])


def test_its_cpu_time_is_bounded(samples: StackSampleCollector) -> None:
    samples.window_opened()
    began = time.perf_counter_ns()
    waiting(time.perf_counter() + 0.5)
    lasted_ns = time.perf_counter_ns() - began
    samples.window_closed()
    taken: Any = samples.part()
    each_ns = samples._spent_ns / max(len(taken["stack"]), 1)  # on a busy machine one costs many times what it should
    one_more_ns = max(1_000_000, 5 * each_ns)  # a sample is taken before its cost is known
    assert samples._spent_ns <= module.CPU_AHEAD_NS + module.CPU_SHARE * lasted_ns + one_more_ns
