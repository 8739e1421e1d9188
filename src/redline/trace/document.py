"""The shape of a trace document: metadata before the event list, text of whole events in batches, metadata after."""

import codecs
import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from redline.errors import InputError, NotATraceError, OtherKindError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.trace.inflate import PIECE_BYTES, Readable, TraceContent
from redline.trace.other_formats import what_it_is
from redline.trace.repair import double_backslashes
from redline.trace.schema import EVENTS_NAME, FIRST_KEYS, METADATA_KEYS
from redline.values import dataclass

HEAD_LIMIT_BYTES = 32 << 20  # of metadata before the first event; group lists of large jobs take megabytes
DEPTH_LIMIT = 1000
_KEY_BYTES = 64  # in which the key of the event list fits, with any sane white space
TAIL_LIMIT_BYTES = 4 << 20  # of metadata after the last event; a second document may follow, and is not wanted
EVENT_LIMIT_BYTES = 16 << 20  # of text without any sign of an event's end
_LOOK_BACK_BYTES = 2 << 10
_FILL_BYTES = 512 << 10
_FIRST_LOOK_BYTES = 256 << 10

BETWEEN_EVENTS = re.compile(rb"\}\s*,\s*(?=\{\s*(?:\}|\"(?:" + b"|".join(FIRST_KEYS) + rb')"\s*:))')
"""Where one event ends and another seems to begin. A string or a nested list may look like it: decoding decides."""

_EVENTS_START = re.compile(
    rb'"' + EVENTS_NAME.encode() + rb'"'
    rb"\s*:\s*(\S)"
)
_DECODER = json.JSONDecoder(strict=False)  # raw newlines in a string do no harm here


@dataclass(frozen=True, slots=True)
class EventChunk:
    """Text of events, separated by commas and nothing around them."""

    text: bytes
    offset: int  # of its first byte in the inflated document
    last: bool


@dataclass(frozen=True, slots=True)
class ChunkBoundary:
    """A place between two batches."""

    offset: int
    buffer: bytes
    pieces: int


class TraceDocument:
    """Reads one trace document forward, once, holding no more than a batch of it.

    Whoever decodes the batches tells by `put_back` what of a batch belongs to the next one,
    and by `end_events` that the list of events ended inside it.
    """

    def __init__(self, content: TraceContent) -> None:
        self.name = content.name
        self.log = content.log
        self.offset = 0  # of the first byte of the buffer in the inflated document
        self._stream = _Kept(_as_utf8(content.stream, content.log))
        self._buffer = b""
        self._head = b""
        self._tail: bytes | None = None
        self._bare_list = False
        self._again: bytes | None = None  # metadata between two lists of events

    def batches(self) -> Iterator[EventChunk]:
        """The events, some 1 MB at a time. The last batch may hold a cut event, and what follows the list."""
        self._find_events()
        yield from self.further_batches()

    def further_batches(self) -> Iterator[EventChunk]:
        """The batches from here on, of a document whose first ones were taken."""
        more = True
        while more and not self.ended:
            more = self._fill()
            cut = self._last_boundary() if more else len(self._buffer)
            if cut is None:
                if len(self._buffer) <= EVENT_LIMIT_BYTES:
                    continue
                cut = len(self._buffer)
            yield self._take(cut, last=not more)

    def mark(self) -> ChunkBoundary:
        """Where the next batch begins, to go back to. What is read from now on is kept until a later mark is passed."""
        self._stream.keeps = True
        return ChunkBoundary(self.offset, self._buffer, self._stream.pieces)

    def pass_by(self, mark: ChunkBoundary) -> None:
        """Nobody will go back to before this mark any more."""
        self._stream.forget(mark.pieces)

    def go_back(self, mark: ChunkBoundary) -> None:
        """Read on as if nothing had been read since the mark; nothing further is kept without another mark."""
        self.offset, self._buffer = mark.offset, mark.buffer
        self._stream.pieces = mark.pieces
        self._stream.keeps = False

    def put_back(self, text: bytes) -> None:
        """Give the unfinished end of a batch back, to be continued by the next."""
        self._buffer = text + self._buffer
        self.offset -= len(text)

    def end_events(self, rest: bytes) -> None:
        """The event list ended; `rest` is what followed its bracket in the batch."""
        self._tail = rest + self._buffer
        self.offset += len(self._buffer)
        while len(self._tail) <= TAIL_LIMIT_BYTES and self._second_list() is None:
            piece = self._stream.read(PIECE_BYTES)
            if not piece:
                return
            self._tail += piece
            self.offset += len(piece)
        if self._second_list() is None:
            self.log.add(Reason.TRAILING_CONTENT, example="a very long tail")

    def begins_again(self) -> bool:
        """Whether the object names a second list of events: then `further_batches` gives those."""
        match = self._second_list()
        if match is None or self._tail is None:
            return False
        self.log.add(Reason.DUPLICATE_KEY, example=f"a second {EVENTS_NAME}; its events were read, too")
        self._again = (self._again or b"") + self._tail[: match.start()].rstrip().removesuffix(b",")
        self._buffer, self._tail = self._tail[match.end() :], None
        self.offset -= len(self._buffer)
        self._stream.keeps = False  # nobody goes back from here
        return True

    def _second_list(self) -> re.Match[bytes] | None:
        """In what follows the events, if it is a part of the same object."""
        match = None if self._bare_list else _EVENTS_START.search(self._tail or b"")
        if match is None or match.group(1) != b"[":
            return None
        try:
            between = (self._tail or b"")[: match.start()].strip(b" \t\r\n,").decode("utf-8", "replace")
            _DECODER.decode("{" + between + "}")
        except (ValueError, RecursionError):
            return None
        return match

    @property
    def ended(self) -> bool:
        """Whether the closing bracket of the event list was seen."""
        return self._tail is not None

    def refuse_if_void(self, events: int) -> None:
        """A list without any event could be any JSON at all; an object named its list, so it may be empty."""
        if self._bare_list and not events:
            raise NotATraceError(f"{self.name}: a JSON list without any event, so not a trace.")

    def metadata(self) -> dict[str, Any]:
        """All metadata, from before and after the events; to be asked for when the batches are through."""
        head = {} if self._bare_list else _object_from(self._head.rstrip().rstrip(b",") + b"}", self.log)
        if self._tail is None:
            return head
        text = (self._again or b"") + self._tail.lstrip()
        if self._bare_list:
            self._note_trailing(text)
            return head
        if text.startswith(b","):
            after, rest = _leading_object(b"{" + text[1:], self.log)
            head = {**after, **head}
        else:
            rest = text.removeprefix(b"}") if text.startswith(b"}") else text
            if text == rest:
                self.log.add(Reason.TRUNCATED_FILE, example="no closing brace")
        self._note_trailing(rest)
        return head

    def _note_trailing(self, rest: bytes) -> None:
        rest = rest.strip(b" \t\r\n\0")
        if rest and Reason.TRAILING_CONTENT not in self.log:
            self.log.add(Reason.TRAILING_CONTENT, example=rest[:80].decode("utf-8", "replace"))

    def _fill(self) -> bool:
        """Read on by a good deal, however little a stream gives at a time; False at the end."""
        pieces, total = [], 0
        while total < _FILL_BYTES and (piece := self._stream.read(PIECE_BYTES)):
            pieces.append(piece)
            total += len(piece)
        self._buffer = b"".join((self._buffer, *pieces))
        return bool(total)

    def _take(self, size: int, *, last: bool) -> EventChunk:
        batch = EventChunk(self._buffer[:size], self.offset, last)
        self._drop(size)
        return batch

    def _drop(self, size: int) -> None:
        self._buffer = self._buffer[size:]
        self.offset += size

    def _last_boundary(self) -> int | None:
        """End of the last event that another one follows; searched from the back in growing windows."""
        window = _LOOK_BACK_BYTES
        while True:
            start = max(0, len(self._buffer) - window)
            end = None
            for match in BETWEEN_EVENTS.finditer(self._buffer, start):
                end = match.end()
            if end is not None or start == 0:
                return end
            window *= 8

    def _find_events(self) -> None:
        """Read up to the first event; refuse what is no trace, saying what it seems to be."""
        text = self._first_word()
        if text.startswith(b"["):
            self._bare_list = True
            self._drop(self._buffer.index(b"[") + 1)
            self._refuse_list_of_lists()
            return
        if not text.startswith(b"{"):
            if what := what_it_is(text):
                raise OtherKindError(f"{self.name}: not a trace but {what}")
            seems = _what_it_seems(self.name, text, self.log)
            raise (OtherKindError if text.startswith(_OTHER_KINDS) else NotATraceError)(seems)
        match = self._find_events_key()
        if match.group(1) != b"[":
            raise NotATraceError(f"{self.name}: its traceEvents is not a list, so there are no events in it.")
        self._head = self._buffer[: match.start()]
        self._drop(match.end())
        self._refuse_list_of_lists()

    def _first_word(self) -> bytes:
        """The buffer from the next byte on that is no white space; a file may hold any amount of that."""
        while True:
            text = self._buffer.lstrip()
            self._drop(len(self._buffer) - len(text))
            if text or not self._fill():
                return text

    def _find_events_key(self) -> re.Match[bytes]:
        searched = 0
        while True:
            match = _EVENTS_START.search(self._buffer, max(0, searched - _KEY_BYTES))
            if match is not None:
                return match
            if not searched and (what := what_it_is(self._buffer)):
                raise OtherKindError(f"{self.name}: not a trace but {what}")
            searched = len(self._buffer)
            self._refuse_deep_nesting()
            if searched > HEAD_LIMIT_BYTES or not self._fill():
                is_whole = self._buffer.rstrip().endswith(b"}")
                cut = "" if is_whole else ", or cut before it"
                raise (OtherKindError if is_whole else NotATraceError)(
                    f"{self.name}: JSON, but it has no traceEvents: not a trace of torch.profiler{cut}."
                )

    def _refuse_deep_nesting(self) -> None:
        opened = self._buffer.count(b"{") + self._buffer.count(b"[")
        if opened - self._buffer.count(b"}") - self._buffer.count(b"]") > DEPTH_LIMIT:
            raise RefusedInputError(
                f"{self.name}: nests deeper than {DEPTH_LIMIT:,} levels, as no trace does; not read."
            )

    def _refuse_list_of_lists(self) -> None:
        if self._first_word().startswith(b"["):
            raise NotATraceError(f"{self.name}: a list of lists, so there are no events in it.")


_OTHER_KINDS = (b"PK\x03\x04", b"\x80", b"PAR1", *(b"%c" % letter for letter in b'"-0123456789tfn'))


def _what_it_seems(name: str, text: bytes, log: ProblemLog) -> str:
    if not text:
        for problem in log.freeze():
            if problem.reason is Reason.TRUNCATED_FILE:
                return f"{name}: broken at its beginning, so nothing can be read ({problem.example}). Copy it again."
        return f"{name}: the file is empty: the disk was full or the export died. Record it again."
    seems = {
        b"<": "an HTML page (a failed download?)",
        b"version https://git-lfs": "a git-lfs pointer; run `git lfs pull` to get the trace",
        b"PK\x03\x04": "a zip archive; unpack it and give Redline the traces inside",
        b"\x80": "a pickle; if it is a memory snapshot, `redline memory` reads it",
        b"PAR1": "a Parquet file",
    }
    for start, what in seems.items():
        if text.startswith(start):
            return f"{name}: not a trace but {what}."
    if text[:1] in b'"-0123456789tfn':
        return f"{name}: perhaps JSON, but it has no traceEvents, so it is not a trace of torch.profiler."
    return f"{name}: not JSON, so not a trace of torch.profiler (begins with {text[:12]!r})."


class _Transcoded:
    """UTF-16 text as UTF-8."""

    def __init__(self, raw: Readable, ahead: bytes, encoding: str) -> None:
        self._raw, self._ahead = raw, ahead
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def read(self, size: int, /) -> bytes:
        while True:
            piece, self._ahead = self._ahead or self._raw.read(size), b""
            text = self._decoder.decode(piece, final=not piece)
            if text or not piece:
                return text.lstrip("\ufeff").encode("utf-8", "replace")


class _Continued:
    """Bytes already read, then the rest of a stream."""

    def __init__(self, ahead: bytes, raw: Readable) -> None:
        self._ahead, self._raw = ahead, raw

    def read(self, size: int, /) -> bytes:
        if self._ahead:
            piece, self._ahead = self._ahead, b""
            return piece
        return self._raw.read(size)


class _Kept:
    """A stream of which pieces can be read again, and errors met again, from the oldest that is kept."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._kept: deque[bytes | Exception] = deque()
        self._first = 0  # number of the first piece that is kept
        self.pieces = 0  # read so far
        self.keeps = False

    def read(self, size: int, /) -> bytes:
        self.pieces += 1
        place = self.pieces - 1 - self._first
        if place < len(self._kept):
            piece = self._kept[place]
        else:
            piece = self._next(size)
            if self.keeps:
                self._kept.append(piece)
            else:
                self._kept.clear()
                self._first = self.pieces
        if isinstance(piece, Exception):
            raise piece
        return piece

    def _next(self, size: int) -> bytes | Exception:
        try:
            return self._raw.read(size)
        except (InputError, OSError) as error:  # raised when it is read, each time
            return error

    def forget(self, before: int) -> None:
        while self._kept and self._first < before:
            self._kept.popleft()
            self._first += 1


def _as_utf8(stream: Readable, log: ProblemLog) -> Readable:
    head = b""
    while len(head) < len(codecs.BOM_UTF8) + 1:
        piece = stream.read(PIECE_BYTES)
        if not piece:
            break
        head += piece
    if head.startswith(codecs.BOM_UTF8):
        log.add(Reason.BYTE_ORDER_MARK)
        return _Continued(head.removeprefix(codecs.BOM_UTF8), stream)
    for encoding, mark, ascii_brace in (
        ("utf-16-le", codecs.BOM_UTF16_LE, (b"{\0", b"[\0")),
        ("utf-16-be", codecs.BOM_UTF16_BE, (b"\0{", b"\0[")),
    ):
        if head.startswith((mark, *ascii_brace)):
            log.add(Reason.UTF16_TEXT)
            return _Transcoded(stream, head, encoding)
    return _Continued(head, stream)


def _object_from(text: bytes, log: ProblemLog) -> dict[str, Any]:
    return _leading_object(text, log)[0]


def _leading_object(text: bytes, log: ProblemLog) -> tuple[dict[str, Any], bytes]:
    """The object that the text begins with and some of what follows; key by key where it does not parse as a whole."""
    decoded = problem = ""
    for size in (_FIRST_LOOK_BYTES, len(text)):  # what follows may be long, and is only asked for whether it is there
        decoded = text[:size].decode("utf-8", "replace").lstrip()
        try:
            value, end = _DECODER.raw_decode(decoded)
        except (ValueError, RecursionError) as error:
            problem = str(error)
            continue
        return value if isinstance(value, dict) else {}, decoded[end:].encode("utf-8", "replace")
    undamaged = double_backslashes(text)
    if undamaged != text:  # paths of Windows
        log.add(Reason.LONE_BACKSLASH, example="in the metadata")
        return _leading_object(undamaged, log)
    whole = decoded.rstrip().endswith("}")
    log.add(Reason.BAD_METADATA if whole else Reason.TRUNCATED_FILE, example=problem)
    return _known_keys(decoded), b""


def _known_keys(text: str) -> dict[str, Any]:
    """The metadata that matters, looked for key by key in text that does not parse as a whole."""
    members: dict[str, Any] = {}
    for key in METADATA_KEYS:
        match = re.search(rf'"{key}"\s*:\s*', text)
        if match is None:
            continue
        try:
            members[key], _ = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
    return members
