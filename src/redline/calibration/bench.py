"""Takes samples of many cases in turn, so that what changes on the machine meanwhile meets them all alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from redline.calibration.calibration_record import Declined, Estimate
from redline.calibration.device import ProbeDevice
from redline.calibration.statistics import estimate, fastest
from redline.errors import first_line

Key = TypeVar("Key", bound=Hashable)
_MOST_REPEATS = 100_000
_HOPELESS = 10  # a first call that takes so many times the limit


@dataclass(frozen=True, kw_only=True)
class BenchmarkCase(Generic[Key]):
    """Something to be timed."""

    key: Key
    prepare: Callable[[], Callable[[], object]]
    """Makes what the call needs, and gives the call. Whatever it raises means: this cannot be measured here."""
    about: str
    """For people: what was declined, if it was."""


@dataclass(frozen=True, kw_only=True)
class TimingBudget:
    """How much time may be spent."""

    rounds: int
    """Samples of each case in one pass."""
    sample_ns: int
    """A sample is as many calls in a row as take this long, or one call."""
    call_limit_ns: int
    """No case whose single call takes longer is measured further."""


@dataclass
class Samples(Generic[Key]):
    """What was timed: nanoseconds of one call, by case and pass. Passes lie apart in time."""

    passes: dict[Key, list[list[float]]] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)

    def add(self, other: Mapping[Key, Sequence[float]]) -> None:
        for key, series in other.items():
            self.passes.setdefault(key, []).append(list(series))

    def estimate(self, key: Key, noise: float) -> Estimate:
        return estimate(self.passes[key], noise)

    def fastest(self, key: Key, noise: float) -> Estimate:
        return fastest(self.passes[key], noise)

    def forget_single(self) -> None:
        """What was timed once has no interval: it is as good as not measured."""
        self.passes = {key: passes for key, passes in self.passes.items() if sum(map(len, passes)) > 1}

    def declines(self) -> tuple[Declined, ...]:
        return tuple(Declined(what=what, why=why) for what, why in self.declined.items())


def take(
    cases: Sequence[BenchmarkCase[Key]],
    device: ProbeDevice,
    effort: TimingBudget,
    samples: Samples[Key],
    *,
    left_s: Callable[[], float] = lambda: inf,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """One pass: every case once per round, in an order that changes from round to round, while time is left.

    The first cases come first where there is not enough of it. `tell` is told how many of how many are done.
    """
    count = len(cases) * (effort.rounds + 1)
    prepared: dict[Key, tuple[Callable[[], object], int]] = {}
    enough_s = left_s() / 2  # so that what is ready by then can be sampled
    for number, case in enumerate(cases):
        if left_s() <= 0 or left_s() < enough_s:
            break
        tell(number, count)
        ready = _prepared(case, device, effort, samples)
        if ready is not None:
            prepared[case.key] = ready
    series: dict[Key, list[float]] = {key: [] for key in prepared}
    for number, case in _turns([case for case in cases if case.key in prepared], effort.rounds):
        if left_s() <= 0:
            break
        tell(len(cases) + number, count)
        if case.about not in samples.declined:
            series[case.key] += _sampled(case, *prepared[case.key], device, samples)
    samples.add({key: times_ns for key, times_ns in series.items() if times_ns})


def _turns(cases: Sequence[BenchmarkCase[Key]], rounds: int) -> Iterator[tuple[int, BenchmarkCase[Key]]]:
    """Every case once per round, numbered."""
    for turn in range(rounds):
        start = turn * len(cases) // max(1, rounds)
        for place, case in enumerate([*cases[start:], *cases[:start]]):
            yield turn * len(cases) + place, case


def _sampled(
    case: BenchmarkCase[Key], call: Callable[[], object], repeats: int, device: ProbeDevice, samples: Samples[Key]
) -> list[float]:
    """One sample; none where the call fails now, as it may when memory has become scarce."""
    try:
        if repeats > 1:
            call()  # what other cases left in the caches is theirs
        return [device.timed_ns(call, repeats)]
    except Exception as error:  # noqa: BLE001 (see below)
        samples.declined[case.about] = first_line(error)
        return []


def _prepared(
    case: BenchmarkCase[Key], device: ProbeDevice, effort: TimingBudget, samples: Samples[Key]
) -> tuple[Callable[[], object], int] | None:
    if case.about in samples.declined:
        return None
    try:
        call = case.prepare()
        once_ns = _once_ns(call, device, effort)
    except Exception as error:  # noqa: BLE001 (whatever torch or a driver raises: it cannot be measured here)
        samples.declined[case.about] = first_line(error)
        return None
    if once_ns > effort.call_limit_ns:
        samples.declined[case.about] = f"one call takes {once_ns / 1e9:.1f} s"
        return None
    return call, max(1, min(_MOST_REPEATS, round(effort.sample_ns / max(once_ns, 1.0))))


def _once_ns(call: Callable[[], object], device: ProbeDevice, effort: TimingBudget) -> float:
    """How long a call takes. The first may compile, allocate or load a library, so it is tried again, and once more
    where that decides anything: how often a short one is repeated, and whether a long one takes too long.
    """
    once_ns = device.timed_ns(call, 1)
    if once_ns > _HOPELESS * effort.call_limit_ns:
        return once_ns
    once_ns = device.timed_ns(call, 1)
    decides = once_ns < effort.sample_ns or once_ns > effort.call_limit_ns
    return min(once_ns, device.timed_ns(call, 1)) if decides else once_ns
