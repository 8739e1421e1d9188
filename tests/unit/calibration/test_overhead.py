"""What small things cost: the loop's own time is subtracted, every name has a meaning, a CPU declines CUDA graphs."""

import pytest

from redline.calibration import overhead
from redline.calibration.bench import Samples, TimingBudget, take
from redline.calibration.calibration_record import rate
from redline.calibration.device import ProbeDevice

_OF_A_CPU = (
    "python_add",
    "python_call",
    "dispatch",
    "tiny_op",
    "item",
    "module_call",
    "linear_tiny",
    "autograd_op",
)


def _samples(**times_ns: float) -> Samples[str]:
    samples: Samples[str] = Samples()
    samples.add({name.replace("timing_loop", "timing loop"): [time_ns] * 5 for name, time_ns in times_ns.items()})
    return samples


class TestPoints:
    def test_the_loop_is_subtracted_and_what_was_done_ten_times_divided(self) -> None:
        found = {
            point.name: point.time_ns.value
            for point in overhead.points(_samples(timing_loop=30, python_add=130, dispatch=1030), noise=0.0)
        }
        assert found == {"python_add": 10.0, "dispatch": 1000.0}

    def test_the_interval_assumes_the_worst_of_both(self) -> None:
        samples: Samples[str] = Samples()
        samples.add({"timing loop": [20, 30, 40], "item": [100, 130, 160]})
        time_ns = overhead.points(samples, noise=0.0)[0].time_ns
        assert (time_ns.low, time_ns.value, time_ns.high) == (60, 100, 140)

    def test_nothing_takes_no_time_or_less(self) -> None:
        time_ns = overhead.points(_samples(timing_loop=30, item=29), noise=0.0)[0].time_ns
        assert time_ns.value == 0.1
        assert rate(1, time_ns).value == pytest.approx(1e10)

    def test_without_the_loop_nothing_can_be_said(self) -> None:
        assert overhead.points(_samples(item=100), noise=0.0) == ()

    def test_names_come_in_the_order_of_reports(self) -> None:
        found = overhead.points(_samples(tiny_op=2000, python_call=300, timing_loop=30), noise=0.0)
        assert [point.name for point in found] == ["python_call", "tiny_op"]


@pytest.fixture(scope="module")
def samples() -> Samples[str]:
    device, samples = ProbeDevice("cpu"), Samples[str]()
    effort = TimingBudget(rounds=5, sample_ns=500_000, call_limit_ns=10**9)
    take(overhead.cases(device, quick=True), device, effort, samples)
    return samples


class TestOnACpu:
    def test_all_that_a_cpu_can_do_is_measured(self, samples: Samples[str]) -> None:
        assert tuple(point.name for point in overhead.points(samples, noise=0.0)) == _OF_A_CPU

    def test_cuda_graphs_are_declined_in_one_line(self, samples: Samples[str]) -> None:
        assert samples.declined == {"CUDA graphs": "this is a CPU"}

    def test_an_operator_costs_more_than_an_addition_in_python_and_less_than_with_its_gradient(
        self, samples: Samples[str]
    ) -> None:
        time_ns = {point.name: point.time_ns.value for point in overhead.points(samples, noise=0.0)}
        assert 3 * time_ns["python_add"] < time_ns["tiny_op"]
        assert 2 * time_ns["tiny_op"] < time_ns["autograd_op"]


class TestWhatIsTimed:
    def test_ten_means_ten(self) -> None:
        called: list[int] = []
        overhead._ten_calls(lambda: called.append(1))
        assert len(called) == 10
        assert overhead._ten_adds(0.0, 1.0) == 10.0

    def test_every_case_has_a_meaning_or_is_the_loop(self) -> None:
        names = {case.key for case in overhead.cases(ProbeDevice("cpu"), quick=False)}
        assert names - set(overhead.MEANINGS) == {"timing loop"}
        assert set(overhead._IN_ONE_CALL) <= set(overhead.MEANINGS)
