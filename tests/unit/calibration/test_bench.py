"""Cases are sampled in turn; one that cannot be measured is declined once, with the reason."""

from collections.abc import Callable
from typing import Any

from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget, take
from redline.calibration.device import ProbeDevice
from redline.errors import first_line

EFFORT = TimingBudget(rounds=4, sample_ns=100, call_limit_ns=1000)


class Told(ProbeDevice):
    """A device whose calls last as long as they say."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        told: Any = call()
        self.order.append(told[0])
        return float(told[1])


def case(name: str, time_ns: float) -> BenchmarkCase[str]:
    return BenchmarkCase(key=name, prepare=lambda: lambda: (name, time_ns), about=f"case {name}")


def test_each_round_has_every_case_once() -> None:
    device, samples = Told(), Samples[str]()
    take([case("a", 10), case("b", 20), case("c", 200)], device, EFFORT, samples)
    rounds = device.order[8:]  # each was tried before: three times, but twice where one call is a sample
    assert [sorted(rounds[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4
    assert len({tuple(rounds[at : at + 3]) for at in range(0, 12, 3)}) > 1
    assert samples.passes == {"a": [[10.0] * 4], "b": [[20.0] * 4], "c": [[200.0] * 4]}
    assert samples.estimate("b", 0.0).value == 20


def test_passes_are_kept_apart() -> None:
    samples = Samples[str]()
    for time_ns in (10, 30):
        take([case("a", time_ns)], Told(), EFFORT, samples)
    assert samples.passes == {"a": [[10.0] * 4, [30.0] * 4]}
    assert samples.fastest("a", 0.0).value == 10
    assert samples.fastest("a", 0.0).high == 30


def test_what_cannot_be_measured_is_declined_once_and_not_tried_again() -> None:
    tried = []

    def fails() -> Callable[[], object]:
        tried.append(1)
        raise RuntimeError("not for this type\nand a long story")

    samples = Samples[str]()
    cases = [BenchmarkCase(key=name, prepare=fails, about="fp8") for name in "ab"] + [
        case("slow", 5e9),
        case("good", 10),
    ]
    for _ in range(2):
        take(cases, Told(), EFFORT, samples)
    assert len(tried) == 1
    assert [(one.what, one.why) for one in samples.declines()] == [
        ("fp8", "not for this type"),
        ("case slow", "one call takes 5.0 s"),
    ]
    assert list(samples.passes) == ["good"]


def test_a_call_that_fails_later_costs_only_its_own_case() -> None:
    left = [5]

    def tires() -> tuple[str, float]:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError
        return "tires", 200.0

    samples = Samples[str]()
    take(
        [BenchmarkCase(key="tires", prepare=lambda: tires, about="case tires"), case("good", 200)],
        Told(),
        EFFORT,
        samples,
    )
    assert samples.passes == {"tires": [[200.0] * 3], "good": [[200.0] * 4]}  # it was tried twice before
    assert samples.declined == {"case tires": "MemoryError"}


def test_a_call_that_takes_far_too_long_is_made_once() -> None:
    device, samples = Told(), Samples[str]()
    take([case("slow", 5e9), case("long", 5000)], device, EFFORT, samples)
    assert device.order == ["slow", "long", "long", "long"]
    assert samples.declined == {"case slow": "one call takes 5.0 s", "case long": "one call takes 0.0 s"}


def test_the_reason_is_one_line_even_where_an_error_says_nothing() -> None:
    assert first_line(MemoryError()) == "MemoryError"
    assert len(first_line(RuntimeError("x" * 1000))) == 200


# --- a budget ---------------------------------------------------------------------------------------------------------


class Hourglass:
    """So many looks at it, each of which costs a second."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def left_s(self) -> float:
        self.seconds -= 1
        return max(0.0, self.seconds)


def test_making_ready_leaves_half_of_the_time_for_samples() -> None:
    device, samples = Told(), Samples[str]()
    cases = [case(name, 200) for name in "abcdefgh"]
    take(cases, device, EFFORT, samples, left_s=Hourglass(20).left_s)
    ready = device.order[: len(device.order) - sum(len(one) for passes in samples.passes.values() for one in passes)]
    assert sorted(set(ready)) == list("abcd")  # the first ones: a wait for two looks each, until half is gone
    assert sorted(samples.passes) == list("abcd")
    assert sum(len(one) for passes in samples.passes.values() for one in passes) == 8


def test_when_time_is_up_nothing_is_tried() -> None:
    device, samples = Told(), Samples[str]()
    take([case("a", 200)], device, EFFORT, samples, left_s=lambda: 0.0)
    assert (device.order, samples.passes) == ([], {})


def test_every_timing_is_told_before_it_begins() -> None:
    told: list[tuple[int, int]] = []
    take([case("a", 200), case("b", 200)], Told(), EFFORT, Samples(), tell=lambda done, of: told.append((done, of)))
    assert told == [(done, 10) for done in range(10)]


def test_what_was_timed_once_is_forgotten() -> None:
    samples = Samples[str](passes={"once": [[1.0]], "twice": [[1.0], [2.0]]})
    samples.forget_single()
    assert list(samples.passes) == ["twice"]
