"""The doubling test: its arithmetic by made-up times; on this machine, a wait against work that grows."""

import time
from collections.abc import Callable

import pytest
import torch

from redline.calibration import doubling as probe
from redline.calibration.bench import Samples, TimingBudget, take
from redline.calibration.calibration_record import Doubling, Estimate
from redline.calibration.device import ProbeDevice
from redline.errors import InputError

_EFFORT = TimingBudget(rounds=4, sample_ns=1000, call_limit_ns=10**9)


class _MadeUp(ProbeDevice):
    """A device on which a call takes as long as it says."""

    def __init__(self) -> None:
        super().__init__("cpu")

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        answer = call()
        assert isinstance(answer, float)
        return answer


def _step(overhead_ns: float, work_ns: float) -> Callable[[int], Callable[[], float]]:
    return lambda batch: lambda: overhead_ns + work_ns * batch


def _doubling(batch: int, ratio: float) -> Doubling:
    first, second = (Estimate(value=value, low=value, high=value, samples=5) for value in (100.0, 100.0 * ratio))
    return Doubling(batch=batch, time_ns=first, doubled_time_ns=second)


class TestOneStep:
    @pytest.mark.parametrize(
        ("overhead_ns", "work_ns", "ratio", "is_overhead"),
        [(1000.0, 0.0, 1.0, True), (0.0, 10.0, 2.0, False), (300.0, 12.5, 1.25, True), (100.0, 37.5, 1.75, False)],
    )
    def test_the_ratio_is_one_and_the_share_of_the_work(
        self, overhead_ns: float, work_ns: float, ratio: float, is_overhead: bool
    ) -> None:
        found = probe.doubling(_step(overhead_ns, work_ns), 8, _MadeUp(), _EFFORT, 0.0)
        assert found.batch == 8
        assert found.ratio == pytest.approx(ratio)
        assert probe.is_overhead(found) is is_overhead

    def test_noise_widens_both_times(self) -> None:
        found = probe.doubling(_step(1000.0, 0.0), 8, _MadeUp(), _EFFORT, 0.1)
        for time_ns in (found.time_ns, found.doubled_time_ns):
            assert time_ns.value == 1000
            assert time_ns.low < 950
            assert time_ns.high > 1050

    def test_a_step_that_fails_says_with_which_batch_and_why(self) -> None:
        def step(batch: int) -> Callable[[], float]:
            if batch > 8:
                raise MemoryError("16 rows are too many\nand more lines")
            return lambda: 1.0

        with pytest.raises(InputError) as failed:
            probe.doubling(step, 8, _MadeUp(), _EFFORT, 0.0)
        assert str(failed.value) == (
            "a step with a batch of 16 cannot be timed: 16 rows are too many. "
            "Give a smaller batch, or a step that runs by itself."
        )


class TestBatches:
    def test_overhead_reaches_to_the_first_batch_that_is_work(self) -> None:
        points = [_doubling(batch, ratio) for batch, ratio in [(16, 1.3), (1, 1.0), (64, 1.6), (4, 1.1), (256, 1.4)]]
        assert probe.overhead_up_to(points) == 16
        assert probe.overhead_up_to([_doubling(1, 1.9)]) is None
        assert probe.overhead_up_to([]) is None

    @pytest.mark.parametrize(("ratio", "is_overhead"), [(1.49, True), (1.5, False), (1.51, False)])
    def test_the_border_is_where_half_of_the_time_is_work(self, ratio: float, is_overhead: bool) -> None:
        assert probe.is_overhead(_doubling(8, ratio)) is is_overhead
        assert probe.overhead_up_to([_doubling(8, ratio)]) == (8 if is_overhead else None)

    def test_a_batch_that_is_another_ones_double_is_timed_once(self) -> None:
        assert [case.key for case in probe._cases(_step(1.0, 1.0), (1, 2, 8))] == [1, 2, 4, 8, 16]


class TestThisMachine:
    def test_a_wait_of_fixed_length_is_overhead(self) -> None:
        found = probe.doubling(lambda _: lambda: time.sleep(0.002), 4, ProbeDevice("cpu"), _EFFORT, 0.0)
        assert probe.is_overhead(found)

    def test_a_loop_over_rows_is_work(self) -> None:
        """On one thread: while others use the machine, threads wait for each other and not for the work."""

        def step(batch: int) -> Callable[[], object]:
            return lambda: [sum(range(2000)) for _ in range(batch)]

        effort = TimingBudget(rounds=8, sample_ns=1000, call_limit_ns=10**9)
        found = min(
            (probe.doubling(step, 16, ProbeDevice("cpu"), effort, 0.0) for _ in range(3)),
            key=lambda one: abs(one.ratio - 2),
        )
        assert not probe.is_overhead(found)

    @pytest.mark.parametrize(
        ("quick", "batches"), [(True, [1, 16, 128, 1024]), (False, [2**power for power in range(11)])]
    )
    def test_a_small_network_is_doubled_from_one_row_to_a_thousand(self, quick: bool, batches: list[int]) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            samples: Samples[int] = Samples()
            effort = TimingBudget(rounds=6, sample_ns=1_000_000, call_limit_ns=10**9)
            for _ in range(2):
                take(probe.cases(ProbeDevice("cpu"), quick=quick), ProbeDevice("cpu"), effort, samples)
            points = probe.points(samples, noise=0.02)
        finally:
            torch.set_num_threads(threads)
        assert [point.batch for point in points] == batches
        # The ratios of single batches are left to made-up times: beside other jobs one of them can say anything.
        assert points[-1].doubled_time_ns.value > points[0].time_ns.value
