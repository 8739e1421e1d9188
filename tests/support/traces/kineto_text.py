"""The exact text Kineto writes for a trace: templates per event, filled with one `%` per step.

A step's text is the same for every step and rank of a stage except for its numbers. So the text of a step is compiled
once into a template with a slot per number, and a step is rendered by filling all its slots at once:

    compile   events -> template, and for each slot where its number comes from (a time, a duration, an id)
    bind      put in what is constant for a rank: process, device, process groups
    render    compute all times of a step with NumPy, then template % numbers

Two layouts: "torch-2.13" (one key per line, metadata before the events) and "classic" (torch up to 2.8 or so).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.support.traces.jobspec import TextLayout

Nanoseconds = npt.NDArray[np.int64]

SLOT = "\x02"  # stands for an id in a name or in arguments; filled from `ids`, in order
_TIME = "%d.%s"  # microseconds and three digits of nanoseconds
_THREE_DIGITS = np.array([f"{value:03d}" for value in range(1000)], dtype=object)


def token(name: str) -> str:
    """A place in a template that is filled per rank."""
    return f"\x03{name}\x03"


@dataclass(frozen=True)
class Ref:
    """A moment of a step: `share` of the way through line `line` of the step's times, and `offset_ns` more."""

    line: int
    share: float
    offset_ns: int = 0


@dataclass(frozen=True)
class EventSpan:
    """Where and when an event is: process and thread as text, first and last moment."""

    pid: str
    tid: str
    begin: Ref
    end: Ref


@dataclass(frozen=True)
class Id:
    """A number that is unique in the file: `local` within the step, advancing by the step's count of its kind."""

    kind: str
    local: int


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """One layout's texts, in str.format; doubled braces are literal."""

    complete: str
    flow: str
    metadata: str
    instant: str
    head: str
    tail: str
    header_key: str


_TEXTS: dict[TextLayout, _Texts] = {
    "torch-2.13": _Texts(
        complete='  {{\n    "ph": "X",\n    "cat": "{cat}",\n    "name": "{name}",\n    "pid": {pid},\n'
        '    "tid": {tid},\n    "ts": {ts},\n    "dur": {dur}\n    ,\n    "args": {{\n      {args}\n    }}\n  }},\n',
        flow='  {{\n    "ph": "{ph}",\n    "id": {id},\n    "pid": {pid},\n    "tid": {tid},\n    "ts": {ts},\n'
        '    "cat": "{cat}",\n    "name": "{cat}"\n    {binding}\n  }},\n',
        metadata='  {{\n    "ph": "M",\n    "name": "{name}",\n    "ts": {ts},\n    "pid": {pid},\n    "tid": {tid},\n'
        '    "args": {{\n      {args}\n    }}\n  }},\n',
        instant='  {{\n    "ph": "i",\n    \n    "s": "g",\n    "name": "{name}",\n    "pid": {pid},\n'
        '    "tid": {tid},\n    "ts": {ts}\n    \n  }}{end}\n',
        head=' {{\n    "schemaVersion": 1,\n    "deviceProperties": [{devices}\n    ],\n    \n{keys}'
        '    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": {base_ns},\n    "traceEvents": [\n    \n',
        tail='  ],"traceName": "{name}" }}',
        header_key='      "{key}": {value},\n',
    ),
    "classic": _Texts(
        complete='  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        '    "ts": {ts}, "dur": {dur},\n    "args": {{\n      {args}\n    }}\n  }},\n',
        flow='  {{\n    "ph": "{ph}", "id": {id}, "pid": {pid}, "tid": {tid}, "ts": {ts},\n'
        '    "cat": "{cat}", "name": "{cat}"{binding}\n  }},\n',
        metadata='  {{\n    "name": "{name}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid},\n'
        '    "args": {{\n      {args}\n    }}\n  }},\n',
        instant='  {{\n    "name": "{name}", "ph": "i", "s": "g",\n'
        '    "pid": {pid}, "tid": {tid}, "ts": {ts}\n  }}{end}\n',
        head='{{\n  "schemaVersion": 1,\n  "deviceProperties": [{devices}\n  ],\n{keys}  "traceEvents": [\n',
        tail='  ],\n  "traceName": "{name}",\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {base_ns}\n}}',
        header_key='  "{key}": {value},\n',
    ),
}


@dataclass(frozen=True, kw_only=True)
class _Slots:
    """Where each number of a template comes from; positions count the template's slots."""

    count: int
    moment_at: Nanoseconds  # position of the microseconds; the digits follow
    moment_line: Nanoseconds
    moment_share: npt.NDArray[np.float64]
    moment_offset_ns: Nanoseconds
    length_at: Nanoseconds
    length_from: Nanoseconds  # index into the moments
    length_line: Nanoseconds
    length_share: npt.NDArray[np.float64]
    length_offset_ns: Nanoseconds
    id_at: Nanoseconds
    id_local: Nanoseconds
    id_stride: Nanoseconds


@dataclass(frozen=True, kw_only=True)
class StepText:
    """One section of a step, ready to be filled; `counts` are its events by category."""

    template: str
    slots: _Slots
    counts: Mapping[str, int]

    def bind(self, tokens: Mapping[str, str]) -> "StepText":
        """Fill in what is constant for a rank."""
        template = self.template
        for name, value in tokens.items():
            template = template.replace(token(name), value.replace("%", "%%"))
        return StepText(template=template, slots=self.slots, counts=self.counts)

    def render(self, start_ns: Nanoseconds, end_ns: Nanoseconds, step: int) -> str:
        """The text of one step; `start_ns` and `end_ns` are the times of its lines on the rank's own clock."""
        slots = self.slots
        values = np.empty(slots.count, dtype=object)
        moments = _at(start_ns, end_ns, slots.moment_line, slots.moment_share) + slots.moment_offset_ns
        values[slots.moment_at] = moments // 1000
        values[slots.moment_at + 1] = _THREE_DIGITS[moments % 1000]
        ends = _at(start_ns, end_ns, slots.length_line, slots.length_share) + slots.length_offset_ns
        lengths = ends - moments[slots.length_from]
        values[slots.length_at] = lengths // 1000
        values[slots.length_at + 1] = _THREE_DIGITS[lengths % 1000]
        values[slots.id_at] = slots.id_local + step * slots.id_stride
        return self.template % tuple(values.tolist())


def _at(start_ns: Nanoseconds, end_ns: Nanoseconds, line: Nanoseconds, share: npt.NDArray[np.float64]) -> Nanoseconds:
    begin = start_ns[line]
    return begin + ((end_ns[line] - begin) * share).astype(np.int64)


class StepCompiler:
    """Collects the events of one step, section by section, and turns them into templates."""

    def __init__(self, layout: TextLayout) -> None:
        self.texts = _TEXTS[layout]
        self.next_local: Counter[str] = Counter()
        self.sections: dict[str, _Section] = {}

    def new_id(self, kind: str) -> Id:
        """The next id of a kind."""
        self.next_local[kind] += 1
        return Id(kind, self.next_local[kind])

    def complete(
        self, section: str, *, cat: str, name: str, span: EventSpan, args: str, ids: tuple[Id, ...] = ()
    ) -> None:
        """Add a duration event; SLOTs in the name and then in the arguments take `ids` in order."""
        target = self._section(section)
        in_name = name.count(SLOT)
        target.ids(ids[:in_name])
        target.moment(span.begin)
        target.length(span.end)
        target.ids(ids[in_name:])
        text = self.texts.complete.format(
            cat=cat, name=_escape(name), pid=span.pid, tid=span.tid, ts=_TIME, dur=_TIME, args=_escape(args)
        )
        target.add(cat, text)

    def flow(self, section: str, *, phase: str, cat: str, number: Id, span: EventSpan) -> None:
        """Add one end of an arrow, at the start of a span."""
        target = self._section(section)
        target.ids((number,))
        target.moment(span.begin)
        binding = ', "bp": "e"' if phase == "f" else ""
        text = self.texts.flow.format(ph=phase, id="%d", pid=span.pid, tid=span.tid, ts=_TIME, cat=cat, binding=binding)
        target.add(cat, text)

    def compiled(self) -> dict[str, StepText]:
        """The finished sections."""
        return {name: section.compiled(self.next_local) for name, section in self.sections.items()}

    def _section(self, name: str) -> "_Section":
        return self.sections.setdefault(name, _Section())


class _Section:
    """Text parts and slot sources in writing order."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.counts: Counter[str] = Counter()
        self.moments: list[tuple[int, Ref]] = []
        self.lengths: list[tuple[int, int, Ref]] = []
        self.numbers: list[tuple[int, Id]] = []
        self.count = 0

    def add(self, cat: str, text: str) -> None:
        self.parts.append(text)
        self.counts[cat] += 1

    def moment(self, ref: Ref) -> None:
        self.moments.append((self.count, ref))
        self.count += 2

    def length(self, ref: Ref) -> None:
        self.lengths.append((self.count, len(self.moments) - 1, ref))
        self.count += 2

    def ids(self, ids: tuple[Id, ...]) -> None:
        for number in ids:
            self.numbers.append((self.count, number))
            self.count += 1

    def compiled(self, strides: Mapping[str, int]) -> StepText:
        def integers(values: list[int]) -> Nanoseconds:
            return np.array(values, dtype=np.int64)

        slots = _Slots(
            count=self.count,
            moment_at=integers([at for at, _ in self.moments]),
            moment_line=integers([ref.line for _, ref in self.moments]),
            moment_share=np.array([ref.share for _, ref in self.moments]),
            moment_offset_ns=integers([ref.offset_ns for _, ref in self.moments]),
            length_at=integers([at for at, _, _ in self.lengths]),
            length_from=integers([begin for _, begin, _ in self.lengths]),
            length_line=integers([ref.line for _, _, ref in self.lengths]),
            length_share=np.array([ref.share for _, _, ref in self.lengths]),
            length_offset_ns=integers([ref.offset_ns for _, _, ref in self.lengths]),
            id_at=integers([at for at, _ in self.numbers]),
            id_local=integers([number.local for _, number in self.numbers]),
            id_stride=integers([strides[number.kind] for _, number in self.numbers]),
        )
        return StepText(template="".join(self.parts), slots=slots, counts=dict(self.counts))


def _escape(text: str) -> str:
    return text.replace("%", "%%").replace(SLOT, "%d")


def time_text(time_ns: int) -> str:
    """A time as Kineto prints it: microseconds with three decimals."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def head_text(layout: TextLayout, *, devices: str, keys: Mapping[str, str], base_ns: int) -> str:
    """Everything before the first event."""
    texts = _TEXTS[layout]
    lines = "".join(texts.header_key.format(key=key, value=value) for key, value in keys.items())
    return texts.head.format(devices=devices, keys=lines, base_ns=base_ns)


def tail_text(layout: TextLayout, *, name: str, base_ns: int) -> str:
    """Everything after the last event."""
    return _TEXTS[layout].tail.format(name=name, base_ns=base_ns)


def metadata_text(layout: TextLayout, *, name: str, pid: int | str, tid: int, at_ns: int, args: str) -> str:
    """A metadata event."""
    return _TEXTS[layout].metadata.format(name=name, ts=time_text(at_ns), pid=pid, tid=tid, args=args)


def instant_text(layout: TextLayout, *, name: str, pid: str, tid: str, at_ns: int, last: bool) -> str:
    """A global mark; the file's last event has no comma after it."""
    end = "" if last else ","
    return _TEXTS[layout].instant.format(name=name, pid=pid, tid=tid, ts=time_text(at_ns), end=end)


def span_text(layout: TextLayout, *, begin_ns: int, end_ns: int) -> str:
    """The profiler's own span over the whole window."""
    return _TEXTS[layout].complete.format(
        cat="Trace",
        name="PyTorch Profiler (0)",
        pid='"Spans"',
        tid='"PyTorch Profiler"',
        ts=time_text(begin_ns),
        dur=time_text(end_ns - begin_ns),
        args='"Op count": 0',
    )


def device_text(*, index: int, name: str) -> str:
    """One entry of deviceProperties."""
    return (
        f'\n    {{\n      "id": {index}, "name": "{name}", "totalGlobalMem": 85029158912,\n'
        '      "computeMajor": 9, "computeMinor": 0,\n'
        '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
        '      "regsPerBlock": 65536, "warpSize": 32,\n'
        '      "sharedMemPerBlock": 49152, "numSms": 132\n'
        '    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472\n'
        "    }"
    )
