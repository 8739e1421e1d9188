"""Damage to the file as a whole: cut, empty, packed, renamed, in another encoding, no trace at all, or a bomb."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from redline.timeline.problems import Reason
from tests.support.damage.case import FILE_NAME, Expected, Made, Recipe, edit_one, edit_trace, reads, refused
from tests.support.damage.fields import DEPTH, NESTED
from tests.support.damage.text import Event, NoSuitableEventError, TraceText, a_cpu_op, has_key, to_bytes

GZ_NAME = "rank-0.json.gz"
TMP_NAME = FILE_NAME + ".tmp"
MIB = 1 << 20
MARGIN = 16
BOMB_MIB = 64
BLOCK = 128 * 1024  # the largest block of zstd
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345678\n"
)
HTML_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>\n"
    b'<body><h1>Not Found</h1><script>var traceEvents = [{"ph": "X"}];</script></body></html>\n'
)


def _gz(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


# cuts


def _after_cut(trace: TraceText, kept: int) -> Expected:
    """What is left when a trace ends after so many bytes."""
    if kept < len(to_bytes(trace.head)):
        return refused("NotATraceError", "no traceEvents")
    incomplete = [(event, begin) for event, begin, end in _places(trace) if end > kept]
    lost = [event for event, _ in incomplete]
    cut = sum(begin < kept for _, begin in incomplete)
    counts = {Reason.TRUNCATED_FILE: 1, Reason.CUT_EVENT: cut}
    return reads(counts, also=_knock_on(trace, lost), lost=lost, note=f"{kept} bytes of the text are left")


def _places(trace: TraceText) -> Iterator[tuple[Event, int, int]]:
    """Each event with the bytes where it begins and ends."""
    end = len(to_bytes(trace.head))
    for lead, event in zip(trace.leads, trace.events, strict=True):
        begin = end + len(to_bytes(lead))
        end = begin + len(to_bytes(event.text))
        yield event, begin, end


def _knock_on(trace: TraceText, lost: list[Event]) -> list[Reason]:
    """What else a reader notices when these events and the tail are gone."""
    gone = {event.index for event in lost}
    kept = [event for event in trace.timed if event.index not in gone]
    found = []
    if trace.has_rank and has_key(trace.tail, "distributedInfo"):
        found.append(Reason.RANK_INFERRED)
    if not kept:
        found.append(Reason.NO_EVENTS)
    launched = any("LaunchKernel" in event.name for event in kept)
    if launched and trace.kernels and not any(event.is_kernel for event in kept):
        found.append(Reason.NO_DEVICE_EVENTS)
    return found


def _at(trace: TraceText, share: float) -> int:
    return int(len(trace.events) * share)


def _inside(share: float) -> Callable[[TraceText], int]:
    """The byte in the middle of the event at this share of the list."""

    def place(trace: TraceText) -> int:
        event = trace.events[_at(trace, share)]
        return len(to_bytes(trace.before(event.index))) + len(to_bytes(event.text)) // 2

    return place


def _after_comma(trace: TraceText) -> int:
    """The byte after the comma that follows an event."""
    index = _at(trace, 0.6)
    lead = trace.leads[index]
    return len(to_bytes(trace.before(index))) - len(lead) + lead.index(",") + 1


def _inside_tail(trace: TraceText) -> int:
    return len(to_bytes(trace.head + trace.body())) + max(1, len(to_bytes(trace.tail)) // 2)


def _inside_head(trace: TraceText) -> int:
    return len(to_bytes(trace.head)) // 2


def _cut(place: Callable[[TraceText], int], *, padded: bool = False) -> Callable[[TraceText], Made]:
    """The file up to a byte, and for a crashed file system zeros from there on."""

    def make(trace: TraceText) -> Made:
        whole, kept = trace.render(), place(trace)
        padding = bytes(len(whole) - kept) if padded else b""
        return Made(data=whole[:kept] + padding, expected=_after_cut(trace, kept))

    return make


def _as_tmp(make: Callable[[TraceText], Made]) -> Callable[[TraceText], Made]:
    """The same under the name that an unfinished export leaves."""

    def make_tmp(trace: TraceText) -> Made:
        made = make(trace)
        expected = made.expected
        counts = {**expected.counts, Reason.UNFINISHED_EXPORT: 1}
        expected = replace(expected, reasons=expected.reasons | {Reason.UNFINISHED_EXPORT}, counts=counts)
        return Made(data=made.data, file_name=TMP_NAME, expected=expected)

    return make_tmp


def _cut_inside_character(trace: TraceText) -> Made:
    event = a_cpu_op(trace)
    named = to_bytes(event.naming("é"))
    data = to_bytes(trace.before(event.index)) + named[: named.index("é".encode()) + 1]
    return Made(data=data, expected=_after_cut(trace, len(to_bytes(trace.before(event.index))) + 1))


def _cut_gz(share: float) -> Callable[[TraceText], Made]:
    """Cut where the text ends well inside an event: inflaters differ in the last bytes they give out."""

    def make(trace: TraceText) -> Made:
        packed = _gz(trace.render())
        for size in range(int(len(packed) * share), len(packed)):
            kept = len(zlib.decompressobj(31).decompress(packed[:size]))
            if any(begin + MARGIN < kept < end - MARGIN for _, begin, end in _places(trace)):
                return Made(data=packed[:size], file_name=GZ_NAME, expected=_after_cut(trace, kept))
        raise NoSuitableEventError("too small a seed to cut")

    return make


def _gz_without_trailer(trace: TraceText) -> Made:
    expected = reads({Reason.TRUNCATED_FILE: 1}, note="only the checksum is missing")
    return Made(data=_gz(trace.render())[:-4], file_name=GZ_NAME, expected=expected)


# files as they are


def _whole(
    change: Callable[[bytes], bytes],
    counts: dict[Reason, int] | None = None,
    *,
    file_name: str = FILE_NAME,
    note: str = "",
) -> Callable[[TraceText], Made]:
    """The bytes of the whole file, changed at no cost to any event."""
    return lambda trace: Made(data=change(trace.render()), file_name=file_name, expected=reads(counts, note=note))


def _refused(
    data: bytes | Callable[[bytes], bytes],
    error: str,
    message_has: str = "",
    *,
    file_name: str = FILE_NAME,
    note: str = "",
) -> Callable[[TraceText], Made]:
    expected = refused(error, message_has, note=note)

    def make(trace: TraceText) -> Made:
        content = data if isinstance(data, bytes) else data(trace.render())
        return Made(data=content, file_name=file_name, expected=expected)

    return make


def _events_are(raw: str) -> Callable[[TraceText], Made]:
    """Some other value in place of the list of events."""

    def make(trace: TraceText) -> Made:
        head = trace.head[: trace.head.rindex("[")]
        tail = trace.tail[trace.tail.index("]") + 1 :]
        return Made(data=to_bytes(head + raw + tail), expected=refused("NotATraceError", "no events"))

    return make


def _no_list(trace: TraceText) -> Made:
    head = trace.head[: trace.head.rindex('"traceEvents"')].rstrip().rstrip(",")
    return Made(data=to_bytes(head + "\n}"), expected=refused("NotATraceError", "no traceEvents"))


def _deep_metadata(trace: TraceText) -> TraceText:
    return trace.with_metadata("deep", NESTED)


def _large_event(event: Event) -> str:
    stack = ";".join(["train.py(10): main"] * (MIB // 19))
    return event.text.replace('"args": {', f'"args": {{"Call stack": "{stack}", ', 1)


# packing


def _gz_of_nothing() -> bytes:
    """What torch leaves on a full disk: 29 bytes, with the name of the temporary file in the header."""
    header = b"\x1f\x8b\x08\x08" + struct.pack("<I", 0) + b"\x02\xff" + b"tmpw8r3k\x00"
    return header + b"\x03\x00" + struct.pack("<II", zlib.crc32(b""), 0)


def _two_members(data: bytes) -> bytes:
    return _gz(data[: len(data) // 2]) + _gz(data[len(data) // 2 :])


def _zstd(data: bytes) -> bytes:
    """A frame of blocks that are stored as they are."""
    parts = [b"\x28\xb5\x2f\xfd\x80\x38", struct.pack("<I", len(data))]
    for begin in range(0, len(data), BLOCK):
        block = data[begin : begin + BLOCK]
        last = begin + BLOCK >= len(data)
        parts += (struct.pack("<I", len(block) << 3 | last)[:3], block)
    return b"".join(parts)


def _tar(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(FILE_NAME)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(FILE_NAME), data)
    return buffer.getvalue()


@cache
def _bomb() -> bytes:
    """64 MiB of blanks in an open list of events, packed a thousand times smaller."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b'{"traceEvents": [')]
    parts += (packer.compress(b" " * MIB) for _ in range(BOMB_MIB))
    return b"".join([*parts, packer.flush()])


CUTS = (
    Recipe("F44-cut-early", _cut(_inside(0.25))),
    Recipe("F44-cut-mid-event", _cut(_inside(0.5))),
    Recipe("F44-cut-late", _cut(_inside(0.9))),
    Recipe("F44-cut-after-comma", _cut(_after_comma)),
    Recipe("F44-cut-inside-character", _cut_inside_character),
    Recipe("F44-cut-in-tail", _cut(_inside_tail)),
    Recipe("F44-cut-in-head", _cut(_inside_head)),
    Recipe("F44-nul-padding", _cut(_inside(0.5), padded=True)),
    Recipe("F44-nul-padding-between-events", _cut(_after_comma, padded=True)),
    Recipe("F44-tmp-mid-event", _as_tmp(_cut(_inside(0.75)))),
    Recipe("F44-tmp-after-comma", _as_tmp(_cut(_after_comma))),
    Recipe("F44-tmp-complete", _as_tmp(_whole(bytes, note="killed before the file got its name"))),
    Recipe("F44-only-a-brace", _refused(b"{", "NotATraceError", "no traceEvents")),
    *(Recipe(f"F45-gz-cut-at-{percent}-percent", _cut_gz(percent / 100)) for percent in (40, 60, 80, 95)),
    Recipe("F45-gz-without-trailer", _gz_without_trailer),
    Recipe("F45-gz-cut-in-header", _refused(lambda data: _gz(data)[:8], "NotATraceError", file_name=GZ_NAME)),
)

EMPTY = (
    Recipe("F11-gz-of-nothing", _refused(_gz(b""), "NotATraceError", "empty", file_name=GZ_NAME)),
    Recipe("F46-empty-file", _refused(b"", "NotATraceError", "empty")),
    Recipe("F46-empty-tmp", _refused(b"", "NotATraceError", "empty", file_name=TMP_NAME)),
    Recipe("F46-29-byte-gz", _refused(_gz_of_nothing(), "NotATraceError", "empty", file_name=GZ_NAME)),
)

ENCODINGS = (
    Recipe("F50-gz-name-plain-content", _whole(bytes, file_name=GZ_NAME)),
    Recipe("F50-plain-name-gz-content", _whole(_gz)),
    Recipe("F50-gz-of-two-members", _whole(_two_members, file_name=GZ_NAME)),
    Recipe("F50-gz-of-gz", _whole(lambda data: _gz(_gz(data)), file_name=GZ_NAME)),
    Recipe("F50-zstd", _whole(_zstd)),
    Recipe("F50-tar", _whole(_tar, file_name="traces.tar")),
    Recipe("F50-tar-gz", _whole(lambda data: _gz(_tar(data)), file_name="traces.tar.gz")),
    Recipe("F50-byte-order-mark", _whole(lambda data: b"\xef\xbb\xbf" + data, {Reason.BYTE_ORDER_MARK: 1})),
    *(
        Recipe(f"F50-utf-16-{name}", _whole(change, {Reason.UTF16_TEXT: 1}))
        for name, change in {
            "le": lambda data: b"\xff\xfe" + data.decode().encode("utf-16-le"),
            "be": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
        }.items()
    ),
    Recipe("F50-two-documents", _whole(lambda data: data + b"\n" + data, {Reason.TRAILING_CONTENT: 1})),
)

NOT_TRACES = (
    Recipe("F50-html-page", _refused(HTML_PAGE, "NotATraceError", "HTML page")),
    Recipe("F50-git-lfs-pointer", _refused(LFS_POINTER, "NotATraceError", "git-lfs pointer")),
    Recipe("F50-zip", _refused(_zip, "NotATraceError", "zip", file_name="rank-0.zip")),
    *(
        Recipe(f"F52-events-{kind}", _events_are(raw))
        for kind, raw in (("null", "null"), ("object", '{"a": 1}'), ("string", '"a"'))
    ),
    Recipe("F52-events-missing", _no_list),
    Recipe("F52-string-at-top", _refused(b'"hello"', "NotATraceError", "no traceEvents")),
    Recipe("F52-empty-object", _refused(b"{}", "NotATraceError", "no traceEvents")),
)

EXHAUSTING = (
    edit_one(
        "F39-large-event", a_cpu_op, _large_event, note="1 MiB in one argument; whole gigabytes are a benchmark's"
    ),
    edit_trace("F42-deep-metadata", _deep_metadata, {Reason.BAD_METADATA: 1}),
    Recipe("F42-deep-list", _refused(NESTED.encode(), "InputError")),
    Recipe("F42-deep-list-not-closed", _refused(b"[" * DEPTH, "InputError")),
    Recipe("F42-deep-object", _refused(b'{"a":' * DEPTH + b"1" + b"}" * DEPTH, "InputError")),
    Recipe("F42-gz-bomb", _refused(lambda _: _bomb(), "RefusedInputError", file_name=GZ_NAME)),
    Recipe("F42-gz-of-gz-bomb", _refused(lambda _: _gz(_bomb()), "InputError", file_name=GZ_NAME)),
)

RECIPES: tuple[Recipe, ...] = (*CUTS, *EMPTY, *ENCODINGS, *NOT_TRACES, *EXHAUSTING)
