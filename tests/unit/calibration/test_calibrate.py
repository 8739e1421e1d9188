"""A calibration in a budget: what matters most first, what there was no time for is said, and nothing is made of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from redline.calibration import calibrate as probe
from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget
from redline.calibration.budget import Budget
from redline.calibration.calibrate import calibrate_device, law_of
from redline.calibration.calibration_record import Calibration
from redline.calibration.conditions import Counters, Start
from redline.calibration.device import ProbeDevice
from redline.errors import InputError
from tests.support.made_calibrations import around, calibration

START = Start(date="2026-11-16T12:00:00+00:00", load=0.1, counters=Counters())
FAMILIES = ("compute", "memory", "overhead")


class Takes(Budget):
    """Enough for so many families in turn. It stands for the time, and each take adds samples without measuring."""

    def __init__(self, takes: int) -> None:
        super().__init__(60)
        self.takes = takes
        self.order: list[list[str]] = []

    def left_s(self) -> float:
        return 1.0 * (len(self.order) < self.takes and not self.stopped_by)

    @property
    def is_late(self) -> bool:
        return len(self.order) > self.takes

    def take(
        self,
        cases: Sequence[BenchmarkCase[Any]],
        device: ProbeDevice,
        effort: TimingBudget,
        samples: Samples[Any],
        **_: Any,
    ) -> None:
        self.order.append([case.about for case in cases])
        samples.add({case.key: [1e6] * effort.rounds for case in cases if case.key != "graph_replay"})


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calibration]:
    def run(budget: Takes, families: Sequence[str] = FAMILIES) -> Calibration:
        monkeypatch.setattr(probe, "take", budget.take)
        return calibrate_device(families, START, quick=True, tell=lambda _: None, budget=budget)

    return run


def test_what_matters_most_is_measured_twice_before_all_else(calibrated: Callable[..., Calibration]) -> None:
    budget = Takes(6)
    found = calibrated(budget)
    assert len(budget.order) == 6
    assert budget.order[:3] == budget.order[3:]
    matmuls, streams, overheads = budget.order[:3]
    assert {one.split(",")[0] for one in matmuls} == {"matmul in fp32", "matmul in bf16"}
    assert len(matmuls) == 8
    assert [one.split()[0] for one in streams] == ["copy", "triad", "sum"]
    assert "an operator on one number on the CPU, into a tensor that is there already" in overheads
    assert {peak.dtype for peak in found.peaks} == {"fp32", "bf16"}
    assert all(peak.burst_flops_per_s.samples == 6 for peak in found.peaks)


def test_what_there_was_no_time_for_is_said(calibrated: Callable[..., Calibration]) -> None:
    found = calibrated(Takes(6), (*FAMILIES, "roofline"))
    said = {one.what: one.why for one in found.declined}
    for what in ("most of compute", "most of memory", "doubling the batch", "roofline experiment", "data loader"):
        assert said[what] == "no time was left of 60 s"
    assert said["sustained rate of fp32, bf16"] == "no time was left of 60 s"
    assert all(peak.sustained_flops_per_s is None for peak in found.peaks)
    assert (found.budget_s, found.partial) == (60, "")


def test_cases_of_a_family_that_were_not_reached_are_counted(
    calibrated: Callable[..., Calibration],
) -> None:
    class Short(Takes):
        def take(self, cases: Sequence[BenchmarkCase[Any]], *others: Any, **more: Any) -> None:
            super().take(cases[:-2], *others, **more)

    found = calibrated(Short(5), ["memory"])
    missing = [one for one in found.declined if one.why == "no time was left of 60 s"]
    assert [one.what for one in missing] == ["allocation of 67.1 MB and 1 more"]


def test_laws_are_not_fitted_when_it_is_late(calibrated: Callable[..., Calibration]) -> None:
    class Late(Takes):
        @property
        def is_late(self) -> bool:
            return True

    found = calibrated(Late(4), ["compute"])
    assert len(found.kernels) > 20
    assert found.laws == ()
    assert any(one.what.startswith("matmul model in fp32, bf16, ") for one in found.declined)


def test_a_signal_is_written_down(calibrated: Callable[..., Calibration]) -> None:
    class Stopped(Takes):
        def take(self, *given: Any, **more: Any) -> None:
            super().take(*given, **more)
            self.stopped_by = "SIGTERM"

    found = calibrated(Stopped(4), ["compute"])
    assert found.partial == "SIGTERM"
    assert {one.why for one in found.declined if "most of" in one.what} == {"stopped by SIGTERM"}


def test_nothing_at_all_is_no_calibration(calibrated: Callable[..., Calibration]) -> None:
    with pytest.raises(InputError, match=r"nothing could be timed in 60 s; give more with `budget=\.\.\.`"):
        calibrated(Takes(0))
    stopped = Takes(0)
    stopped.stopped_by = "SIGINT"
    with pytest.raises(KeyboardInterrupt):
        calibrated(stopped)


def test_beside_collectives_it_may_be_nothing() -> None:
    found = calibrate_device([], START, quick=True, tell=lambda _: None, budget=Takes(9), is_all=False)
    assert (found.kernels, found.declined) == ((), ())


def test_a_law_is_fitted_to_shapes_that_were_timed_often_enough() -> None:
    points = [point for point in calibration().kernels if (point.family, point.dtype) == ("matmul", "fp32")]
    points += [replace(point, shape="again") for point in points]
    assert law_of(points, "fp32") is not None
    assert law_of(points, "bf16") is None
    rare = [replace(point, time_ns=replace(around(point.time_ns.value), samples=5)) for point in points]
    assert law_of(rare, "fp32") is None
