"""Times of events in whole nanoseconds, exact however they were written."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I64
from redline.trace.schema import AnyEvent, Event, ExactEvent, has_large_fraction
from redline.values import dataclass

NO_TIME = int(np.iinfo(np.int64).min)
LARGEST_NS = 2**62 // 1000 * 1000  # times beyond are held here, so that no sum or difference leaves 64 bits
_DOUBLE_HOLDS_US = 2**43  # above this, doubles of microseconds are 2 ns and more apart
_DIGITS_OF_US = 16


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events with their times in whole nanoseconds; NO_TIME where a field is missing or no number."""

    events: Sequence[AnyEvent]
    start_ns: I64
    dur_ns: I64


def with_times(events: list[Event], text: bytes) -> Decoded | None:
    """Times of the fast path, or None where a double cannot hold them exactly."""
    count = len(events)
    ts = np.fromiter([event.ts for event in events], np.float64, count)
    dur = np.fromiter([event.dur for event in events], np.float64, count)
    with np.errstate(invalid="ignore"):
        if bool((np.abs(ts) > _DOUBLE_HOLDS_US).any()) and has_large_fraction(text):
            return None
    return Decoded(events, _ns_of(ts), _ns_of(dur))


def _ns_of(us: np.typing.NDArray[np.float64]) -> I64:
    """Whole nanoseconds. The fraction of a microsecond is taken apart: times 1000, a large double would round again."""
    usable = np.clip(np.where(np.isnan(us), 0, us), -LARGEST_NS // 1000, LARGEST_NS // 1000)
    whole = np.floor(usable)
    ns: I64 = whole.astype(np.int64) * 1000 + np.rint((usable - whole) * 1000).astype(np.int64)
    ns[np.isnan(us)] = NO_TIME
    return ns


def with_exact_times(events: list[ExactEvent], log: ProblemLog) -> Decoded:
    count = len(events)
    start = np.fromiter((_exact_ns(event.ts, log) for event in events), np.int64, count)
    return Decoded(events, start, np.fromiter((_exact_ns(event.dur, log) for event in events), np.int64, count))


def _exact_ns(us: Decimal | None, log: ProblemLog) -> int:
    if us is None:
        return NO_TIME
    if not us.is_finite() or us.adjusted() > _DIGITS_OF_US:
        log.add(Reason.BAD_FIELD, example=f"a time of {us:.3e} us")
        return NO_TIME
    return max(-LARGEST_NS, min(int((us * 1000).to_integral_value()), LARGEST_NS))
