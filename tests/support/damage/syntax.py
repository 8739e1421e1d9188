"""Damage to the text itself: quotes, backslashes, control characters, bytes that are not UTF-8, injected fields."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

from redline.timeline.problems import Reason
from tests.support.damage.case import Made, Recipe, edit_one, edit_trace, reads
from tests.support.damage.text import (
    SEPARATOR,
    Event,
    NoSuitableEventError,
    TraceText,
    a_cpu_op,
    a_kernel,
    a_python_function,
    an_annotation,
)

BACKSLASH = {Reason.LONE_BACKSLASH: 1}
CONTROL = {Reason.CONTROL_CHARACTER: 1}
QUOTE = {Reason.UNESCAPED_QUOTE: 1}
NOT_UTF8 = {Reason.INVALID_UTF8: 1}
TWICE = {Reason.DUPLICATE_KEY: 1}
BAD_MEMBER = {Reason.BAD_METADATA: 1}


def _naming(raw: str) -> Callable[[Event], str]:
    return lambda event: event.naming(raw)


def _named(raw: str) -> Callable[[Event], str]:
    return lambda event: event.named(raw)


def _lose_quote_of_tid(event: Event) -> str:
    return event.text.replace('"tid":', 'tid":', 1)


def _flow_without_quote(trace: TraceText) -> Made:
    """Where the issue saw it: in the arrow from launch to kernel."""
    flow = next((e for e in trace.events if e.phase == "f"), None)
    if flow is None:
        raise NoSuitableEventError("no arrow in the seed")
    expected = reads({Reason.MISSING_QUOTE: 1}, note="the event is an arrow: no timed event is lost")
    return Made(data=trace.render({flow.index: _lose_quote_of_tid(flow)}), expected=expected)


def _after_last(raw: str) -> Callable[[TraceText], TraceText]:
    return lambda trace: replace(trace, tail=raw + trace.tail)


def _trace_name(raw: str) -> Callable[[TraceText], TraceText]:
    return lambda trace: trace.with_metadata("traceName", raw)


def _first_metadata(key: str, raw: str) -> Callable[[TraceText], TraceText]:
    return lambda trace: trace.with_metadata(key, raw)


def _group_config(change: Callable[[str], str]) -> Callable[[TraceText], Made]:
    """Break the description of the process groups, and with it the object that also holds the rank."""

    def make(trace: TraceText) -> Made:
        info = trace.metadata("distributedInfo")
        if not info or "pg_config" not in info:
            raise NoSuitableEventError("no group description in the seed")
        damaged = change(json.dumps(info))
        if damaged == json.dumps(info):
            raise NoSuitableEventError("no such group description in the seed")
        broken = trace.with_metadata("distributedInfo", damaged)
        note = "the whole member is dropped, so the rank comes from the file name"
        return Made(data=broken.render(), expected=reads(BAD_MEMBER, also=[Reason.RANK_INFERRED], note=note))

    return make


def _quoted_config(info: str) -> str:
    return re.sub(r'"pg_config": (\[.*?\}\])', r'"pg_config": "\1"', info)


def _quoted_description(info: str) -> str:
    """The sanitiser of torch turns a correct backslash before a quote into a slash."""
    return re.sub(r'"pg_desc": "[^"]*"', r'"pg_desc": "my /"group/" one"', info)


def _split_in_two(trace: TraceText) -> Made:
    """A name that closes its event and opens a kernel: the rest of the annotation becomes that kernel's."""
    event = an_annotation(trace)
    name = '"},{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL'
    counts = {Reason.MISSING_FIELD: 1, Reason.SUSPICIOUS_KERNEL: 1, Reason.NO_CORRELATION: 1}
    note = "valid JSON; one annotation less and one false kernel more, so the number of timed events stays"
    expected = replace(reads(counts, note=note), same_kernels=False)
    return Made(data=trace.render({event.index: event.naming(name)}), expected=expected)


REPAIRED_TEXT = (
    edit_one("F02-lone-backslash", a_python_function, _named(r"torch\cuda\__init__.py(219): _lazy_init"), BACKSLASH),
    edit_one(
        "F02-backslash-mixed",
        a_python_function,
        _named(r"C:\Users\me\new\torch\nn\modules\module.py(1501): _call_impl"),
        BACKSLASH,
        note=r"\n and \t in it are valid escapes that mean backslashes",
    ),
    edit_one(
        "F02-backslash-before-quote",
        a_python_function,
        _named("C:\\runs\\"),
        BACKSLASH,
        note="the last backslash escapes the closing quote",
    ),
    edit_one("F03-raw-newline", a_python_function, _naming("\n(1): <module>"), CONTROL),
    edit_one(
        "F03-newline-and-quotes",
        a_python_function,
        _named('_test_lib_impl = torch.library.Library("_inductor_test", "IMPL")\n(1): <module>'),
        CONTROL | QUOTE,
    ),
    edit_one(
        "F03-dict-as-file-name",
        a_python_function,
        _named('{"device": "cpu", "dtype": "float32"}(12): run'),
        QUOTE,
        note="the quotes inside the name look like those of keys",
    ),
    edit_one("F04-control-character", a_python_function, _naming("\x01"), CONTROL),
    edit_one("F04-escape-sequence", an_annotation, _naming("\x1b[31mred\x1b[0m"), CONTROL),
    edit_one("F04-nul-in-name", a_cpu_op, _naming("\x00"), CONTROL),
    edit_one("F05-invalid-bytes", a_kernel, _naming("\udcff\udcfe"), NOT_UTF8),
    edit_one("F05-latin-1", an_annotation, _naming(" caf\udce9"), NOT_UTF8),
    edit_one("F05-cut-character", a_kernel, _naming("\udce4\udcb8"), NOT_UTF8),
    edit_one(
        "F05-lone-surrogate",
        an_annotation,
        _naming(r"\ud800"),
        NOT_UTF8,
        note="a valid escape of half a character: json reads it, UTF-8 cannot write it",
    ),
    edit_one("F47-quote-in-annotation", an_annotation, _naming(' say "hi" now'), QUOTE),
    edit_one("F47-quote-at-the-end", an_annotation, _naming(' "fast"'), QUOTE),
    edit_one("F47-quotes-and-comma", an_annotation, _naming('("a", "b")'), QUOTE),
    edit_one("F47-quotes-in-cpu-op", a_cpu_op, _naming(' "x"'), QUOTE),
)

LOST_TEXT = (
    edit_one(
        "F01-missing-quote",
        a_cpu_op,
        _lose_quote_of_tid,
        {Reason.MISSING_QUOTE: 1},
        note="an odd number of quotes: a reader that counts them loses its place",
    ),
    Recipe("F01-missing-quote-in-flow", _flow_without_quote),
)

FRAME = (
    edit_trace("F08-bracket-in-trace-name", _trace_name(r'"/tmp/run[3]/a]b}],\"c.json"')),
    edit_trace(
        "F08-events-in-metadata",
        _first_metadata("note", r'"see \"traceEvents\": [ {\"ph\": \"X\"} ], there"'),
        note="valid JSON: the word traceEvents stands in a string before the real one",
    ),
    edit_one("F08-brackets-in-name", an_annotation, _naming(r" ]}, {[ \"],")),
    edit_trace("F09-empty-event", _after_last(SEPARATOR + "{}"), {Reason.EMPTY_EVENT: 1}),
    edit_trace("F09-trailing-comma", _after_last(","), note="the next event was never written; nothing is lost"),
)

METADATA = (
    edit_trace("F02-trace-name-backslash", _trace_name(r'"C:\Users\me\trace.json"'), {Reason.LONE_BACKSLASH: 1}),
    Recipe("F32-group-config-unescaped", _group_config(_quoted_config)),
    Recipe("F47-quote-in-group-description", _group_config(_quoted_description)),
    edit_trace("F47-quote-in-metadata", _first_metadata("comment", '"say "hi" now"'), BAD_MEMBER),
    edit_trace("F47-quote-in-job-name", _first_metadata("PT_PROFILER_JOB_NAME", '"my "best" job"'), BAD_MEMBER),
)

INJECTED = (
    edit_one(
        "F48-injected-category",
        an_annotation,
        _naming('", "cat": "kernel", "name": "ncclKernel'),
        TWICE,
        note="valid JSON; a reader that keeps the last value sees a kernel",
    ),
    edit_one(
        "F48-injected-duration",
        an_annotation,
        _naming('", "dur": 0.001, "x": "'),
        TWICE,
        note="valid JSON; the injected value comes before the true one",
    ),
    Recipe("F48-injected-event", _split_in_two),
)

RECIPES: tuple[Recipe, ...] = (*LOST_TEXT, *REPAIRED_TEXT, *FRAME, *METADATA, *INJECTED)
