"""Damage to times: durations and clocks that cannot be, overlaps, events without an end, stretched and moved spans."""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import TypeVar

from redline.timeline.problems import Reason
from tests.support.damage.case import Made, Recipe, edit_one, edit_trace, reads
from tests.support.damage.text import (
    CPU_SPANS,
    SEPARATOR,
    Edits,
    Event,
    NoSuitableEventError,
    TraceText,
    a_cpu_op,
    a_kernel,
    drop_key,
    set_value,
    us,
)

YEARS_236_US = Decimal(7_450_000_000_000_000)
OTHER_CLOCK_US = Decimal(100_000_000_000)  # 1e14 ns
OVERLONG_US = 60  # at least so far past the next start
PDL_OVERLAP_US = Decimal("1.5")
EARLY_US = 20
SEVERAL = 3  # later kernels that an overlong one runs over

T = TypeVar("T")


def _first_of(found: Iterable[T]) -> T:
    for item in found:
        return item
    raise NoSuitableEventError("nothing in the seed fits")


def _kernels_lasting(count: int, dur: Decimal, reason: Reason) -> Callable[[TraceText], Made]:
    """Give the first kernels a duration that gets them dropped."""

    def make(trace: TraceText) -> Made:
        victims = trace.kernels[:count]
        if not victims:
            raise NoSuitableEventError("no kernel in the seed")
        edits: Edits = {kernel.index: kernel.lasting(dur) for kernel in victims}
        return Made(data=trace.render(edits), expected=reads({reason: len(victims)}, lost=victims))

    return make


def _other_clock(count: int) -> Callable[[TraceText], Made]:
    """The first kernels claim to start a day before their launch."""

    def make(trace: TraceText) -> Made:
        victims = sorted(trace.kernels, key=lambda e: e.ts)[:count]
        if not victims:
            raise NoSuitableEventError("no kernel in the seed")
        offset = -OTHER_CLOCK_US if victims[0].ts > OTHER_CLOCK_US else OTHER_CLOCK_US
        edits: Edits = {kernel.index: kernel.at(kernel.ts + offset) for kernel in victims}
        return Made(data=trace.render(edits), expected=reads({Reason.FOREIGN_CLOCK: len(victims)}, lost=victims))

    return make


# streams


def _serial_runs(trace: TraceText) -> Iterator[tuple[Event, ...]]:
    """Kernels of one stream that follow each other with no copy between them and no overlap."""
    for stream in trace.streams:
        run: list[Event] = []
        for event in stream:
            if not event.is_kernel or (run and run[-1].end > event.ts):
                yield tuple(run)
                run = []
            if event.is_kernel:
                run.append(event)
        yield tuple(run)


def _overlong(victims: list[tuple[Event, ...]], trace: TraceText, note: str) -> Made:
    """Let the first kernel of each group run over the ones after it in the group."""
    edits: Edits = {}
    added = Decimal(0)
    for kernel, following, *later in victims:
        end = max(later[-1].end, following.ts + OVERLONG_US)
        edits[kernel.index] = kernel.lasting(end - kernel.ts)
        added += following.ts - kernel.end
    counts = {Reason.OVERLONG_KERNEL: len(victims)}
    return Made(data=trace.render(edits), expected=reads(counts, kernel_time_added_us=added, note=note))


def _overlong_here_and_there(trace: TraceText) -> Made:
    group = SEVERAL + 1
    victims = [run[-group:] for run in _serial_runs(trace) if len(run) >= group][:3]
    if not victims:
        raise NoSuitableEventError("no run of kernels in the seed")
    return _overlong(victims, trace, "late completion stamps: each is cut at the next start")


def _overlong_in_a_row(trace: TraceText) -> Made:
    run = max(_serial_runs(trace), key=len, default=())
    if len(run) < SEVERAL + 3:
        raise NoSuitableEventError("no long run of kernels in the seed")
    victims = [run[at : at + SEVERAL + 1] for at in range(min(8, len(run) - SEVERAL))]
    return _overlong(victims, trace, "overlong kernels that overlap each other as well")


def _moved(trace: TraceText, kernel: Event, ts: Decimal) -> Edits:
    """The kernel and the end of its arrow at another time."""
    arrows = [flow for flow in trace.flows(kernel.correlation) if flow.phase == "f" and flow.ts == kernel.ts]
    return {event.index: event.at(ts) for event in (kernel, *arrows)}


def _queued_pair(trace: TraceText) -> tuple[Event, Event]:
    """Two kernels of one stream, the second launched well before the first ends."""

    def fits(first: Event, second: Event) -> bool:
        launch = trace.launches.get(second.correlation)
        margin = first.end - 2 * PDL_OVERLAP_US
        long_enough = min(first.dur, second.dur) > 2 * PDL_OVERLAP_US
        return launch is not None and launch.end < margin and long_enough

    pairs = (pair for run in _serial_runs(trace) for pair in pairwise(run))
    return _first_of(pair for pair in pairs if fits(*pair))


def _start_early(overlap: Decimal, counts: dict[Reason, int], note: str) -> Callable[[TraceText], Made]:
    """Let a kernel start this long before the one before it ends; both keep their durations."""

    def make(trace: TraceText) -> Made:
        first, second = _queued_pair(trace)
        return Made(data=trace.render(_moved(trace, second, first.end - overlap)), expected=reads(counts, note=note))

    return make


def _before_launch(trace: TraceText) -> Made:
    """Move a kernel to where its stream is free, before the call that launched it."""
    start = min(event.ts for event in trace.timed)

    def candidates() -> Iterator[tuple[Event, Decimal]]:
        for stream in trace.streams:
            free = start
            for event in stream:
                launch = trace.launches.get(event.correlation)
                early = launch.ts - EARLY_US - event.dur if launch is not None else start
                if event.is_kernel and early > free:
                    yield event, early
                free = max(free, event.end)

    kernel, ts = _first_of(candidates())
    return Made(data=trace.render(_moved(trace, kernel, ts)), expected=reads({Reason.KERNEL_BEFORE_LAUNCH: 1}))


# threads


def _last_root(trace: TraceText) -> Event:
    """The last span that no other of its thread encloses: without an end, it may last until the trace ends."""
    roots = [e for thread in trace.threads for e in thread if e.index not in trace.parents and e.category in _MARKS]
    if not roots:
        raise NoSuitableEventError("no span in the seed")
    return max(roots, key=lambda e: e.ts)


_MARKS = CPU_SPANS - {"cuda_runtime", "cuda_driver"}


def _only_begin(event: Event) -> str:
    return set_value(drop_key(event.text, "dur"), "ph", '"B"')


def _end_of(event: Event) -> str:
    pid, tid = event.fields["pid"], event.fields["tid"]
    return f'{{\n    "ph": "E", "pid": {pid}, "tid": {tid}, "ts": {us(event.end)}\n  }}'


def _begin_and_end(trace: TraceText) -> Made:
    """Write an operator and the operators right inside it as pairs of begin and end."""
    children: dict[int, list[Event]] = {}
    for thread in trace.threads:
        for event in thread:
            parent = trace.parents.get(event.index)
            if parent is not None and parent.category == event.category == "cpu_op":
                children.setdefault(parent.index, []).append(event)
    outer = trace.events[_first_of(children)]
    inner = children[outer.index]
    texts = [_only_begin(outer), *(text for e in inner for text in (_only_begin(e), _end_of(e))), _end_of(outer)]
    edits: Edits = dict.fromkeys((event.index for event in inner), None)
    edits[outer.index] = SEPARATOR.join(texts)
    return Made(data=trace.render(edits), expected=reads(note="pairs are as good as complete events"))


def _outlive_parent(trace: TraceText) -> Made:
    """Let an operator end in the pause after its parent."""

    def candidates() -> Iterator[tuple[Decimal, Event, Decimal]]:
        for thread in trace.threads:
            starts = [event.ts for event in thread]
            for at, event in enumerate(thread):
                parent = trace.parents.get(event.index)
                if parent is None or not parent.category == event.category == "cpu_op":
                    continue
                around = trace.parents.get(parent.index)
                limit = around.end if around is not None else parent.end + 100
                later = next((ts for ts in starts[at:] if ts >= parent.end), limit)
                pause = min(later, limit) - parent.end
                yield pause, event, parent.end + pause / 2

    pause, child, end = max(candidates(), key=lambda found: found[0], default=(Decimal(0), None, Decimal(0)))
    if child is None or pause <= 0:
        raise NoSuitableEventError("no pause after an operator in the seed")
    data = trace.render({child.index: child.lasting(end - child.ts)})
    return Made(data=data, expected=reads({Reason.CHILD_OUTLIVES_PARENT: 1}))


def _same_span(trace: TraceText) -> Made:
    """Give an operator exactly the span of its parent."""
    for index, parent in trace.parents.items():
        child = trace.events[index]
        if parent.category == child.category == "cpu_op":
            data = trace.render({index: child.at(parent.ts, parent.dur)})
            return Made(data=data, expected=reads(note="ties keep the order of the file: parent first"))
    raise NoSuitableEventError("no operator inside another in the seed")


def _slow_launch(trace: TraceText) -> Made:
    """Make one launch a thousand times longer, and everything after it later."""
    launch = _first_of(e for e in trace.launches.values() if "LaunchKernel" in e.name)
    delay = 999 * launch.dur

    def edited(event: Event) -> str | None:
        if event.index == launch.index:
            return event.lasting(launch.dur + delay)
        if event.ts >= launch.end:
            return event.at(event.ts + delay)
        around = event.track == launch.track and event.ts <= launch.ts and event.end >= launch.end
        runs_on = event.category in CPU_SPANS or event.category == "Trace"
        if event.is_timed and runs_on and (around or event.end > launch.end):
            return event.lasting(event.dur + delay)
        return event.text

    edits: Edits = {event.index: edited(event) for event in trace.events if "ts" in event.fields}
    return Made(data=trace.render(edits), expected=reads(note="distorted, not broken: kernels and links are as before"))


def _stretch_steps(trace: TraceText) -> Made:
    """Let each step last until the next one begins."""
    steps = [e for e in trace.timed if e.category == "user_annotation" and e.name.startswith("ProfilerStep")]
    if len(steps) < 2:
        raise NoSuitableEventError("no steps in the seed")
    edits: Edits = {a.index: a.lasting(b.ts - a.ts) for a, b in pairwise(steps)}
    return Made(data=trace.render(edits), expected=reads(note="another definition of a step, nothing broken"))


def _zero_end(event: Event) -> str:
    return event.lasting(-event.ts)


DROPPED = (
    edit_one(
        "F12-negative-duration",
        a_kernel,
        lambda event: event.lasting(Decimal("-5.5")),
        {Reason.NEGATIVE_DURATION: 1},
        drops=True,
    ),
    edit_one("F12-end-is-zero", a_kernel, _zero_end, {Reason.NEGATIVE_DURATION: 1}, drops=True),
    edit_one("F12-end-is-zero-on-cpu", a_cpu_op, _zero_end, {Reason.NEGATIVE_DURATION: 1}, drops=True),
    Recipe("F13-236-years", _kernels_lasting(3, YEARS_236_US, Reason.IMPOSSIBLE_DURATION)),
    Recipe("F16-other-clock", _other_clock(2)),
    edit_one("F16-time-zero", a_kernel, lambda event: event.at(Decimal(0)), {Reason.FOREIGN_CLOCK: 1}, drops=True),
)

STREAMS = (
    Recipe("F14-overlong-kernels", _overlong_here_and_there),
    Recipe("F20-overlapping-kernels", _overlong_in_a_row),
    Recipe("F15-kernels-touch", _start_early(Decimal(0), {}, "one starts in the nanosecond in which the other ends")),
    Recipe(
        "F21-dependent-launch", _start_early(PDL_OVERLAP_US, {Reason.STREAM_OVERLAP: 1}, "legitimate: nothing is cut")
    ),
    Recipe("F53-kernel-before-launch", _before_launch),
)

THREADS = (
    Recipe("F15-child-as-long-as-parent", _same_span),
    Recipe("F19-slow-launch", _slow_launch),
    Recipe("F34-stretched-steps", _stretch_steps),
    edit_one("F38-duration-minus-one", _last_root, lambda e: e.with_value("dur", "-1"), {Reason.UNFINISHED_EVENT: 1}),
    edit_one("F38-missing-duration", _last_root, lambda e: e.without("dur"), {Reason.UNFINISHED_EVENT: 1}),
    edit_one("F38-begin-without-end", _last_root, _only_begin, {Reason.UNFINISHED_EVENT: 1}),
    Recipe("F38-begin-and-end", _begin_and_end),
    Recipe("F40-child-outlives-parent", _outlive_parent),
)

BASE_TIME = (
    edit_trace("F41-odd-base-time", lambda trace: trace.with_metadata("baseTimeNanoseconds", "1712345678901234567")),
    edit_trace("F41-no-base-time", lambda trace: trace.without_metadata("baseTimeNanoseconds")),
)

RECIPES: tuple[Recipe, ...] = (*DROPPED, *STREAMS, *THREADS, *BASE_TIME)
