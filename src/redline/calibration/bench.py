"""Takes samples of many cases in turn, so that what changes on the machine meanwhile meets them all alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, inf, sqrt
from typing import Generic, TypeVar

import numpy as np

from redline.calibration.calibration_record import Declined, Estimate
from redline.calibration.device import ProbeDevice
from redline.errors import first_line

_CONFIDENCE_Z = 1.96  # 95 % of a normal distribution
MAD_TO_SIGMA = 1.4826  # of a normal distribution
_FAR_SIGMAS = 5.0
_SEEN_CHANGE = 0.02  # a first part that is less slower than this is no warm-up
_FEWEST = 6  # samples in which a change can be seen


def warm_up_end(samples: Sequence[float]) -> int:
    """How many of the first samples are warm-up: those before the change that explains the series best.

    Of all ways to cut the series in two, the one with the least sum of absolute deviations from both medians; at most
    half of it, and only where the first part is slower than the second.
    """
    series = np.asarray(samples, dtype=float)
    if len(series) < _FEWEST:
        return 0
    whole = _deviation(series)
    cuts = range(1, len(series) // 2 + 1)
    costs = [_deviation(series[:cut]) + _deviation(series[cut:]) for cut in cuts]
    best = int(np.argmin(costs))
    cut = cuts[best]
    is_slower = np.median(series[:cut]) > (1 + _SEEN_CHANGE) * np.median(series[cut:])
    # A cut always explains some of any series; this one has to explain more than a sample's worth of it.
    is_seen = whole - costs[best] > 2 * whole / len(series)
    return cut if is_slower and is_seen else 0


def _deviation(series: np.ndarray) -> float:
    return float(np.abs(series - np.median(series)).sum())


def estimate(passes: Sequence[Sequence[float]], noise: float = 0.0) -> Estimate:
    """The median of all samples but the warm-up of each pass.

    The interval holds the median of the population with 95 % (order statistics), and the medians of all passes, which
    lie apart in time; `noise`, a share of the value, is added to it as an independent cause. Times are above zero, and
    so are both ends.
    """
    kept = [np.asarray(part, dtype=float)[warm_up_end(part) :] for part in passes if len(part)]
    if not kept:
        raise ValueError("an estimate needs a sample")
    samples = np.sort(np.concatenate(kept))
    middle = float(np.median(samples))
    low, high = _median_interval(samples)
    medians = [float(np.median(part)) for part in kept]
    return Estimate(
        value=middle,
        low=middle / (1 + hypot(middle / min(low, *medians) - 1, noise)),
        high=middle * (1 + hypot(max(high, *medians) / middle - 1, noise)),
        samples=len(samples),
        outliers=outliers(samples),
    )


def _median_interval(ordered: np.ndarray) -> tuple[float, float]:
    """The order statistics between which the median lies with 95 %; for few samples, all of them."""
    count = len(ordered)
    reach = _CONFIDENCE_Z * sqrt(count) / 2
    first = max(0, int(np.floor(count / 2 - reach)))
    last = min(count - 1, int(np.ceil(count / 2 + reach)))
    return float(ordered[first]), float(ordered[last])


def fastest(passes: Sequence[Sequence[float]], noise: float = 0.0) -> Estimate:
    """The least time of all: what is possible when nothing disturbs. It reaches to the slowest pass's least time."""
    least = sorted(min(part) for part in passes if len(part))
    if not least:
        raise ValueError("an estimate needs a sample")
    return Estimate(
        value=least[0],
        low=least[0] / (1 + noise),
        high=least[0] * (1 + hypot(least[-1] / least[0] - 1, noise)),
        samples=sum(map(len, passes)),
    )


def outliers(samples: Sequence[float] | np.ndarray) -> int:
    """Samples further from the median than five times what is usual."""
    series = np.asarray(samples, dtype=float)
    middle = np.median(series)
    usual = MAD_TO_SIGMA * float(np.median(np.abs(series - middle)))
    return int((np.abs(series - middle) > max(_FAR_SIGMAS * usual, 0.01 * abs(middle))).sum())


Key = TypeVar("Key", bound=Hashable)
_MOST_REPEATS = 100_000
_HOPELESS = 10  # a first call that takes so many times the limit


@dataclass(frozen=True, kw_only=True)
class BenchmarkCase(Generic[Key]):
    """Something to be timed."""

    key: Key
    prepare: Callable[[], Callable[[], object]]
    """Makes what the call needs, and gives the call. Whatever it raises means: this cannot be measured here."""
    about: str  # for people: what was declined, if it was


@dataclass(frozen=True, kw_only=True)
class TimingBudget:
    """How much time may be spent."""

    rounds: int  # samples of each case in one pass
    sample_ns: int  # a sample is as many calls in a row as take this long, or one call
    call_limit_ns: int  # no case whose single call takes longer is measured further


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
