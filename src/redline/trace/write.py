"""Timelines that no file is of (a prediction, a what-if) as one trace that Perfetto opens and the reader reads back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from isal import igzip

from redline.artifacts import Envelope, refuse_unless_writable, write_atomic
from redline.errors import OutputError
from redline.timeline.timeline import Kind, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.metadata import written_metadata, written_rank_metadata
from redline.trace.perfetto import RankEvents

GZIP_LEVEL = 1
SEPARATOR = b",\n"
KIND = "predicted-trace"
ALTERED_KIND = "altered-trace"


def write_timelines(
    timelines: Sequence[Timeline], path: Path, *, made_by: str, notes: Sequence[str] = (), force: bool = False
) -> int:
    """One file of these ranks, which share a clock; gives the bytes of its text. `notes` say what was left out."""
    check_trace_name(path, force=force)
    size_bytes = 0
    with write_atomic(path, force=force) as file, compressed(file, path) as text:
        for piece in _document(timelines, made_by, notes):
            size_bytes += len(piece)
            text.write(piece)
    return size_bytes


def check_trace_name(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to before the work, not after."""
    if not path.name.endswith((".json", ".json.gz")):
        raise OutputError(f"{path}: a trace is written as .json or .json.gz; give it such a name.")
    refuse_unless_writable(path, force=force)


def head(record: dict[str, object]) -> bytes:
    """The beginning of a document, up to its first event."""
    return msgspec.json.encode(record)[:-1] + b',\n"' + schema.EVENTS_NAME.encode() + b'": [\n'


TAIL = b"\n]}\n"


@contextmanager
def compressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """The file itself, or what compresses into it if the name asks for that."""
    if path.suffix != ".gz":
        yield file
        return
    inner = cast(BinaryIO, igzip.open(file, "wb", compresslevel=GZIP_LEVEL))  # type: ignore[no-untyped-call]
    with inner:
        yield inner


def _document(timelines: Sequence[Timeline], made_by: str, notes: Sequence[str]) -> Iterator[bytes]:
    first = timelines[0]
    kind = ALTERED_KIND if first.origin is TimelineOrigin.ALTERED else KIND
    envelope = Envelope(kind=kind, schema_version=1, made_by=made_by, synthetic=bool(first.metadata.synthetic))
    zero_ns = min(timeline.zero_ns for timeline in timelines)
    yield head(
        {
            "redline": {**envelope.to_dict(), "notes": list(notes)},
            schema.ORIGIN_KEY: str(first.origin),
            schema.BASE_TIME_KEY: zero_ns,
            "displayTimeUnit": "ms",
            **(
                written_rank_metadata(first)
                if kind == ALTERED_KIND and len(timelines) == 1
                else written_metadata(first.metadata)
            ),
        }
    )
    separator = b""
    for timeline in timelines:
        events = RankEvents(
            timeline,
            timeline.zero_ns - zero_ns,
            frozenset(Kind),
            memory=True,
            further_tracks=kind != ALTERED_KIND,
        )
        for _, text in events:
            yield separator + text
            separator = SEPARATOR
    yield TAIL
