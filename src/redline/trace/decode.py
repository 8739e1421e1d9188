"""Text of events to typed events: at full speed while the text is sound, event by event where it is not.

A batch is first decoded as a whole. Where that fails, the whole batch is mended in ways that cannot do harm and tried
again; where that fails too, each event is decoded, mended or dropped by itself, so damage costs at most its own event.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I64
from redline.trace.document import BETWEEN_EVENTS, Batch, Document
from redline.trace.repair import mends_of, repairs
from redline.trace.schema import (
    CATEGORY_KEY,
    DURATION_KEY,
    KEPT_FIRST,
    TIME_AS_STRING,
    AnyEvent,
    Args,
    Event,
    ExactEvent,
)

_INT64 = np.iinfo(np.int64)
NO_TIME = _INT64.min
_LARGEST_US = _INT64.max // 1000 - 1
_DOUBLE_HOLDS_US = 2**53 / 1000  # above this a double of microseconds loses nanoseconds
_DIGITS_OF_NS = 18
_PUT_BACK_LIMIT_BYTES = 256 << 10
_JOIN_LIMIT = 3  # pieces that a nested list of objects may have split one event into
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_FAST = msgspec.json.Decoder(list[Event])
_EXACT = msgspec.json.Decoder(list[ExactEvent])
_EXACT_ONE = msgspec.json.Decoder(ExactEvent)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events with their times in whole nanoseconds; NO_TIME where a field is missing or no number."""

    events: Sequence[AnyEvent]
    start_ns: I64
    dur_ns: I64


def decoded_batches(document: Document) -> Iterator[Decoded]:
    """All events of a document that can be had."""
    decoder = _Decoder(document)
    for batch in document.batches():
        yield from decoder.decode(batch)
    if not document.ended and Reason.TRUNCATED_FILE not in document.log:
        document.log.add(Reason.TRUNCATED_FILE, offset=document.offset, example="no end of the event list")


class _Decoder:
    """Decodes batch after batch; remembers which speed the file needs."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._log = document.log
        self._needs_exact = False

    def decode(self, batch: Batch) -> Iterator[Decoded]:
        body, rest = (batch.text, b"") if not batch.last else _split_last(batch.text)
        if body.strip():
            yield self._whole(body, batch.offset) or self._piecewise(body, batch.offset, last=False)
        if rest.strip() and not self._document.ended:
            yield self._piecewise(rest, batch.offset + len(body), last=True)

    def _whole(self, text: bytes, offset: int) -> Decoded | None:
        """The batch decoded at once, as it is or after mends that are safe; None where it must go piece by piece."""
        try:
            decoded = self._at_once(text)
        except msgspec.ValidationError:
            return None
        except _UNREADABLE:
            damaged, mends = text, mends_of(text)
            for mend, _, _ in mends:
                text = mend(text)
            try:
                decoded = self._at_once(text)
            except _UNREADABLE:
                return None
            self._count_mended(damaged, offset, mends)
        return None if _repeats_keys(text, decoded) else decoded

    def _at_once(self, text: bytes) -> Decoded:
        as_list = b"[" + text.rstrip().removesuffix(b",") + b"]"
        if not self._needs_exact:
            try:
                fast = _with_times(_FAST.decode(as_list))
            except msgspec.ValidationError:
                fast = None
            if fast is not None:
                return fast
        events = _EXACT.decode(as_list)
        self._needs_exact = True
        self._log.add(Reason.NUMBER_AS_STRING, len(TIME_AS_STRING.findall(text)))
        return _with_exact_times(events, self._log)

    def _count_mended(self, text: bytes, offset: int, mends: tuple[Any, ...]) -> None:
        """How many events each mend touches."""
        for position, piece in _pieces(text):
            for _, touches, reason in mends:
                if touches(piece):
                    self._log.add(reason, offset=offset + position, example=_shown(piece))

    def _piecewise(self, text: bytes, offset: int, *, last: bool) -> Decoded:
        """Each event by itself; `last` says that nothing follows this text in the document."""
        events: list[ExactEvent] = []
        pieces = list(_pieces(text))
        index = 0
        while index < len(pieces) and not self._document.ended:
            found, used = self._events_of(text, pieces, index, offset, last=last)
            events += found
            index += used
        return _with_exact_times(events, self._log)

    def _events_of(
        self, text: bytes, pieces: list[tuple[int, bytes]], index: int, offset: int, *, last: bool
    ) -> tuple[list[ExactEvent], int]:
        """The event or events in a piece, and how many pieces that took."""
        position, piece = pieces[index]
        if piece.count(CATEGORY_KEY) < 2 and piece.count(DURATION_KEY) < 2:
            for used in range(1, _JOIN_LIMIT + 1):
                end = pieces[index + used][0] if index + used < len(pieces) else len(text)
                event = _decoded_one(text[position:end])
                if event is not None:
                    return [event], used
                if end == len(text):
                    break
        is_end = index == len(pieces) - 1
        found, left = self._walk(piece, offset + position)
        if self._document.ended or not left.strip():
            if self._document.ended and not is_end:
                self._document.end_events(left + text[pieces[index + 1][0] :])
            return found, 1
        mended = self._mended(left, offset + position)
        if mended is not None:
            return [*found, mended], 1
        if is_end and last:
            self._log.add(Reason.CUT_EVENT, offset=offset + position, example=_shown(left))
        elif is_end and len(left) < _PUT_BACK_LIMIT_BYTES:
            self._document.put_back(left)
        else:
            self._log.add(Reason.UNREADABLE_EVENT, offset=offset + position, example=_shown(left))
        return found, 1

    def _walk(self, piece: bytes, offset: int) -> tuple[list[ExactEvent], bytes]:
        """Value after value of the event list as plain JSON, and what could not be read; notices the list's end."""
        text, position = piece.decode("utf-8", "replace"), 0
        events: list[ExactEvent] = []
        while True:
            position += len(text) - position - len(text[position:].lstrip(" \t\r\n,\0"))
            if text.startswith("]", position):
                rest = text[position + 1 :].encode()
                self._document.end_events(rest)
                return events, rest
            oddities: set[Reason] = set()
            try:
                value, position = _loose_decoder(oddities).raw_decode(text, position)
            except (ValueError, RecursionError):
                return events, text[position:].encode()
            for reason in sorted(oddities, key=lambda reason: reason.code):
                self._log.add(reason, offset=offset, example=_shown(piece))
            event = _event_from(value, self._log, offset)
            if event is not None:
                events.append(event)

    def _mended(self, piece: bytes, offset: int) -> ExactEvent | None:
        """One event from damaged text, or None."""
        for text, reasons in repairs(piece):
            event = _decoded_one(text)
            if event is not None:
                for reason in dict.fromkeys(reasons):
                    self._log.add(reason, offset=offset, example=_shown(piece))
                return event
        return None


def _repeats_keys(text: bytes, decoded: Decoded) -> bool:
    """Whether there are more categories or durations in the text than events that have one.

    A name that was not escaped can bring its own fields along, so that an annotation poses as a kernel.
    """
    categories = sum(map(bool, map(attrgetter("cat"), decoded.events)))
    durations = int((decoded.dur_ns != NO_TIME).sum())
    return text.count(CATEGORY_KEY) > categories or text.count(DURATION_KEY) > durations


def _split_last(text: bytes) -> tuple[bytes, bytes]:
    """The text up to the last event boundary, and from there on."""
    end = 0
    for match in BETWEEN_EVENTS.finditer(text):
        end = match.end()
    return text[:end], text[end:]


def _pieces(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and text of what seems to be each event."""
    start = 0
    for match in BETWEEN_EVENTS.finditer(text):
        yield start, text[start : match.end()]
        start = match.end()
    yield start, text[start:]


def _decoded_one(text: bytes) -> ExactEvent | None:
    try:
        return _EXACT_ONE.decode(text.strip().removesuffix(b",").rstrip())
    except _UNREADABLE:
        return None


def _shown(text: bytes) -> str:
    return " ".join(text[:160].decode("utf-8", "replace").split())


# --- times ------------------------------------------------------------------------------------------------------------


def _with_times(events: list[Event]) -> Decoded | None:
    """Times of the fast path, or None where a double cannot hold them exactly."""
    count = len(events)
    ts = np.fromiter(map(attrgetter("ts"), events), np.float64, count)
    dur = np.fromiter(map(attrgetter("dur"), events), np.float64, count)
    with np.errstate(invalid="ignore"):
        if bool(((np.abs(ts) > _DOUBLE_HOLDS_US) & (ts != np.rint(ts))).any()):
            return None
    return Decoded(events, _ns_of(ts), _ns_of(dur))


def _ns_of(us: np.typing.NDArray[np.float64]) -> I64:
    """Whole nanoseconds. The fraction of a microsecond is taken apart: times 1000, a large double would round again."""
    too_large = np.abs(us) > _LARGEST_US
    usable = np.where(np.isnan(us) | too_large, 0, us)
    whole = np.floor(usable)
    ns: I64 = whole.astype(np.int64) * 1000 + np.rint((usable - whole) * 1000).astype(np.int64)
    ns[np.isnan(us)] = NO_TIME
    ns[too_large] = _INT64.max
    return ns


def _with_exact_times(events: list[ExactEvent], log: ProblemLog) -> Decoded:
    count = len(events)
    start = np.fromiter((_exact_ns(event.ts, log) for event in events), np.int64, count)
    return Decoded(events, start, np.fromiter((_exact_ns(event.dur, log) for event in events), np.int64, count))


def _exact_ns(us: Decimal | None, log: ProblemLog) -> int:
    if us is None:
        return int(NO_TIME)
    if not us.is_finite() or us.adjusted() + 3 >= _DIGITS_OF_NS + 1:
        log.add(Reason.BAD_FIELD, example=f"a time of {us:.3e} us")
        return int(NO_TIME)
    return int((us * 1000).to_integral_value())


# --- events whose JSON is sound but whose fields are not --------------------------------------------------------------


def _loose_decoder(oddities: set[Reason]) -> json.JSONDecoder:
    """A decoder of any JSON that resolves repeated keys and takes inf and NaN as missing, and says so."""

    def resolve(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        resolved: dict[str, Any] = {}
        for key, value in pairs:
            if key in resolved:
                oddities.add(Reason.DUPLICATE_KEY)
                if key in KEPT_FIRST:
                    continue
            resolved[key] = value
        return resolved

    def nothing(_: str) -> None:
        oddities.add(Reason.NOT_A_NUMBER)

    return json.JSONDecoder(
        object_pairs_hook=resolve, parse_float=Decimal, parse_int=_bounded_int, parse_constant=nothing
    )


def _bounded_int(digits: str) -> int | str:
    return int(digits) if len(digits) < 40 else digits


def _event_from(value: Any, log: ProblemLog, offset: int) -> ExactEvent | None:
    """An event from a JSON value, field by field; fields of the wrong type are taken as missing."""
    if not isinstance(value, dict):
        log.add(Reason.NOT_AN_EVENT, offset=offset, example=str(value)[:80])
        return None
    event = ExactEvent()
    bad = _fill(event, value)
    args = value.get("args")
    if isinstance(args, dict):
        event.args = Args()
        bad += _fill(event.args, args)
    elif args is not None:
        bad.append("args")
    if bad:
        log.add(Reason.BAD_FIELD, offset=offset, example=", ".join(bad))
    return event


def _fill(struct: ExactEvent | Args, values: dict[str, Any]) -> list[str]:
    """Set what fits the struct's types, and give the names of what does not."""
    bad = []
    for field in msgspec.structs.fields(struct):
        value = values.get(field.encode_name)
        if value is None or field.encode_name == "args":
            continue
        try:
            if field.type is msgspec.Raw:
                converted: Any = msgspec.Raw(msgspec.json.encode(value))
            else:
                converted = msgspec.convert(value, field.type, strict=False)
        except (msgspec.ValidationError, msgspec.MsgspecError, TypeError, RecursionError):
            bad.append(field.encode_name)
            continue
        setattr(struct, field.name, converted)
    return bad
