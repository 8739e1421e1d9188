"""Text of events to typed events: at full speed while the text is sound, event by event where it is not.

A batch is first decoded as a whole. Where that fails, the whole batch is mended in ways that cannot do harm and tried
again; where that fails too, each event is decoded, mended or dropped by itself, so damage costs at most its own event.
"""

import json
import re
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
from redline.trace.repair import Mend, mends_of, repairs
from redline.trace.schema import (
    CATEGORY_KEY,
    DURATION_KEY,
    KEPT_FIRST,
    LARGE_FRACTION,
    TIME_AS_STRING,
    AnyEvent,
    Args,
    Event,
    ExactEvent,
)

NO_TIME = int(np.iinfo(np.int64).min)
_LARGEST_NS = 2**62 // 1000 * 1000  # times beyond are held here, so that no sum or difference leaves 64 bits
_DOUBLE_HOLDS_US = 2**43  # above this, doubles of microseconds are 2 ns and more apart
_DIGITS_OF_US = 16
_PUT_BACK_LIMIT_BYTES = 256 << 10
_REPAIR_LIMIT_BYTES = 1 << 20
_PATIENCE = 1000
_JOIN_LIMIT = 32  # pieces that a nested list of objects may have split one event into
_BETWEEN_VALUES = re.compile(r"[ \t\r\n,\0]*")
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ArithmeticError)

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
        self._joins, self._repairs = _Luck(), _Luck()

    def decode(self, batch: Batch) -> Iterator[Decoded]:
        if not batch.last:
            yield self._whole(batch.text, batch.offset) or self._piecewise(batch.text, batch.offset, last=False)
            return
        # What follows the list is in the last batch too, behind the last event, so that one is looked at by itself.
        body, rest = _split_last(batch.text)
        whole = self._whole(body, batch.offset)
        if whole is None:
            body, rest = b"", batch.text
        else:
            yield whole
        yield self._piecewise(rest, batch.offset + len(body), last=True)

    def _whole(self, text: bytes, offset: int) -> Decoded | None:
        """The batch decoded at once, as it is or after mends that are safe; None where it must go piece by piece."""
        try:
            decoded = self._at_once(text)
        except msgspec.ValidationError:
            return None
        except _UNREADABLE:
            return self._whole_mended(text, offset)
        return None if _repeats_keys(text, decoded) else decoded

    def _whole_mended(self, text: bytes, offset: int) -> Decoded | None:
        for mends in mends_of(text):
            mended = _mended_by(mends, text)
            try:
                decoded = self._at_once(mended)
            except _UNREADABLE:
                continue
            self._count_mended(text, offset, mends)
            return None if _repeats_keys(mended, decoded) else decoded
        return None

    def _at_once(self, text: bytes) -> Decoded:
        as_list = b"[" + text.rstrip().removesuffix(b",") + b"]"
        if not self._needs_exact:
            try:
                fast = _with_times(_FAST.decode(as_list), as_list)
            except msgspec.ValidationError:
                fast = None
            if fast is not None:
                return fast
        events = _EXACT.decode(as_list)
        self._needs_exact = True
        self._log.add(Reason.NUMBER_AS_STRING, len(TIME_AS_STRING.findall(text)))
        return _with_exact_times(events, self._log)

    def _count_mended(self, text: bytes, offset: int, mends: tuple[Mend, ...]) -> None:
        """How many events each mend touches."""
        for position, piece in _pieces(text):
            if _decoded_one(piece) is not None:
                continue
            for _, touches, reason in mends:
                if touches(piece):
                    self._note(reason, offset + position, piece)

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
            event, used = self._joined(text, pieces, index)
            if event is not None:
                return [event], used
            goes_on = not last and index + used == len(pieces) and len(text) - position < _PUT_BACK_LIMIT_BYTES
            if goes_on and _is_unfinished(text[position:]):
                self._document.put_back(text[position:])
                return [], used
        if last and len(pieces) - index <= _JOIN_LIMIT:  # perhaps one event, and behind it the end of the list
            found, left, ended = self._walk_to_end(text[position:], offset + position)
            if ended:
                self._document.end_events(left)
                return found, len(pieces) - index
        found, left, ended = self._walk(piece, offset + position)
        following = text[position + len(piece) :]
        if ended:
            self._document.end_events(left + following)
        elif left.strip():
            mended = self._mended(left, offset + position)
            if mended is not None:
                found.append(mended)
            else:
                self._give_up(left, offset + position, is_last_piece=not following, is_last_batch=last)
        return found, 1

    def _joined(self, text: bytes, pieces: list[tuple[int, bytes]], index: int) -> tuple[ExactEvent | None, int]:
        """The event that begins with a piece, and the pieces it took: a list of objects looks like several events."""
        position = pieces[index][0]
        used = 1
        while True:
            end = pieces[index + used][0] if index + used < len(pieces) else len(text)
            event = self._one(text[position:end])
            if event is not None:
                self._joins.note(success=used > 1)
                return event, used
            if (
                end == len(text)
                or used == _JOIN_LIMIT
                or self._joins.exhausted
                or not _is_unfinished(text[position:end])
            ):
                self._joins.note(success=False)
                return None, used
            used += 1

    def _give_up(self, left: bytes, offset: int, *, is_last_piece: bool, is_last_batch: bool) -> None:
        """Text that is no event, even mended: cut by the file's end, to be continued by the next batch, or lost."""
        if is_last_piece and not is_last_batch and len(left) < _PUT_BACK_LIMIT_BYTES:
            self._document.put_back(left)
            return
        reason = Reason.CUT_EVENT if is_last_piece and is_last_batch else Reason.UNREADABLE_EVENT
        self._note(reason, offset, left)

    def _walk(self, piece: bytes, offset: int) -> tuple[list[ExactEvent], bytes, bool]:
        """Value after value of the event list as plain JSON, what is left, and whether the list ended before that."""
        text, position = piece.decode("utf-8", "replace"), 0
        events: list[ExactEvent] = []
        oddities: set[Reason] = set()
        decoder = _loose_decoder(oddities)
        while True:
            between = _BETWEEN_VALUES.match(text, position)
            position = between.end() if between else position
            if text.startswith("]", position):
                return events, text[position + 1 :].encode(), True
            try:
                value, end = decoder.raw_decode(text, position)
            except (ValueError, RecursionError, ArithmeticError):
                return events, text[position:].encode(), False
            # Sound events are decoded as all others are, so that their texts are the same.
            event = None if oddities else self._one(text[position:end].encode())
            for reason in oddities:
                self._note(reason, offset, piece)
            oddities.clear()
            position = end
            event = event or _event_from(value, self._log, offset)
            if event is not None:
                events.append(event)

    def _walk_to_end(self, text: bytes, offset: int) -> tuple[list[ExactEvent], bytes, bool]:
        """The same with safe mends where it needs them; only if it leads to the end of the list is it right."""
        for mends in ((), *mends_of(text)):
            before = self._log.freeze()
            events, rest, ended = self._walk(_mended_by(mends, text), offset)
            if ended:
                for _, touches, reason in mends:
                    if touches(text):
                        self._note(reason, offset, text)
                return events, rest, True
            self._log.restore(before)
        return [], text, False

    def _one(self, text: bytes) -> ExactEvent | None:
        event = _decoded_one(text)
        if event is not None and TIME_AS_STRING.search(text):
            self._log.add(Reason.NUMBER_AS_STRING)
        return event

    def _mended(self, piece: bytes, offset: int) -> ExactEvent | None:
        """One event from damaged text, or None."""
        if len(piece) > _REPAIR_LIMIT_BYTES or self._repairs.exhausted:
            return None
        for text, reasons in repairs(piece):
            event = _decoded_one(text)
            if event is not None:
                for reason in dict.fromkeys(reasons):
                    self._note(reason, offset, piece)
                break
        else:
            event = None
        self._repairs.note(success=event is not None)
        return event

    def _note(self, reason: Reason, offset: int, text: bytes) -> None:
        if reason in self._log:
            self._log.add(reason)
        else:
            self._log.add(reason, offset=offset, example=_shown(text))


class _Luck:
    """Whether an attempt that has failed many times in a row is still worth its time, on rubbish without end."""

    def __init__(self) -> None:
        self._failures = 0

    @property
    def exhausted(self) -> bool:
        return self._failures >= _PATIENCE

    def note(self, *, success: bool) -> None:
        self._failures = 0 if success else self._failures + 1


def _mended_by(mends: tuple[Mend, ...], text: bytes) -> bytes:
    for mend, _, _ in mends:
        text = mend(text)
    return text


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


def _is_unfinished(text: bytes) -> bool:
    """Whether the text is the beginning of an event, sound as far as it goes."""
    try:
        _EXACT_ONE.decode(text)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except _UNREADABLE:
        return False
    return False


def _shown(text: bytes) -> str:
    return " ".join(text[:160].decode("utf-8", "replace").split())


# --- times ------------------------------------------------------------------------------------------------------------


def _with_times(events: list[Event], text: bytes) -> Decoded | None:
    """Times of the fast path, or None where a double cannot hold them exactly."""
    count = len(events)
    ts = np.fromiter(map(attrgetter("ts"), events), np.float64, count)
    dur = np.fromiter(map(attrgetter("dur"), events), np.float64, count)
    with np.errstate(invalid="ignore"):
        if bool((np.abs(ts) > _DOUBLE_HOLDS_US).any()) and LARGE_FRACTION.search(text):
            return None
    return Decoded(events, _ns_of(ts), _ns_of(dur))


def _ns_of(us: np.typing.NDArray[np.float64]) -> I64:
    """Whole nanoseconds. The fraction of a microsecond is taken apart: times 1000, a large double would round again."""
    usable = np.clip(np.where(np.isnan(us), 0, us), -_LARGEST_NS // 1000, _LARGEST_NS // 1000)
    whole = np.floor(usable)
    ns: I64 = whole.astype(np.int64) * 1000 + np.rint((usable - whole) * 1000).astype(np.int64)
    ns[np.isnan(us)] = NO_TIME
    return ns


def _with_exact_times(events: list[ExactEvent], log: ProblemLog) -> Decoded:
    count = len(events)
    start = np.fromiter((_exact_ns(event.ts, log) for event in events), np.int64, count)
    return Decoded(events, start, np.fromiter((_exact_ns(event.dur, log) for event in events), np.int64, count))


def _exact_ns(us: Decimal | None, log: ProblemLog) -> int:
    if us is None:
        return NO_TIME
    if not us.is_finite() or us.adjusted() > _DIGITS_OF_US:
        log.add(Reason.BAD_FIELD, example=f"a time of {us:.3e} us")
        return NO_TIME
    return max(-_LARGEST_NS, min(int((us * 1000).to_integral_value()), _LARGEST_NS))


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
        object_pairs_hook=resolve, parse_float=_bounded_decimal, parse_int=_bounded_int, parse_constant=nothing
    )


def _bounded_decimal(number: str) -> Decimal | None:
    try:
        return Decimal(number)
    except ArithmeticError:  # an exponent beyond what even a Decimal holds
        return None


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


_FIELDS = {
    struct: {one.encode_name: (one.name, one.type) for one in msgspec.structs.fields(struct) if one.name != "args"}
    for struct in (ExactEvent, Args)
}


def _fill(struct: ExactEvent | Args, values: dict[str, Any]) -> list[str]:
    """Set what fits the struct's types, and give the names of what does not."""
    bad = []
    known = _FIELDS[type(struct)]
    for key, value in values.items():
        if value is None or key not in known:
            continue
        name, wanted = known[key]
        try:
            if wanted is msgspec.Raw:
                converted: Any = msgspec.Raw(msgspec.json.encode(value))
            else:
                converted = msgspec.convert(value, wanted, strict=False)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            bad.append(key)
            continue
        setattr(struct, name, converted)
    return bad
