"""Text of events to typed events: at full speed while the text is sound, event by event where it is not.

A batch is first decoded as a whole. Where that fails, the whole batch is mended in ways that cannot do harm and tried
again; where that fails too, each event is decoded, mended or dropped by itself, so damage costs at most its own event.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from redline.timeline.problems import ProblemLog, Reason
from redline.trace.document import BETWEEN_EVENTS, EventChunk, TraceDocument
from redline.trace.fast_decode import UNREADABLE, as_list, decoded_fast, repeats_keys
from redline.trace.repair import Mend, mends_of, repairs
from redline.trace.schema import CATEGORY_KEY, DURATION_KEY, KEPT_FIRST, TIME_AS_STRING, Args, ExactEvent
from redline.trace.times import Decoded, with_exact_times

_PUT_BACK_LIMIT_BYTES = 256 << 10
_REPAIR_LIMIT_BYTES = 1 << 20
_PATIENCE = 1000
_JOIN_LIMIT = 32  # pieces that a nested list of objects may have split one event into
_BETWEEN_VALUES = re.compile(r"[ \t\r\n,\0]*")

_EXACT = msgspec.json.Decoder(list[ExactEvent])
_EXACT_ONE = msgspec.json.Decoder(ExactEvent)


def decoded_batches(document: TraceDocument) -> Iterator[Decoded]:
    """All events of a document that can be had."""
    decoder = Decoder(document)
    for batch in document.batches():
        yield from decoder.decode(batch)
    decoder.finish()


class Decoder:
    """Decodes batch after batch; remembers which speed the file needs."""

    def __init__(self, document: TraceDocument) -> None:
        self._document = document
        self._log = document.log
        self._needs_exact = False
        self._joins, self._repairs, self._walks = _Luck(), _Luck(), _Luck(retry_every=16)
        self._oddities: set[Reason] = set()
        self._loose = loose_decoder(self._oddities)

    @property
    def needs_exact(self) -> bool:
        """Whether a batch had times that only exact decimals hold: then all after it are read so."""
        return self._needs_exact

    def finish(self) -> None:
        """Say so where the list of events has no end; to be called after the last batch."""
        if not self._document.ended and Reason.TRUNCATED_FILE not in self._log:
            self._log.add(Reason.TRUNCATED_FILE, offset=self._document.offset, example="no end of the event list")

    def decode(self, batch: EventChunk) -> Iterator[Decoded]:
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
        except UNREADABLE:
            return self._whole_mended(text, offset)
        return None if repeats_keys(text, decoded) else decoded

    def _whole_mended(self, text: bytes, offset: int) -> Decoded | None:
        for mends in mends_of(text):
            mended = _mended_by(mends, text)
            try:
                decoded = self._at_once(mended)
            except UNREADABLE:
                continue
            self._count_mended(text, offset, mends)
            return None if repeats_keys(mended, decoded) else decoded
        return None

    def _at_once(self, text: bytes) -> Decoded:
        events_text = as_list(text)
        if not self._needs_exact:
            try:
                fast = decoded_fast(events_text)
            except msgspec.ValidationError:
                fast = None
            if fast is not None:
                return fast
        events = _EXACT.decode(events_text)
        self._needs_exact = True
        self._log.add(Reason.NUMBER_AS_STRING, len(TIME_AS_STRING.findall(text)))
        return with_exact_times(events, self._log)

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
            decoded, used = self._events_of(text, pieces, index, offset, last=last)
            events += decoded
            index += used
        return with_exact_times(events, self._log)

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
            events, left, ended = self._walk_to_end(text[position:], offset + position)
            if ended:
                self._document.end_events(left)
                return events, len(pieces) - index
        events, left, ended = [], piece, False
        if not self._walks.exhausted or b"]" in piece:
            events, left, ended = self._walk(piece, offset + position)
        self._walks.note(success=bool(events) or ended)
        if ended:
            self._document.end_events(left + text[position + len(piece) :])
        elif left.strip():
            mended = self._mended(left, offset + position)
            if mended is not None:
                events.append(mended)
            else:
                self._give_up(left, offset + position, is_last_piece=index + 1 == len(pieces), is_last_batch=last)
        return events, 1

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
        oddities = self._oddities
        oddities.clear()
        while True:
            between = _BETWEEN_VALUES.match(text, position)
            position = between.end() if between else position
            if text.startswith("]", position):
                return events, text[position + 1 :].encode(), True
            try:
                value, end = self._loose.raw_decode(text, position)
            except (ValueError, RecursionError, ArithmeticError):
                return events, text[position:].encode(), False
            # Sound events are decoded as all others are, so that their texts are the same.
            event = None if oddities else self._one(text[position:end].encode())
            for reason in oddities:
                self._note(reason, offset, piece)
            oddities.clear()
            position = end
            event = event or event_from(value, self._log, offset)
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
            self._log.add(reason, offset=offset, example=" ".join(text[:160].decode("utf-8", "replace").split()))


class _Luck:
    """Whether an attempt that has failed many times in a row is still worth its time, on rubbish without end."""

    def __init__(self, retry_every: int = 0) -> None:
        self._failures = 0
        self._retry_every = retry_every  # of what was not tried, too, the failure is noted

    @property
    def exhausted(self) -> bool:
        is_retry = self._retry_every and self._failures % self._retry_every == 0
        return self._failures >= _PATIENCE and not is_retry

    def note(self, *, success: bool) -> None:
        self._failures = 0 if success else self._failures + 1


def _mended_by(mends: tuple[Mend, ...], text: bytes) -> bytes:
    for mend, _, _ in mends:
        text = mend(text)
    return text


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
    except UNREADABLE:
        return None


def _is_unfinished(text: bytes) -> bool:
    """Whether the text is the beginning of an event, sound as far as it goes."""
    try:
        _EXACT_ONE.decode(text)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except UNREADABLE:
        return False
    return False


def loose_decoder(oddities: set[Reason]) -> json.JSONDecoder:
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


def event_from(value: Any, log: ProblemLog, offset: int) -> ExactEvent | None:
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
    struct: {
        field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(struct) if field.name != "args"
    }
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
