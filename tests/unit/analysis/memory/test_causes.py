"""Causes of full memory: each is named first where it is planted, with what it can save, and not on a healthy twin."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import redline
from redline.report.memory.memory_result import MemoryResult
from tests.conftest import Event, document, op, region
from tests.unit.analysis.memory.test_trace_memory import mark
from tests.unit.findings.conftest import described

MIB = 1 << 20
STEPS = 5
LONG_US = 100


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training loop in MiB: what each step makes, and what it forgets. Parameters are from before the recording."""

    parameters: int = 40
    states: int = 0  # of the optimizer, from before the recording
    activations: int = 10
    logits: int = 2
    gradients: int = 8
    temporary: int = 1  # of the optimizer
    kept: int = 0  # of each step, for ever
    clears_late: bool = False  # zero_grad after the forward pass
    left_over: int = 0  # of each step, until the optimizer of the next
    padded_to: int = 0  # positions, of rows of 20 and more; 0: not padded
    capacity: int = 0  # of the device; 0: the trace does not say
    reserved: int = 100

    def events(self) -> list[Event]:
        made = _Events(total=self.parameters + self.states, reserved=max(self.reserved, 1))
        for number in range(STEPS):
            self._step(made, number, LONG_US * number)
        return made.events

    def _step(self, made: "_Events", number: int, at: int) -> None:
        made.events.append(region(f"ProfilerStep#{number}", at, LONG_US - 1))
        is_late = self.clears_late and number > 0
        made.events.append(op("aten::linear", at + 10, 10, **{"Sequence number": 2 * number}))
        made.change(at + 11, "activations", self.activations)
        if self.kept:
            made.change(at + 12, f"kept {number}", self.kept)
        if self.left_over:
            made.change(at + 13, f"left over {number}", self.left_over)
        if self.padded_to:
            made.events.append(self._padding(number, at + 2))
        made.events.append(op("aten::nll_loss", at + 22, 8, **{"Sequence number": 2 * number + 1}))
        made.change(at + 23, "logits", self.logits)
        if is_late:
            made.events.append(region("Optimizer.zero_grad#SGD.zero_grad", at + 31, 2))
            made.change(at + 32, "gradients", -self.gradients)
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        made.events.append(op(node, at + 40, 20, **{"Sequence number": 2 * number, "Fwd thread id": 1}))
        made.change(at + 41, "logits", -self.logits)
        made.change(at + 42, "activations", -self.activations)
        made.change(at + 43, "gradients", self.gradients)
        if self.left_over and number:
            made.change(at + 44, f"left over {number - 1}", -self.left_over)
        made.events.append(region("Optimizer.step#SGD.step", at + 70, 10))
        made.events.append(op("aten::_foreach_sqrt", at + 71, 8))
        made.change(at + 72, "temporary", self.temporary)
        made.change(at + 76, "temporary", -self.temporary)
        if not self.clears_late:
            made.events.append(region("Optimizer.zero_grad#SGD.zero_grad", at + 85, 5))
            made.change(at + 86, "gradients", -self.gradients)

    def _padding(self, number: int, at: int) -> Event:
        length = 20 + number
        args = described("long int", [2, length]) | {"Concrete Inputs": ["", f"[0, {self.padded_to - length}]", "0."]}
        return op("aten::constant_pad_nd", at, 1, **args)


class _Events:
    """Memory events of a GPU, with the totals that its allocator writes."""

    def __init__(self, total: int, reserved: int) -> None:
        self.events: list[Event] = []
        self._total, self._reserved = total * MIB, reserved * MIB
        self._places: dict[str, int] = {}

    def change(self, at: int, what: str, size: int) -> None:
        self._total += size * MIB
        address = self._places.setdefault(what, 1024 * MIB * (len(self._places) + 1))
        self.events.append(
            mark(at, size * MIB, address, self._total, device=0, reserved=max(self._reserved, self._total))
        )


def said(folder: Path, *jobs: Job) -> MemoryResult:
    for rank, job in enumerate(jobs):
        devices = [{"id": 0, "name": "a GPU", "totalGlobalMem": job.capacity * MIB}]
        trace = document(job.events(), rank=rank, world_size=len(jobs), deviceProperties=devices)
        (folder / f"rank{rank}.json").write_bytes(trace)
    return redline.memory(folder)


HEALTHY = Job(reserved=1)
FLAWED = {
    "RL-M02": (replace(HEALTHY, kept=3), 15),
    "RL-M03": (replace(HEALTHY, activations=60), 60),
    "RL-M04": (replace(HEALTHY, logits=30), 30),
    "RL-M05": (replace(HEALTHY, clears_late=True), 8),
    "RL-M06": (replace(HEALTHY, temporary=20), 20),
    "RL-M07": (replace(HEALTHY, reserved=100), 48),
    "RL-M10": (replace(HEALTHY, left_over=12), 12),
    "RL-M12": (replace(HEALTHY, capacity=1000), 0),
}


@pytest.mark.parametrize("code", FLAWED)
def test_a_planted_cause_comes_first_with_what_it_can_save(code: str, tmp_path: Path) -> None:
    job, saves = FLAWED[code]
    first = said(tmp_path, job).causes[0]
    assert (first.code, first.saves_bytes) == (code, saves * MIB)


def test_what_padding_fills_is_not_told_of_recomputation(tmp_path: Path) -> None:
    """Rows of 20 to 24, padded to 110: a fifth is used, and what grows with the square of that is a 25th."""
    result = said(tmp_path, replace(HEALTHY, activations=40, logits=10, padded_to=110))
    first = result.causes[0]
    assert [cause.code for cause in result.causes] == ["RL-M11"]
    assert first.figures["padding_share"] == pytest.approx(0.8)
    assert first.saves_bytes == pytest.approx((1 - 0.2**2) * 50 * MIB, rel=1e-6)


def test_what_earlier_steps_left_is_not_told_of_recomputation(tmp_path: Path) -> None:
    """Without it the activations are too few to be worth it."""
    result = said(tmp_path, replace(HEALTHY, activations=5, left_over=20))
    assert [(cause.code, cause.saves_bytes) for cause in result.causes] == [("RL-M10", 20 * MIB)]
    assert result.causes[0].site == "aten::linear"


@pytest.mark.parametrize(("capacity", "times"), [(70, None), (100, 1 + (90 - 52) / 12), (0, None)])
def test_a_larger_batch_is_told_where_it_fits_twice(capacity: int, times: float | None, tmp_path: Path) -> None:
    """At the peak 40 of weights and 12 of the batch; 90 % of the device may be used."""
    result = said(tmp_path, replace(HEALTHY, capacity=capacity))
    told = [cause.figures["times"] for cause in result.causes]
    assert told == ([] if times is None else [pytest.approx(times)])
    assert ("times the batch" in result.text()) == (times is not None)


def test_a_healthy_job_has_no_cause(tmp_path: Path) -> None:
    result = said(tmp_path, HEALTHY)
    assert result.causes == ()
    assert not result.first.growth


def test_gradients_that_are_added_up_over_batches_are_needed(tmp_path: Path) -> None:
    """Two backward passes before each step of the optimizer."""
    events = replace(HEALTHY, clears_late=True).events()
    second = "autograd::engine::evaluate_function: AddmmBackward0"
    for number in range(STEPS):
        at = LONG_US * number
        events.append(op("aten::linear", at + 62, 2, **{"Sequence number": 100 + number}))
        events.append(op(second, at + 65, 3, **{"Sequence number": 100 + number, "Fwd thread id": 1}))
    (tmp_path / "a.json").write_bytes(document(events))
    assert "RL-M05" not in [cause.code for cause in redline.memory(tmp_path).causes]


def test_a_rank_that_holds_more_is_named_and_limits_the_others(tmp_path: Path) -> None:
    result = said(tmp_path, HEALTHY, replace(HEALTHY, parameters=80), HEALTHY)
    assert result.first.rank == 1
    assert [(cause.code, cause.saves_bytes) for cause in result.causes] == [("RL-M08", 40 * MIB)]


def test_the_page_and_the_record_say_the_same(tmp_path: Path) -> None:
    result = said(tmp_path, replace(HEALTHY, kept=3))
    record = json.loads(result.rendered("json"))
    assert record["causes"][0]["code"] == "RL-M02"
    growth = record["devices"][0]["growth"][0]
    assert (growth["bytes_per_step"], growth["held_bytes"]) == (3 * MIB, 15 * MIB)
    course = record["devices"][0]["course"]
    assert all(len(values) == len(course["at_ns"]) for values in course["accounts"].values())
    page = result.rendered("html")
    assert "<polygon" in page
    assert "RL-M02" in page
    assert "3.000 MiB more in every step" in result.text()
