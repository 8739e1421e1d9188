"""Mutants of a trace: bytes as no exporter wrote them, made by chance but always the same for a seed and an index.

    seeds = [excerpt(path.read_bytes()) for path in traces]
    for index in range(1000):
        made = mutant(seeds, seed=1, index=index)
        (folder / made.name).write_bytes(made.data)
        ...  # read it: any answer is right but a crash or a hang

Most mutants are wrong in a few places of structure (fields, events, metadata), of text (bytes, tokens), or of both.
Some are packed (gzip, zstd, tar) and wrong in the packed bytes; a few are token soup.
"""

import gzip
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import zstandard

from tests.support.damage.text import DEVICE_WORK, SEPARATOR, Event, TraceText, to_bytes

MOST_BYTES = 96 << 10  # of a mutant's text: some mutators repeat, and must not do so without end

# --- odd values -------------------------------------------------------------------------------------------------------


def _by_key(table: bytes) -> dict[bytes, tuple[bytes, ...]]:
    """A line for each key: the key, a bar, values without spaces."""
    lines = [line.partition(b"|") for line in table.strip().splitlines()]
    return {key.strip(): tuple(values.split()) for key, _, values in lines}


_MANY_DIGITS = b"7" * 5000  # more than int() takes
NUMBERS = (
    *b"0 -0 -0.0 1 -1 -1000 0.0005 1e-400 1e15 1e18 1e308 -1e308 1e400 1e999999999 1e9999999999999999999".split(),
    *b"2147483648 4294967295 9007199254740993 9223372036854775.807 9999999999999999.9 9223372036854775807".split(),
    *b"9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 -1e18 4e15".split(),
    *b"NaN Infinity -Infinity 00 1. .5 +1 0x10 999999999999999999999999999999".split(),
    _MANY_DIGITS,
)
STRINGS = (
    *rb'"" "0" "-1" "1.5" "NaN" "sNaN" "1e400" "1e99999999999999999999" "Infinity" "\u0000" "\x" "a"b"'.split(),
    *rb'"\ud800" "\udfff\ud800" "\ud83d\ude00"'.split(),
    *(b'"\xff"', b'"\xed\xa0\x80"', b'"\xe4\xb8\xad"', b'"%s"' % _MANY_DIGITS),
)
VALUES = (*NUMBERS, *STRINGS, *rb'null true false [] {} [[1],[]] {"ph":"X"} ["\ud800"] {"\ud800":1}'.split())
"""JSON, and nearly JSON, to put where something else is expected."""

TOKENS = (
    *rb""" " ' { } [ ] , : \ \" \u \u12 },{ },{"ph": "} "] ]} [[ /* // \ud83d "traceEvents":[ """.split(),
    *rb""" "cat":"kernel" "dur":1 "args":{ """.split(),
    *(b'": "', b'", "', b"},\n  {", b"\n", b"\t", b"\0", b"\x1b", b"\x7f", b" " * 40, b"\0" * 64, b"\xff", b"\xc3"),
    *(b"\xf0\x9f", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc0\x80"),
    *VALUES,
)

ODD_FIELDS = _by_key(
    rb"""
    ph      | "X" "B" "E" "M" "i" "I" "R" "C" "s" "t" "f" "b" "n" "e" "N" "P" "XX"
    cat     | "cpu_op" "user_annotation" "python_function" "cuda_runtime" "cuda_driver" "kernel" "gpu_memcpy" "Kernel"
    name    | "ProfilerStep#1" "Optimizer.step#A" "enumerate(DataLoader)#" "unknown" "process_name" "thread_name"
    pid     | 1 0 -5 "Spans" "1" "\ud800"
    tid     | 7 0 -5 "stream" "7" "\ud800"
    ts      | "12.5" 1e-3 3600000000.1 -5429721648872.169 9223372036854775.8 9223372036854775 4611686018427387
    dur     | -1 -1.5 0 3600000001 "10.5" 9223372036854775.8 7446744073709552 4611686018427387
    id      | 1 "0x1f"
    args    | null [] "x" {} {"name":"Rank_2"} {"name":"rank_99999999999999999999"} {"correlation":1,"stream":"7"}
    correlation         | 1 2 3 0
    External id         | 1 2 3 0
    Sequence number     | 0 1
    Fwd thread id       | 0 1 2
    device              | 0 7 -1 4294967296
    stream              | 7 "7" -1 18446744073709551616
    bytes               | 1024 "1024" "999999999999999999"
    Bytes               | -512 4096
    Device Id           | 0 4294967296
    Collective name     | "allreduce" "_allgather_base" "wait" "\ud800"
    Group size          | 2 4294967297
    Process Group Name  | "0" ""
    Process Group Ranks | "[0,1]" "[0,..." "[true,99999999999999999999]" "[-7,1e9]" "[\"\\ud800\"]"
    Rank                | 0 1
    Python id           | 1 2
    Python parent id    | 1 2
    graph node id       | 0 1
    Input Dims          | [[2,3]] ["\ud800"]
    grid                | [1,1,1]
    In msg nelems       | 64 -64
    """
)
"""What is wrong, or merely unusual, for each field of an event; any other of VALUES is wrong too."""
ODD_FIELDS[b"cat"] += tuple(
    rb'"gpu_memset" "cuda_sync" "gpu_user_annotation" "overhead" "Trace" "ac2g" "fwdbwd" "Operator" "\ud800"'.split()
)
ODD_FIELDS[b"name"] += tuple(
    b'"ncclDevKernel_AllReduce_Sum" "gloo:all_reduce" "cudaGraphLaunch" "execute_context_1" "[memory]" "Rank_3"'.split()
)
ODD_FIELDS[b"args"] += (b'{"name": "Rank %s"}' % _MANY_DIGITS, b'{"name": "rank \xd9\xa3"}')
ODD_FIELDS[b"bytes"] += (b'"\xc2\xb2"', b'"\xd9\xa3"')  # digits to Python, one of them not to int()
ODD_FIELDS[b"Process Group Ranks"] += (b'"%s"' % (b"[" * 2000), b'"[%s]"' % _MANY_DIGITS)

METADATA = _by_key(
    rb"""
    baseTimeNanoseconds | 1 "5" 9223372036854775807 1759300074000000000.5 4611686018427387904
    distributedInfo     | {"rank":99999999999,"world_size":4} {"rank":"3","world_size":"x","backend":["\ud800"]}
    deviceProperties    | [{"id":0,"name":"\ud800"}] [{"id":"a","totalGlobalMem":1e30},3] {"id":0}
    host_name           | "\ud800" "node"
    synthetic           | "by\udc00" 1
    schemaVersion       | "\ud800" [1]
    with_stack          | 1
    traceEvents         | [] {} [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]
    """
)
METADATA[b"distributedInfo"] += tuple(
    rb"""
    {"rank":0,"pg_config":[{"pg_name":"\ud800","ranks":[0,"a",1e9]},null]} {"rank":0,"pg_config":"[{\"ranks\":[0"}
    {"rank":0,"pg_config":"[{\"pg_name\":\"\\ud800\",\"ranks\":[0]}]"} {"rank":true,"pg_config":{},"world_size":1e9}
    {"rank":0,"world_size":9223372036854775807} {"rank":9223372036854775807}
    """.split()
)
TOP_FIELDS = (b"ph", b"cat", b"name", b"pid", b"tid", b"ts", b"dur", b"id", b"args")
NAMES = (
    *[
        "trace.json",
        "rank-0.pt.trace.json",
        "rank-1.pt.trace.json.gz",
        "worker12.json.tmp",
        "a.tar",
        "rank99999999.zst",
    ],
    "r\udcff\u00e9!.json",  # no UTF-8, as file systems allow
)

_STRING = rb'"(?:[^"\\]|\\.)*"'
_VALUE = rb"(" + _STRING + rb"|\[[^\[\]]*\]|\{[^{}]*\}|[^\s,\[\]{}\":]+)"
_FIELD = re.compile(rb"(" + _STRING + rb")(\s*:\s*)(?=" + _VALUE + rb")", re.DOTALL)  # ahead: fields have fields inside
_ARGS = re.compile(rb'"args"\s*:\s*\{')


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One input for a reader."""

    name: str  # of the file; it says nothing about the content
    data: bytes
    how: tuple[str, ...]  # what was done, in order


@dataclass
class Parts:
    """A trace in pieces that mutators change in place."""

    head: bytes
    events: list[bytes]
    tail: bytes

    def render(self) -> bytes:
        return self.head + SEPARATOR.encode().join(self.events) + self.tail


StructureMutator = Callable[[Parts, Random], None]
BytesMutator = Callable[[bytes, Random], bytes]


def mutant(seeds: Sequence[bytes], seed: int, index: int) -> Mutant:
    """The mutant with this number; `seeds` are small traces in JSON text."""
    rng = Random(f"{seed}/{index}")
    base = rng.choice(seeds)
    how: list[str] = []
    plan = rng.random()
    data = base
    if plan < 0.62:
        data = _restructured(base, rng, how)
    if 0.52 <= plan < 0.86:
        data = scrambled(data, seeds, rng, how)
    elif 0.86 <= plan < 0.97:
        data = _packed(data if rng.random() < 0.7 else _restructured(base, rng, how), rng, how)
    elif plan >= 0.97:
        data = _soup(rng)
        how.append("soup")
    return Mutant(name=rng.choice(NAMES), data=data, how=tuple(how))


def excerpt(trace: bytes, events_bytes: int = 4000) -> bytes:
    """A small trace cut from a large one: its head, events of every kind with what they are linked to, its tail.

    Raises ValueError where the trace is no sound JSON text.
    """
    text = TraceText.parse(trace)
    chosen: set[int] = set()
    size = 0
    for event in _in_turn(text.events):
        if size + len(event.text) <= events_bytes and event.index not in chosen:
            chosen.add(event.index)
            size += len(event.text)
    kept = [event.text for event in text.events if event.index in chosen]
    return to_bytes(text.head + SEPARATOR.join(kept) + text.tail)


def _in_turn(events: Sequence[Event]) -> Iterable[Event]:
    """Device work with its launches first, then the first of each kind, the second of each kind, and so on."""
    work = [event for event in events if event.category in DEVICE_WORK and event.correlation is not None]
    links = {event.correlation for event in work[:2]}
    linked = [event for event in events if event.correlation in links]
    kinds: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        kinds[event.phase, event.category].append(event)
    yield from linked[:6]
    for turn in range(12):
        for group in kinds.values():
            yield from group[turn : turn + 1]


@lru_cache(maxsize=256)
def _pieces(seed: bytes) -> tuple[bytes, tuple[bytes, ...], bytes]:
    text = TraceText.parse(seed)
    lead = text.leads[0] if text.leads else ""
    return to_bytes(text.head + lead), tuple(to_bytes(event.text) for event in text.events), to_bytes(text.tail)


def _restructured(seed: bytes, rng: Random, how: list[str]) -> bytes:
    head, events, tail = _pieces(seed)
    parts = Parts(head, list(events), tail)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        mutator = rng.choice(STRUCTURE_MUTATORS)
        mutator(parts, rng)
        how.append(_name_of(mutator))
    return parts.render()[:MOST_BYTES]


def scrambled(data: bytes, seeds: Sequence[bytes], rng: Random, how: list[str]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        if rng.random() < 0.05:
            data = _crossed(data, rng.choice(seeds), rng)
            how.append("crossed")
            continue
        mutator = rng.choice(BYTES_MUTATORS)
        data = mutator(data, rng)[:MOST_BYTES]
        how.append(_name_of(mutator))
    return data


def _packed(data: bytes, rng: Random, how: list[str]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        packer = rng.choice(PACKERS)
        data = packer(data, rng)
        how.append(_name_of(packer))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        mutator = rng.choice(PACKED_MUTATORS)
        data = mutator(data, rng)
        how.append(_name_of(mutator))
    return data


def _name_of(mutator: Callable[..., object]) -> str:
    return mutator.__name__.removeprefix("_")


def _soup(rng: Random) -> bytes:
    """Tokens in any order, mostly after what makes a reader look for events."""
    start = rng.choice((b"", b"[", b"{", b'{"traceEvents": [', b'{"traceEvents": [{"ph": "X", '))
    keys = tuple(b'"%s": ' % key for key in ODD_FIELDS)
    return start + b"".join(rng.choice(rng.choice((TOKENS, keys, VALUES))) for _ in range(rng.randrange(60)))


# --- structure: fields ------------------------------------------------------------------------------------------------


def set_field(event: bytes, key: bytes, value: bytes) -> bytes:
    """The event's text with this text as the value of the key, which is added where it is missing."""
    for found in _FIELD.finditer(event):
        if found.group(1) == b'"%s"' % key:
            return event[: found.start(3)] + value + event[found.end(3) :]
    args = _ARGS.search(event)
    if key not in TOP_FIELDS and args is not None:
        return event[: args.end()] + b'"%s": %s, ' % (key, value) + event[args.end() :]
    added = b'"%s": %s' % (key, value) if key in TOP_FIELDS else b'"args": {"%s": %s}' % (key, value)
    return event.replace(b"{", b"{" + added + b", ", 1)


def _odd_field(rng: Random) -> tuple[bytes, bytes]:
    key = rng.choice(_WEIGHTED_FIELDS)
    return key, rng.choice(ODD_FIELDS[key] if rng.random() < 0.6 else VALUES)


def _at(parts: Parts, rng: Random) -> int:
    """The index of an event; there is always one to change."""
    if not parts.events:
        parts.events.append(b"{}")
    return rng.randrange(len(parts.events))


def _odd_value(parts: Parts, rng: Random) -> None:
    """Another value for a known field."""
    at = _at(parts, rng)
    parts.events[at] = set_field(parts.events[at], *_odd_field(rng))


def _odd_value_everywhere(parts: Parts, rng: Random) -> None:
    """The same value in every event, or in every other: what most events agree on is believed."""
    key, value = _odd_field(rng)
    step = rng.choice((1, 1, 2))
    for at in range(_at(parts, rng) % step, len(parts.events), step):
        parts.events[at] = set_field(parts.events[at], key, value)


def _any_value(parts: Parts, rng: Random) -> None:
    """Another value for whatever field comes."""
    at = _at(parts, rng)
    event = parts.events[at]
    fields = list(_FIELD.finditer(event))
    if fields:
        field = rng.choice(fields)
        parts.events[at] = event[: field.start(3)] + rng.choice(VALUES) + event[field.end(3) :]


def _swapped_values(parts: Parts, rng: Random) -> None:
    """Two fields, of one event or of two, exchange their values."""
    one, other = _at(parts, rng), _at(parts, rng)
    here, there = list(_FIELD.finditer(parts.events[one])), list(_FIELD.finditer(parts.events[other]))
    if not here or not there:
        return
    left, right = rng.choice(here), rng.choice(there)
    keys = (left.group(1).strip(b'"'), right.group(1).strip(b'"'))
    parts.events[one] = set_field(parts.events[one], keys[0], right.group(3))
    parts.events[other] = set_field(parts.events[other], keys[1], left.group(3))


def _renamed_key(parts: Parts, rng: Random) -> None:
    at = _at(parts, rng)
    event = parts.events[at]
    fields = list(_FIELD.finditer(event))
    if fields:
        field = rng.choice(fields)
        key = rng.choice(
            (b'"%s"' % rng.choice(_WEIGHTED_FIELDS), b'""', b'"\\u0070h"', b'"ph\\u0000"', b"ph", b'"PH"', b"1")
        )
        parts.events[at] = event[: field.start(1)] + key + event[field.end(1) :]


def _repeated_key(parts: Parts, rng: Random) -> None:
    """A field twice in one event, as a name that was not escaped brings it along."""
    at = _at(parts, rng)
    key, value = _odd_field(rng)
    added = b'"%s": %s' % (key, value)
    event = parts.events[at]
    if rng.random() < 0.5:
        parts.events[at] = event.replace(b"{", b"{" + added + b", ", 1)
    else:
        parts.events[at] = added.join((event[: event.rfind(b"}")].rstrip() + b", ", event[event.rfind(b"}") :]))


def _dropped_key(parts: Parts, rng: Random) -> None:
    at = _at(parts, rng)
    event = parts.events[at]
    fields = list(_FIELD.finditer(event))
    if fields:
        field = rng.choice(fields)
        after = re.compile(rb"\s*,").match(event, field.end(3))
        parts.events[at] = event[: field.start()] + event[after.end() if after else field.end(3) :]


def _shifted_times(parts: Parts, rng: Random) -> None:
    """Every time, or every time from an event on, moved: another clock, or none at all."""
    by = rng.choice((-(10**13), 10**13, 3_600_000_001, -(5 * 10**12), 9 * 10**15, 4_000_000_000_000_000, 1))
    first = rng.choice((0, _at(parts, rng)))
    for at in range(first, len(parts.events)):
        found = re.search(rb'"ts": (-?\d{1,18})\b', parts.events[at])
        if found is not None:
            moved = b"%d" % (int(found.group(1)) + by)
            parts.events[at] = parts.events[at][: found.start(1)] + moved + parts.events[at][found.end(1) :]


# --- structure: events ------------------------------------------------------------------------------------------------


def _moved_event(parts: Parts, rng: Random) -> None:
    event = parts.events.pop(_at(parts, rng))
    parts.events.insert(rng.randrange(len(parts.events) + 1), event)


def _dropped_event(parts: Parts, rng: Random) -> None:
    first = _at(parts, rng)
    del parts.events[first : first + rng.choice((1, 1, 2, len(parts.events)))]


def _repeated_event(parts: Parts, rng: Random) -> None:
    at = _at(parts, rng)
    parts.events[at:at] = [parts.events[at]] * rng.choice((1, 1, 2, 30))


def _no_event(parts: Parts, rng: Random) -> None:
    """Something in the list that is no object."""
    parts.events.insert(_at(parts, rng), rng.choice((*VALUES, b"", b",", b"{},{}", b"]", b"[]")))


def _begin_and_end(parts: Parts, rng: Random) -> None:
    """A span as two events, one of which may be missing or come first."""
    at = _at(parts, rng)
    begin, end = (set_field(parts.events[at], b"ph", phase) for phase in (b'"B"', b'"E"'))
    parts.events[at : at + 1] = rng.choice(([begin, end], [begin], [end], [end, begin], [begin, begin, end]))


def _nested_event(parts: Parts, rng: Random) -> None:
    """An event inside another's arguments, or inside a list."""
    inner, at = parts.events[_at(parts, rng)], _at(parts, rng)
    outer = parts.events[at]
    nested = rng.choice((b"[%s]", b"[%s, {}]", b"%s", b'{"a": %s}')).replace(b"%s", inner)
    parts.events[at] = nested if rng.random() < 0.3 else set_field(outer, rng.choice((b"args", b"Input Dims")), nested)


def _deep_value(parts: Parts, rng: Random) -> None:
    """Brackets in brackets: in a field, as an event, or in the metadata; closed or not."""
    depth = rng.choice((20, 200, 600, 1100, 3000, 12_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"ph":', b"}]")))
    deep = opening * depth + b"1" + (closing * depth if rng.random() < 0.8 else b"")
    where = rng.randrange(4)
    if where == 0:
        parts.events.insert(_at(parts, rng), deep)
    elif where == 1:
        parts.head = parts.head.replace(b"{", b'{"a": ' + deep + b", ", 1)
    else:
        at = _at(parts, rng)
        parts.events[at] = set_field(parts.events[at], rng.choice((b"args", b"ts", b"Input Dims", b"name")), deep)


# --- structure: what is around the events -----------------------------------------------------------------------------


def _odd_metadata(parts: Parts, rng: Random) -> None:
    key = rng.choice(tuple(METADATA))
    value = rng.choice(METADATA[key] if rng.random() < 0.7 else VALUES)
    if rng.random() < 0.5:
        parts.head = set_field(parts.head, key, value) if key != b"traceEvents" else parts.head
        parts.head = parts.head.replace(b"{", b'{"%s": %s, ' % (key, value), 1)
    else:
        end = parts.tail.rfind(b"}")
        parts.tail = parts.tail[:end] + b', "%s": %s' % (key, value) + parts.tail[end:]


def _broken_frame(parts: Parts, rng: Random) -> None:
    """The key of the list, its brackets or the braces around everything lost or doubled."""
    edits: tuple[tuple[bytes, bytes], ...] = (
        *((b'"traceEvents"', other) for other in (b'"events"', b"traceEvents", b'"traceEvents": 1, "traceEvents"')),
        *((b'"traceEvents": [', other) for other in (b'"traceEvents": ', b'"traceEvents": {', b'"traceEvents": "[')),
        *(
            (b'"traceEvents": [', b'"traceEvents": [' + more)
            for more in (b"[", b",", b"]", b'], "traceEvents": [', b"null,")
        ),
        (b"{", b""),
        (b"{", b"[{"),
    )
    old, new = rng.choice(edits)
    parts.head = parts.head.replace(old, new, 1)
    if rng.random() < 0.3:
        parts.tail = parts.tail.replace(
            *rng.choice(((b"]", b""), (b"]", b"]]"), (b"}", b""), (b"}", b"}}"), (b",", b"")))
        )


def _bare_list(parts: Parts, rng: Random) -> None:
    parts.head, parts.tail = rng.choice(((b"[", b"]"), (b"[", b""), (b" \n[", b"],"), (b"[", b"]]"), (b"[[", b"]")))


def _cut_tail(parts: Parts, rng: Random) -> None:
    parts.tail = parts.tail[: rng.randrange(len(parts.tail) + 1)]


def _second_document(parts: Parts, rng: Random) -> None:
    parts.tail += rng.choice((b"", b"\n", b",", b"\0")) + rng.choice(
        (parts.render(), b"{}", b"]", b'{"traceEvents": []}')
    )


STRUCTURE_MUTATORS: tuple[StructureMutator, ...] = (
    *(_odd_value, _odd_value, _odd_value, _odd_value_everywhere, _odd_value_everywhere, _any_value, _any_value),
    *(_swapped_values, _renamed_key, _repeated_key, _dropped_key, _shifted_times, _moved_event, _dropped_event),
    *(_repeated_event, _no_event, _begin_and_end, _nested_event, _deep_value, _odd_metadata, _odd_metadata),
    *(_broken_frame, _bare_list, _cut_tail, _second_document),
)
_WEIGHTED_FIELDS = (*ODD_FIELDS, *sorted(TOP_FIELDS), b"ts", b"dur", b"ts", b"dur", b"correlation", b"External id")


# --- bytes ------------------------------------------------------------------------------------------------------------


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    """A stretch of the bytes, mostly short."""
    first = rng.randrange(len(data) + 1)
    return first, min(len(data), first + rng.choice((1, 1, 2, 4, 16, 100, 1000)))


def _flipped_bits(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _other_bytes(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + rng.randbytes(min(last - first, 16)) + data[last:]


def _inserted_bytes(data: bytes, rng: Random) -> bytes:
    first, _ = _span(data, rng)
    return data[:first] + rng.randbytes(rng.choice((1, 2, 5))) + data[first:]


def _deleted_span(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + data[last:]


def _repeated_span(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:last] + data[first:last] * rng.choice((1, 1, 3, 200)) + data[last:]


def _moved_span(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    rest = data[:first] + data[last:]
    to = rng.randrange(len(rest) + 1)
    return rest[:to] + data[first:last] + rest[to:]


def _cut_end(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _cut_start(data: bytes, rng: Random) -> bytes:
    return data[rng.randrange(min(len(data), 600) + 1) :]


def _spliced_token(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    token = rng.choice(TOKENS)
    return data[:first] + token + data[first if rng.random() < 0.7 else min(last, first + 4) :]


def _token_at_punctuation(data: bytes, rng: Random) -> bytes:
    """A token put next to, or in place of, what holds JSON together."""
    places = [found.start() for found in re.finditer(rb'["{}\[\]:,\\]', data)]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice(TOKENS) + data[at + rng.choice((0, 1)) :]


def _zeroed_span(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + bytes(last - first) + data[last:]


def _no_quotes(data: bytes, rng: Random) -> bytes:
    """One character of syntax gone from a stretch of the text."""
    first = rng.randrange(len(data) + 1)
    return data[:first] + data[first:].replace(rng.choice((b'"', b"}", b"]", b",", b":")), b"", rng.choice((1, 1, 5)))


def _other_encoding(data: bytes, rng: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32", "utf-7", "latin-1"))
    return text.encode(encoding, "replace")


def _crossed(data: bytes, other: bytes, rng: Random) -> bytes:
    """The beginning of one trace and the end of another."""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


BYTES_MUTATORS: tuple[BytesMutator, ...] = (
    *(_flipped_bits, _flipped_bits, _other_bytes, _inserted_bytes, _deleted_span, _deleted_span, _repeated_span),
    *(_moved_span, _cut_end, _cut_start, _spliced_token, _spliced_token, _token_at_punctuation, _token_at_punctuation),
    *(_zeroed_span, _no_quotes, _other_encoding),
)


# --- packed -----------------------------------------------------------------------------------------------------------


def _gzipped(data: bytes, rng: Random) -> bytes:
    """One gzip member, or two."""
    at = rng.randrange(len(data) + 1) if rng.random() < 0.2 else len(data)
    return b"".join(gzip.compress(part, rng.choice((0, 1, 6)), mtime=0) for part in (data[:at], data[at:]) if part)


def _zstd(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1) if rng.random() < 0.2 else len(data)
    sized, summed = rng.random() < 0.5, rng.random() < 0.5
    packer = zstandard.ZstdCompressor(level=1, write_content_size=sized, write_checksum=summed)
    return b"".join(packer.compress(part) for part in (data[:at], data[at:]) if part)


def _tarred(data: bytes, rng: Random) -> bytes:
    """An archive with the trace among other members."""
    names = ("rank-0.json", "a/b/rank1.pt.trace.json.gz", "../x.json", "x" * 120 + ".json", "notes.txt", "\u00e9.json")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=rng.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))) as archive:
        for _ in range(rng.choice((1, 1, 2, 3))):
            member = tarfile.TarInfo(rng.choice(names))
            member.size = len(data)
            member.type = rng.choice(
                (tarfile.REGTYPE,) * 6 + (tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.GNUTYPE_SPARSE)
            )
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _odd_tar_header(data: bytes, rng: Random) -> bytes:
    """A field of a tar header wrong while its checksum is right, so that a reader believes it."""
    headers = [at for at in range(0, len(data) - 511, 512) if data[at + 257 : at + 262] == b"ustar"]
    if not headers:
        return _flipped_bits(data, rng)
    at = rng.choice(headers)
    first, size = rng.choice(
        ((0, 100), (100, 8), (108, 8), (124, 12), (124, 12), (136, 12), (156, 1), (156, 1), (345, 155), (257, 8))
    )
    odd = (
        b"\xff" * size,
        b"\x80" + b"\xff" * (size - 1),
        b"9" * size,
        b"0" * size,
        b"",
        b"-1",
        b"7" * 11,
        b"xgSLKV12"[rng.randrange(8) :][:1],
    )
    header = bytearray(data[at : at + 512])
    header[first : first + size] = rng.choice(odd)[:size].ljust(size, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:at] + bytes(header) + data[at + 512 :]


def _odd_beginning(data: bytes, rng: Random) -> bytes:
    """Flips where formats keep their flags and sizes."""
    return _flipped_bits(data[:24], rng) + data[24:]


def _trailing_bytes(data: bytes, rng: Random) -> bytes:
    return data + rng.choice(
        (b"\0" * 8, b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x", b"\x1f\x8b\x08" + b"\0" * 40, data[:40], data)
    )


PACKERS: tuple[BytesMutator, ...] = (_gzipped, _gzipped, _zstd, _zstd, _tarred)
PACKED_MUTATORS: tuple[BytesMutator, ...] = (
    *(_flipped_bits, _flipped_bits, _other_bytes, _deleted_span, _cut_end, _cut_end, _zeroed_span, _moved_span),
    *(_odd_tar_header, _odd_tar_header, _odd_beginning, _trailing_bytes),
)
