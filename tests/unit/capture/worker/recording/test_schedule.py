"""Windows after the first keep to their share of the run, counting the next one before it opens."""

from time import perf_counter_ns

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.profiler as autograd_profiler  # noqa: E402 (only where torch is installed)

from redline.capture.settings import Settings  # noqa: E402
from redline.capture.shared_state import COST_NS, STARTED_NS, SharedState  # noqa: E402
from redline.capture.worker.notes import Notes  # noqa: E402
from redline.capture.worker.process_context import ProcessContext  # noqa: E402
from redline.capture.worker.recording.host_evidence import EvidenceRecorder  # noqa: E402
from redline.capture.worker.recording.recorder import _GUARDED, Recorder  # noqa: E402
from redline.capture.worker.recording.schedule import WindowSchedule  # noqa: E402

ELAPSED_NS = 1_000_000_000_000


def opens_again(cost_ns: float, windows: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a further window opens within 1 % of the run, after so many windows that together cost so much."""
    for name in _GUARDED:  # the recorder replaces them in torch
        monkeypatch.setattr(autograd_profiler, name, getattr(autograd_profiler, name))
    shared = SharedState.make(1)
    context = ProcessContext(shared, 0, shared.claim(0), Settings({"every": 10, "budget": 0.01, "folder": "unused"}))
    schedule = WindowSchedule(context, Notes(context))
    for number in range(1, windows + 1):
        schedule.saved(number, captured=3, took_ns=0)
    context.slot.words[COST_NS] = round(cost_ns)
    context.slot.words[STARTED_NS] = perf_counter_ns() - ELAPSED_NS
    return schedule.may_begin(50, Recorder(context, lambda: None, EvidenceRecorder(())))


@pytest.mark.parametrize("windows", [1, 4])
def test_a_window_opens_only_if_its_own_cost_still_fits(windows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most_ns = 0.01 * ELAPSED_NS * windows / (windows + 1)  # of those before, if the next is as dear as they were
    assert opens_again(0.95 * most_ns, windows, monkeypatch)
    assert not opens_again(1.05 * most_ns, windows, monkeypatch)
