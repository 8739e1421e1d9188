"""Damage to the fields of events and the shape of the list: odd numbers, wrong types, missing and repeated things."""

from collections.abc import Callable
from dataclasses import replace

from redline.timeline.problems import Reason
from tests.support.damage.case import Made, Recipe, edit_one, edit_trace, reads
from tests.support.damage.text import (
    SEPARATOR,
    Edits,
    Event,
    NoSuitableEventError,
    TraceText,
    a_cpu_op,
    a_kernel,
    choose,
    has_key,
    quote_value,
    us,
)

NAN = {Reason.NOT_A_NUMBER: 1}
BAD = {Reason.BAD_FIELD: 1}
MISSING = {Reason.MISSING_FIELD: 1}
DEPTH = 100_000
NESTED = "[" * DEPTH + "]" * DEPTH
BANDWIDTH = "memory bandwidth (GB/s)"
_ABSOLUTE_US = 1_759_300_074_000_000  # the base time of the seed in microseconds


def _a_ratio(trace: TraceText) -> Event:
    """Device work with a computed number: the bandwidth of a copy, or else something of a kernel."""
    try:
        return choose(trace, lambda e: BANDWIDTH in e.args)
    except NoSuitableEventError:
        return choose(trace, lambda e: e.is_kernel and "blocks per SM" in e.args)


def _ratio(raw: str) -> Callable[[Event], str]:
    return lambda event: event.with_value(BANDWIDTH if BANDWIDTH in event.args else "blocks per SM", raw)


def _put(key: str, raw: str) -> Callable[[Event], str]:
    return lambda event: event.with_value(key, raw)


def _drop(key: str) -> Callable[[Event], str]:
    return lambda event: event.without(key)


def _first_argument(raw: str) -> Callable[[Event], str]:
    return lambda event: event.text.replace('"args": {', f'"args": {{{raw}, ', 1)


def _second_duration(event: Event) -> str:
    return event.text.replace('"args":', '"dur": 0, "args":', 1)


def _each(trace: TraceText, wanted: Callable[[Event], bool], edit: Callable[[str], str]) -> tuple[bytes, int]:
    """The file with every wanted event edited, and how many there were."""
    edits: Edits = {e.index: edit(e.text) for e in trace.events if wanted(e)}
    return trace.render(edits), len(edits)


def _quote_all(*keys: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        for key in keys:
            if has_key(text, key) and f'"{key}": "' not in text:
                text = quote_value(text, key)
        return text

    return edit


def _string_times(trace: TraceText) -> Made:
    data, count = _each(trace, lambda e: e.is_timed and e.category != "Trace", _quote_all("ts", "dur"))
    return Made(data=data, expected=reads({Reason.NUMBER_AS_STRING: count}, note="one per event, not per field"))


def _string_pids(trace: TraceText) -> Made:
    data, _ = _each(trace, lambda _: True, _quote_all("pid", "tid"))
    return Made(data=data, expected=reads(note="pids and tids are labels, and may be strings"))


def _absolute_times(trace: TraceText) -> Made:
    edits: Edits = {e.index: e.at(e.ts + _ABSOLUTE_US) for e in trace.events if "ts" in e.fields}
    data = trace.with_metadata("baseTimeNanoseconds", "0").render(edits)
    return Made(data=data, expected=reads(note="a double has 0.25 us left at this size: read as decimal, not as float"))


def _ids_above_2_53(trace: TraceText) -> Made:
    """Give two kernels ids that differ by one where doubles no longer do."""
    linked = [kernel for kernel in trace.kernels if kernel.correlation in trace.launches]
    if len(linked) < 2:
        raise NoSuitableEventError("fewer than two linked kernels in the seed")
    edits: Edits = {}
    for number, kernel in enumerate((linked[0], linked[-1])):
        raw = str(2**53 + number)
        for event in (kernel, trace.launches[kernel.correlation]):
            edits[event.index] = event.with_value("correlation", raw)
        for flow in trace.flows(kernel.correlation):
            edits[flow.index] = flow.with_value("id", raw)
    return Made(data=trace.render(edits), expected=reads(note="ids are exact integers: both kernels keep their launch"))


def _list_at_top(tail: str, *, unclosed: bool) -> Callable[[TraceText], Made]:
    def make(trace: TraceText) -> Made:
        also = [Reason.RANK_INFERRED] if trace.has_rank else []
        counts = {Reason.TRUNCATED_FILE: int(unclosed)}
        note = "the format allows it, yet no reader can tell it from a cut" if unclosed else "legacy format"
        return Made(data=replace(trace, head="[", tail=tail).render(), expected=reads(counts, also=also, note=note))

    return make


def _only(wanted: Callable[[Event], bool]) -> Callable[[TraceText], Made]:
    def make(trace: TraceText) -> Made:
        gone = [event for event in trace.events if not wanted(event)]
        return Made(data=trace.without(gone), expected=reads({Reason.NO_EVENTS: 1}, lost=gone))

    return make


def _copies(count: int) -> Callable[[TraceText], Made]:
    """One kernel written again."""

    def make(trace: TraceText) -> Made:
        kernel = a_kernel(trace)
        data = trace.render({kernel.index: SEPARATOR.join([kernel.text] * (count + 1))})
        return Made(data=data, expected=reads({Reason.DUPLICATED_EVENT: count}))

    return make


def _all_twice(trace: TraceText) -> Made:
    copied = [event.text for event in trace.timed if event.category != "Trace"]
    data = replace(trace, tail="".join(SEPARATOR + text for text in copied) + trace.tail).render()
    return Made(data=data, expected=reads({Reason.DUPLICATED_EVENT: len(copied)}))


def _backwards(trace: TraceText) -> Made:
    turned = replace(trace, events=trace.events[::-1])
    return Made(data=turned.render(), expected=reads(note="the order of the list means nothing"))


def _append(raw: str) -> Callable[[TraceText], TraceText]:
    return lambda trace: replace(trace, tail=SEPARATOR + raw + trace.tail)


def _unknown_phase(trace: TraceText) -> TraceText:
    time = us(a_cpu_op(trace).ts)
    return _append(f'{{"ph": "Z", "name": "what", "pid": 1, "tid": 1, "ts": {time}}}')(trace)


def _lost_names(trace: TraceText) -> Made:
    annotations = [e for e in trace.timed if e.category == "user_annotation" and not e.name.startswith("ProfilerStep")]
    if not annotations:
        raise NoSuitableEventError("no annotation in the seed")
    edits: Edits = {event.index: event.named("unknown") for event in annotations[:2]}
    return Made(data=trace.render(edits), expected=reads(also=[Reason.LOST_NAMES]))


NUMBERS = (
    edit_one("F06-bare-inf", _a_ratio, _ratio("inf"), NAN),
    edit_one("F06-bare-minus-nan", _a_ratio, _ratio("-nan"), NAN),
    edit_one("F06-json-infinity", _a_ratio, _ratio("Infinity"), NAN, note="the json module reads it, JSON forbids it"),
    edit_one("F06-json-nan", _a_ratio, _ratio("NaN"), NAN, note="the json module reads it, JSON forbids it"),
    edit_one("F06-inf-as-time", a_cpu_op, _put("ts", "inf"), NAN | MISSING, drops=True),
    edit_one("F07-unquoted-na", _a_ratio, _ratio("N/A"), NAN),
    Recipe("F22-string-times", _string_times),
    Recipe("F22-absolute-times", _absolute_times),
    Recipe("F22-ids-above-2-53", _ids_above_2_53),
    edit_one("F22-id-above-2-63", a_cpu_op, _put("External id", str(2**63 + 5)), BAD),
    edit_one(
        "F22-correlation-above-2-64",
        a_kernel,
        _put("correlation", str(2**64 + 5)),
        BAD | {Reason.NO_CORRELATION: 1},
        note="the kernel stays, without its link",
    ),
    edit_one(
        "F42-deep-argument", a_cpu_op, _first_argument(f'"deep": {NESTED}'), {Reason.UNREADABLE_EVENT: 1}, drops=True
    ),
    edit_one("F43-5000-digits", a_cpu_op, _put("External id", "7" * 5000), BAD),
    edit_one("F43-5000-digits-in-argument", a_cpu_op, _first_argument('"huge": ' + "7" * 5000), note="nobody reads it"),
)

SHAPE = (
    Recipe("F10-list-at-top", _list_at_top("\n]", unclosed=False)),
    Recipe("F10-list-not-closed", _list_at_top("", unclosed=True)),
    Recipe("F10-string-pids", _string_pids),
    Recipe("F24-no-events", _only(lambda _: False)),
    Recipe("F24-labels-only", _only(lambda e: e.phase == "M")),
    Recipe("F49-lost-names", _lost_names),
    edit_one("F51-duplicate-key", a_cpu_op, _second_duration, {Reason.DUPLICATE_KEY: 1}),
    edit_trace(
        "F51-duplicate-list",
        lambda trace: trace.with_tail_metadata("traceEvents", "[]"),
        {Reason.DUPLICATE_KEY: 1},
        note="a reader that keeps the last value finds no event",
    ),
    Recipe("F51-event-repeated", _copies(2)),
    Recipe("F51-all-events-twice", _all_twice),
    Recipe("F51-unsorted", _backwards),
)

FUZZ = (
    *(edit_one(f"F52-missing-{key}", a_cpu_op, _drop(key), MISSING, drops=True) for key in ("name", "ts", "ph")),
    *(edit_one(f"F52-null-{key}", a_cpu_op, _put(key, "null"), MISSING, drops=True) for key in ("name", "ts")),
    edit_one("F52-null-args", a_cpu_op, _put("args", "null"), note="null is the same as missing"),
    edit_one("F52-args-list", a_cpu_op, _put("args", "[1, 2, 3]"), BAD),
    edit_one("F52-args-string", a_cpu_op, _put("args", '"none"'), BAD),
    edit_trace("F52-not-events", _append('null,\n  17,\n  "text",\n  [1]'), {Reason.NOT_AN_EVENT: 4}),
    edit_trace("F52-unknown-phase", _unknown_phase, {Reason.UNKNOWN_PHASE: 1}),
)

RECIPES: tuple[Recipe, ...] = (*NUMBERS, *SHAPE, *FUZZ)
