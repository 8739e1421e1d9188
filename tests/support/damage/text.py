"""The text of a Kineto trace, cut into head, events and tail, so that damage can be put in with every other byte kept.

Text is a str decoded with surrogateescape: a byte that is no UTF-8 is one character, and goes back to the same byte.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

CPU_SPANS = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"})
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
RUNTIME = frozenset({"cuda_runtime", "cuda_driver"})
SEPARATOR = ",\n  "  # what Kineto writes between two events

Edits = dict[int, str | None]  # other text for an event, by its index; None takes the event out

_decode = json.JSONDecoder(parse_float=Decimal).raw_decode


class NoSuitableEventError(LookupError):
    """The seed has no event to put this damage into, so the case is left out."""


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def us(time: Decimal) -> str:
    """A time as Kineto writes it: microseconds with three decimals."""
    return f"{time:.3f}"


def _value_span(text: str, key: str) -> tuple[int, int, int]:
    """Where the key begins, where its value begins, where its value ends."""
    found = re.search(rf'"{re.escape(key)}"\s*:\s*', text)
    if found is None:
        raise NoSuitableEventError(key)
    return found.start(), found.end(), _decode(text, found.end())[1]


def has_key(text: str, key: str) -> bool:
    return re.search(rf'"{re.escape(key)}"\s*:', text) is not None


def set_value(text: str, key: str, raw: str) -> str:
    """Write `raw` in place of the value of the key, as it is: it need not be JSON."""
    _, begin, end = _value_span(text, key)
    return text[:begin] + raw + text[end:]


def drop_key(text: str, key: str) -> str:
    """Take out the key, its value and one comma."""
    begin, _, end = _value_span(text, key)
    after = re.compile(r"\s*,\s*").match(text, end)
    if after is not None:
        return text[:begin] + text[after.end() :]
    return re.sub(r",\s*$", "", text[:begin]) + text[end:]


def quote_value(text: str, key: str) -> str:
    """Put the value of the key, a number, between quotes."""
    _, begin, end = _value_span(text, key)
    return f'{text[:begin]}"{text[begin:end]}"{text[end:]}'


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its text as written, and its fields."""

    index: int
    text: str
    fields: Mapping[str, Any]

    @property
    def phase(self) -> str:
        return str(self.fields.get("ph", ""))

    @property
    def category(self) -> str:
        return str(self.fields.get("cat", ""))

    @property
    def name(self) -> str:
        return str(self.fields.get("name", ""))

    @property
    def is_timed(self) -> bool:
        return self.phase == "X"

    @property
    def is_kernel(self) -> bool:
        return self.is_timed and self.category == "kernel"

    @property
    def ts(self) -> Decimal:
        return Decimal(self.fields["ts"])

    @property
    def dur(self) -> Decimal:
        return Decimal(self.fields.get("dur", 0))

    @property
    def end(self) -> Decimal:
        return self.ts + self.dur

    @property
    def track(self) -> tuple[str, str]:
        return str(self.fields.get("pid")), str(self.fields.get("tid"))

    @property
    def args(self) -> Mapping[str, Any]:
        return self.fields.get("args") or {}

    @property
    def correlation(self) -> Any:
        return self.args.get("correlation")

    def with_value(self, key: str, raw: str) -> str:
        return set_value(self.text, key, raw)

    def without(self, key: str) -> str:
        return drop_key(self.text, key)

    def at(self, ts: Decimal, dur: Decimal | None = None) -> str:
        """The text with another time and, if given, another duration."""
        moved = set_value(self.text, "ts", us(ts))
        return moved if dur is None else set_value(moved, "dur", us(dur))

    def lasting(self, dur: Decimal) -> str:
        return set_value(self.text, "dur", us(dur))

    def naming(self, raw: str) -> str:
        """The text with `raw` added at the end of the name, as it is."""
        end = _value_span(self.text, "name")[2] - 1
        return self.text[:end] + raw + self.text[end:]

    def named(self, raw: str) -> str:
        return set_value(self.text, "name", f'"{raw}"')


@dataclass(frozen=True)
class TraceText:
    """A whole trace: the text up to `[`, the events with what separates them, the text after the last event."""

    head: str
    leads: tuple[str, ...]  # what stands before each event
    events: tuple[Event, ...]
    tail: str

    @classmethod
    def parse(cls, seed: bytes) -> "TraceText":
        text = seed.decode("utf-8", "surrogateescape")
        opening = re.search(r'"traceEvents"\s*:\s*\[', text)
        if opening is None:
            raise ValueError("the seed is not a Kineto trace: it has no traceEvents")
        leads: list[str] = []
        events: list[Event] = []
        at = opening.end()
        while (begin := text.find("{", at)) >= 0 and not text[at:begin].strip(" \t\r\n,"):
            fields, end = _decode(text, begin)
            leads.append(text[at:begin])
            events.append(Event(len(events), text[begin:end], fields))
            at = end
        return cls(text[: opening.end()], tuple(leads), tuple(events), text[at:])

    def render(self, edits: Edits | None = None) -> bytes:
        """The file, with these edits."""
        return to_bytes(self.head + self.body(edits) + self.tail)

    def body(self, edits: Edits | None = None) -> str:
        changed = edits or {}
        parts: list[str] = []
        for lead, event in zip(self.leads, self.events, strict=True):
            text = changed.get(event.index, event.text)
            if text is not None:
                parts += (lead if parts else self.leads[0], text)
        return "".join(parts)

    def before(self, index: int) -> str:
        """The file up to where this event begins."""
        pairs = zip(self.leads, self.events[:index], strict=False)
        return self.head + "".join(lead + event.text for lead, event in pairs) + self.leads[index]

    def without(self, gone: Iterable[Event]) -> bytes:
        return self.render({event.index: None for event in gone})

    # metadata

    def metadata(self, key: str) -> Any:
        """The value of a metadata key, None where it is missing."""
        for part in (self.head, self.tail):
            if has_key(part, key):
                return _decode(part, _value_span(part, key)[1])[0]
        return None

    @property
    def has_rank(self) -> bool:
        info = self.metadata("distributedInfo")
        return isinstance(info, dict) and isinstance(info.get("rank"), int)

    def with_metadata(self, key: str, raw: str) -> "TraceText":
        """Metadata with this text as the value of the key, which comes first where it is new."""
        if has_key(self.head, key):
            return replace(self, head=set_value(self.head, key, raw))
        if has_key(self.tail, key):
            return replace(self, tail=set_value(self.tail, key, raw))
        return replace(self, head=self.head.replace("{", f'{{\n  "{key}": {raw},', 1))

    def with_tail_metadata(self, key: str, raw: str) -> "TraceText":
        begin = self.tail.rindex("}")
        return replace(self, tail=f'{self.tail[:begin].rstrip()},\n  "{key}": {raw}\n{self.tail[begin:]}')

    def without_metadata(self, key: str) -> "TraceText":
        if has_key(self.head, key):
            return replace(self, head=drop_key(self.head, key))
        return replace(self, tail=drop_key(self.tail, key))

    # events by what they are

    @cached_property
    def timed(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.is_timed)

    @cached_property
    def kernels(self) -> tuple[Event, ...]:
        return tuple(event for event in self.timed if event.is_kernel)

    @cached_property
    def launches(self) -> dict[Any, Event]:
        """The runtime call of each correlation id."""
        return {e.correlation: e for e in self.timed if e.category in RUNTIME and e.correlation is not None}

    @cached_property
    def streams(self) -> tuple[tuple[Event, ...], ...]:
        """The device work of each stream in order of time."""
        return self._tracks(DEVICE_WORK)

    @cached_property
    def threads(self) -> tuple[tuple[Event, ...], ...]:
        """The spans of each CPU thread, a parent before its children."""
        return self._tracks(CPU_SPANS)

    def _tracks(self, categories: frozenset[str]) -> tuple[tuple[Event, ...], ...]:
        tracks: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in self.timed:
            if event.category in categories:
                tracks[event.track].append(event)
        return tuple(tuple(sorted(track, key=lambda e: (e.ts, -e.dur))) for track in tracks.values())

    @cached_property
    def parents(self) -> dict[int, Event]:
        """The innermost span around each CPU span that has one."""
        found: dict[int, Event] = {}
        for thread in self.threads:
            open_spans: list[Event] = []
            for event in thread:
                while open_spans and open_spans[-1].end < event.end:
                    open_spans.pop()
                if open_spans:
                    found[event.index] = open_spans[-1]
                open_spans.append(event)
        return found

    def flows(self, correlation: Any) -> tuple[Event, ...]:
        """The arrow from a launch to its device work."""
        return tuple(e for e in self.events if e.category == "ac2g" and e.fields.get("id") == correlation)


def choose(trace: TraceText, wanted: Callable[[Event], bool]) -> Event:
    """The middle one of the timed events that are wanted."""
    found = [event for event in trace.timed if wanted(event)]
    if not found:
        raise NoSuitableEventError("no such event in the seed")
    return found[len(found) // 2]


def a_cpu_op(trace: TraceText) -> Event:
    return choose(trace, lambda e: e.category == "cpu_op" and "External id" in e.args)


def a_kernel(trace: TraceText) -> Event:
    return choose(trace, lambda e: e.is_kernel)


def a_python_function(trace: TraceText) -> Event:
    return _or_cpu_op(trace, lambda e: e.category == "python_function")


def an_annotation(trace: TraceText) -> Event:
    return _or_cpu_op(trace, lambda e: e.category == "user_annotation" and not e.name.startswith("ProfilerStep"))


def _or_cpu_op(trace: TraceText, wanted: Callable[[Event], bool]) -> Event:
    try:
        return choose(trace, wanted)
    except NoSuitableEventError:
        return a_cpu_op(trace)
