"""What is recorded about the host: what each collector gives, that failures cost one part alone, and size limits."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time

import pytest

pytest.importorskip("torch")

from redline.capture.settings import Settings
from redline.capture.shared_state import PID, STEPS, SharedState
from redline.capture.worker.process_context import ProcessContext
from redline.capture.worker.recording import host_evidence
from redline.capture.worker.recording.host_evidence import (
    Collected,
    Collector,
    EvidenceRecorder,
    GcRunCollector,
    MachineShareCollector,
    StepCounterCollector,
    ThreadTimeCollector,
)


def record(evidence: EvidenceRecorder) -> dict[str, object]:
    text = evidence.take().as_member()
    return dict(json.loads(b"{" + text + b"}").get("redline", {})) if text else {}


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Fixed(Collector):
    """A collector that fails where it is told to."""

    def __init__(self, key: str, part: object, fails_in: str = "") -> None:
        self.key, self._part, self._fails_in = key, part, fails_in
        self.abandoned = 0

    def _do(self, what: str) -> None:
        if what == self._fails_in:
            raise RuntimeError(what)

    def window_opened(self) -> None:
        self._do("window_opened")

    def step_ended(self) -> None:
        self._do("step_ended")

    def window_closed(self) -> None:
        self._do("window_closed")

    def part(self) -> object:
        self._do("part")
        return self._part

    def abandon(self) -> None:
        self.abandoned += 1


def test_steps_have_the_cpu_time_of_their_thread() -> None:
    evidence = EvidenceRecorder((StepCounterCollector(),))
    evidence.window_opened()
    spin(0.02)
    evidence.step_ended()
    time.sleep(0.02)
    evidence.window_closed()
    steps = record(evidence)["steps"]
    assert isinstance(steps, dict)
    assert [len(column) for column in steps.values()] == [2] * len(steps)
    assert steps["begin_ns"][1] == steps["end_ns"][0]
    assert abs(steps["end_ns"][1] - time.time_ns()) < 10**9
    busy, asleep = steps["cpu_ns"]
    assert 20_000_000 <= busy < 40_000_000
    assert asleep < 5_000_000
    assert steps["voluntary"][1] >= 1
    assert all(value >= 0 for value in steps["run_queue_ns"])


def test_busy_threads_are_named() -> None:
    evidence = EvidenceRecorder((ThreadTimeCollector(),))
    evidence.window_opened()
    spun, stop = threading.Event(), threading.Event()

    def work() -> None:
        spin(0.05)
        spun.set()
        stop.wait()

    thread = threading.Thread(target=work, name="augment")
    thread.start()
    spin(0.01)
    spun.wait()
    evidence.window_closed()
    threads = record(evidence)["threads"]
    stop.set()
    thread.join()
    assert isinstance(threads, list)
    by_name = {one["name"]: one for one in threads}
    assert by_name["augment"]["cpu_ns"] >= 40_000_000
    assert by_name["augment"]["python"]
    assert by_name["MainThread"]["training"]


def test_the_share_of_the_machine() -> None:
    shared = SharedState.make(1)
    slot = shared.claim(0)
    slot.words[PID], slot.words[STEPS] = os.getpid(), 3
    context = ProcessContext(shared, 0, slot, Settings({}))
    evidence = EvidenceRecorder((MachineShareCollector(context),))
    evidence.window_opened()
    evidence.step_ended()
    evidence.window_closed()
    machine = record(evidence)["machine"]
    assert isinstance(machine, dict)
    assert 1 <= machine["cores_allowed"] <= machine["cores"]
    assert machine["torch_threads"] >= 1
    assert machine["running"] >= 1
    assert machine["ranks"] == 1


@pytest.mark.parametrize(
    ("files", "quota", "throttled"),
    [
        ({"cpu.max": "150000 100000\n", "cpu.stat": "usage_usec 5\nthrottled_usec 7\n"}, 1.5, 7_000),
        ({"cpu.max": "max 100000\n"}, None, None),
        (
            {
                "cpu.cfs_quota_us": "50000\n",
                "cpu.cfs_period_us": "100000\n",
                "cpu.stat": "throttled_time 9\n",
            },
            0.5,
            9,
        ),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None, None),
        ({}, None, None),
    ],
)
def test_quotas_of_both_kinds_of_cgroup(
    files: dict[str, str],
    quota: float | None,
    throttled: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("group")
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(host_evidence, "control_groups", lambda controller: iter([str(folder)]))
    assert host_evidence.quota_cores() == quota
    assert host_evidence._throttled_ns() == throttled


def test_collections_are_timed_and_the_callback_goes() -> None:
    before = list(gc.callbacks)
    kept = [[number] for number in range(200_000)]
    evidence = EvidenceRecorder((GcRunCollector(),))
    evidence.window_opened()
    assert len(gc.callbacks) == len(before) + 1
    gc.collect()
    evidence.window_closed()
    assert gc.callbacks == before
    gc.collect()
    found = record(evidence)["collections"]
    assert isinstance(found, dict)
    assert found["generation"].count(2) == 1
    at = found["generation"].index(2)
    assert found["dur_ns"][at] >= 100_000
    assert kept


def test_a_script_that_clears_the_callbacks_does_no_harm() -> None:
    before = list(gc.callbacks)
    evidence = EvidenceRecorder((GcRunCollector(),))
    evidence.window_opened()
    gc.callbacks.clear()
    evidence.window_closed()
    evidence.abandon()
    assert gc.callbacks == []
    gc.callbacks.extend(before)


def test_what_a_handler_raises_during_a_collection_reaches_the_script() -> None:
    """Python runs a pending handler in the next bytecode: that must not be ours, whose exceptions would be dropped."""
    kept = [[number] for number in range(1_000_000)]
    evidence = EvidenceRecorder((GcRunCollector(),))
    others = list(gc.callbacks)
    gc.callbacks.clear()  # hypothesis has one in Python

    def handler(*_: object) -> None:
        raise TimeoutError

    former = signal.signal(signal.SIGALRM, handler)
    evidence.window_opened()
    try:
        with pytest.raises(TimeoutError):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            gc.collect()
            time.sleep(1)
    finally:
        evidence.window_closed()
        signal.signal(signal.SIGALRM, former)
        gc.callbacks.extend(others)
    assert kept


@pytest.mark.parametrize("where", ["window_opened", "step_ended", "window_closed", "part"])
def test_a_collector_that_fails_costs_its_part_alone(where: str) -> None:
    good, bad = Fixed("good", [1]), Fixed("bad", [2], fails_in=where)
    evidence = EvidenceRecorder((bad, good))
    evidence.window_opened()
    evidence.step_ended()
    evidence.window_closed()
    assert record(evidence) == {"version": 1, "good": [1]}
    assert bad.abandoned == 1


def test_parts_that_are_no_json_or_too_large_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_evidence, "_MOST_BYTES", 1_000)
    parts: dict[str, object] = {"odd": {1, 2}, "nan": float("nan"), "large": "x" * 2_000, "small": 1}
    assert json.loads(b"{" + Collected(parts).as_member() + b"}") == {"redline": {"version": 1, "small": 1}}
    assert Collected({"odd": object()}).as_member() == b""
