"""Where steps of a rank begin and end: at the marks of the host, or where a device that lags behind it is done."""

import numpy as np

from redline.timeline.intervals import Intervals, Mask
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, DeviceWork, Kind, StepWindows, Timeline
from redline.trace.schema import phase_of
from redline.trace.steps import ENGINE_ANCHOR, IN_SEQUENCE

GENERATING = ("decode", "mixed")  # steps for requests that had a step before
LAG = 0.1  # of the median step: by less, a border moves the average of a few steps by about a percent


def step_borders(timeline: Timeline, window_ns: tuple[int, int]) -> tuple[I64, I64]:
    """Starts and ends of all steps, inside the window.

    A host that runs ahead marks a step as ended while the device still works on it, so host marks around the first
    steps of a recording lie closer together than the device's work. Where that is far, a step lasts on the device:
    until the last work that it launched.
    """
    steps = timeline.steps
    start_ns, end_ns = steps.start_ns, steps.end_ns
    if len(steps) and timeline.step_anchor == ENGINE_ANCHOR:
        end_ns = _engine_ends_ns(timeline, window_ns[1])
    elif len(steps) and not timeline.step_anchor.startswith(IN_SEQUENCE):
        start_ns, end_ns = _on_device(timeline)
    return np.clip(start_ns, *window_ns), np.clip(end_ns, *window_ns)


def _engine_ends_ns(timeline: Timeline, window_end_ns: int) -> I64:
    """A serving engine marks what its host does; the device does the step's work after that, so such a step lasts
    until the last of the work that it launched, or until the next step begins.

    Where the next step generates tokens for requests that are there already, the time in between is the engine's own.
    """
    steps = timeline.steps
    next_ns: I64 = np.append(steps.start_ns[1:], max(window_end_ns, int(steps.end_ns[-1])))
    return np.where(_goes_on(timeline), next_ns, np.minimum(_engine_done_ns(timeline), next_ns))


def engine_gaps(timeline: Timeline) -> Intervals:
    """From the end of each step's work to the next step of a serving engine, where that goes on with its requests."""
    goes_on = _goes_on(timeline)[:-1]
    done_ns, next_ns = _engine_done_ns(timeline)[:-1], timeline.steps.start_ns[1:]
    return Intervals.union_of(np.minimum(done_ns, next_ns)[goes_on], next_ns[goes_on])


def _goes_on(timeline: Timeline) -> Mask:
    """For each step whether the next one generates tokens; not of the last."""
    labels, which = np.unique(timeline.steps.label, return_inverse=True)
    generates = np.array([phase_of(timeline.text(label)) in GENERATING for label in labels.tolist()], bool)[which]
    goes_on: Mask = np.append(generates[1:], False)
    return goes_on


def _engine_done_ns(timeline: Timeline) -> I64:
    """When the mark of each step and the work that it launched are over."""
    work, step = _launched_in(timeline, timeline.device_work)
    done_ns = timeline.steps.end_ns.copy()
    np.maximum.at(done_ns, step, timeline.spans.end_ns[work.row])
    return done_ns


def last_work_of_steps(timeline: Timeline) -> I64:
    """Of each step the row of the work that ended last of all that it launched on the busiest stream, or NONE."""
    work, step = _launched_in(timeline, _busiest_stream(timeline))
    if timeline.step_anchor == ENGINE_ANCHOR:
        work, step = _launched_in(timeline, timeline.device_work)
    last = np.full(len(timeline.steps), NONE, np.int64)
    order = np.argsort(timeline.spans.end_ns[work.row], kind="stable")
    last[step[order]] = work.row[order]  # where a step is named again, the later one counts
    return last


def _on_device(timeline: Timeline) -> tuple[I64, I64]:
    """Borders on the stream that computes most; those of the host where the device keeps up with it.

    Where the device has done its work before the host ends a step, the step ends with the host.
    """
    steps, spans = timeline.steps, timeline.spans
    stream = _busiest_stream(timeline)
    work, step = _launched_in(timeline, stream)
    if not len(work):
        return steps.start_ns, steps.end_ns
    done_ns = np.full(len(steps), np.iinfo(np.int64).min)
    np.maximum.at(done_ns, step, spans.end_ns[work.row])
    has_work = np.isin(np.arange(len(steps)), step)
    lags = (done_ns - steps.end_ns)[has_work] / max(float(np.median(steps.end_ns - steps.start_ns)), 1.0)
    if np.median(lags) < LAG:
        return steps.start_ns, steps.end_ns
    end_ns = np.maximum.accumulate(np.maximum(steps.end_ns, done_ns))
    first_ns = spans.start_ns[work.row].min()
    before = stream.row[spans.start_ns[stream.row] < first_ns]
    busy_until_ns = min(int(spans.end_ns[before].max(initial=steps.start_ns[0])), int(first_ns))
    start_ns = np.maximum(steps.start_ns, np.append(busy_until_ns, end_ns[:-1]))
    return np.minimum(start_ns, end_ns), end_ns


def _busiest_stream(timeline: Timeline) -> DeviceWork:
    """Kernels of the stream that computes most: what others do, such as saving a copy, may reach into the next step."""
    spans, work = timeline.spans, timeline.device_work
    kernels = work.take(spans.kind[work.row] == Kind.KERNEL)
    if not len(kernels):
        return kernels
    lane = spans.lane[kernels.row]
    return kernels.take(lane == np.bincount(lane, weights=spans.dur_ns[kernels.row]).argmax())


def _launched_in(timeline: Timeline, work: DeviceWork) -> tuple[DeviceWork, I64]:
    """Of this work what a step launched, and which."""
    steps: StepWindows = timeline.steps
    work = work.take(work.launch != NONE)
    at_ns = timeline.spans.start_ns[work.launch]
    step = np.searchsorted(steps.start_ns, at_ns, side="right") - 1
    inside = (step >= 0) & (at_ns < steps.end_ns[step])
    return work.take(inside), step[inside]
