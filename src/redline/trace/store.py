"""Timelines as bytes of columns: what was read once need not be decoded again. What is loaded is checked like a trace.

Layout: length of the header, header (JSON, zstd), then each column (little-endian, zstd) in order.
"""

import struct
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
import zstandard

from redline.errors import InputError
from redline.timeline.problems import Problem, ProblemLog, Reason
from redline.timeline.table import Column, Table
from redline.timeline.timeline import NONE, TABLES, Lane, Metadata, Source, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.entries import most_inflated_bytes
from redline.trace.host_evidence import as_record, evidence_of
from redline.trace.rank_claim import LARGEST_JOB, is_rank
from redline.values import dataclass

KIND = "timelines"
SCHEMA_VERSION = 6  # 6: unused spans; 5: waits and numbers of collectives; 4: addresses of memory
_LENGTH = struct.Struct("<Q")
_LEVEL = 1  # a third more speed than the default, for a tenth more size
_REASONS = {reason.code: reason for reason in Reason}
_UNSOUND = (zstandard.ZstdError, msgspec.MsgspecError, struct.error, ValueError, TypeError, KeyError, AssertionError)
_PLAIN = ("origin", "rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata")


@dataclass(frozen=True, kw_only=True)
class _Header:
    """A timeline without its columns."""

    origin: TimelineOrigin
    rank: int
    rank_origin: str
    zero_ns: int
    texts: tuple[str, ...]
    lanes: tuple[Lane, ...]
    step_anchor: str
    metadata: Metadata
    path: str
    member: str
    inflated_bytes: int
    events: Mapping[str, int]
    unused: Mapping[str, tuple[int, int]]
    problems: tuple[tuple[str, int, int, str], ...]
    evidence: Mapping[str, Any]
    columns: tuple[tuple[str, str, str, int], ...]  # table, name, type and stored bytes of each


def packed(timelines: tuple[Timeline, ...]) -> list[bytes]:
    """The timelines in pieces of bytes."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    columns: list[bytes] = []
    header = compressor.compress(
        msgspec.json.encode([_header(timeline, compressor, columns) for timeline in timelines])
    )
    return [_LENGTH.pack(len(header)), header, *columns]


def _header(timeline: Timeline, compressor: zstandard.ZstdCompressor, blobs: list[bytes]) -> _Header:
    columns = []
    for table in TABLES:
        for name, array in getattr(timeline, table).columns().items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            blobs.append(compressor.compress(little.view(np.uint8).data))
            columns.append((table, name, little.dtype.str, len(blobs[-1])))
    source = timeline.source
    return _Header(
        **{name: getattr(timeline, name) for name in _PLAIN},
        **{name: getattr(source, name) for name in ("path", "member", "inflated_bytes", "events", "unused")},
        problems=tuple(
            (problem.reason.code, problem.count, problem.first_offset, problem.example) for problem in source.problems
        ),
        evidence=as_record(timeline.evidence),
        columns=tuple(columns),
    )


def unpacked(data: memoryview) -> tuple[Timeline, ...]:
    """The timelines that were packed. Raises InputError where they cannot be what a trace was read as."""
    try:
        (length,) = _LENGTH.unpack(data[: _LENGTH.size])
        inflating = _Inflating(len(data))
        text = inflating.inflated(data[_LENGTH.size : _LENGTH.size + length])
        headers = msgspec.json.decode(text, type=tuple[_Header, ...])
        rest = data[_LENGTH.size + length :]
        timelines = []
        for header in headers:
            size = sum(column[3] for column in header.columns)
            timelines.append(_restored(header, rest[:size], inflating))
            rest = rest[size:]
        return tuple(timelines)
    except _UNSOUND as error:
        raise InputError(f"damaged ({error})") from error


class _Inflating:
    """Inflates pieces as long as all of them together stay within what the size of the entry allows."""

    def __init__(self, stored_bytes: int) -> None:
        self._left = most_inflated_bytes(stored_bytes)
        self._decompressor = zstandard.ZstdDecompressor()

    def inflated(self, blob: memoryview) -> bytes:
        # A frame that does not state its size is not ours; one that does gets that much memory at once.
        size = zstandard.get_frame_parameters(blob).content_size
        if not 0 <= size <= self._left:
            raise ValueError(f"{size} bytes inflated")
        self._left -= size
        data: bytes = self._decompressor.decompress(blob, max_output_size=size, allow_extra_data=False)
        return data


def _restored(header: _Header, body: memoryview, inflating: _Inflating) -> Timeline:
    problems = tuple(Problem(_REASONS[code], count, offset, text) for code, count, offset, text in header.problems)
    log = ProblemLog()
    evidence = evidence_of({schema.EVIDENCE_KEY: header.evidence}, 0, log)
    if log.freeze():
        raise ValueError(log.freeze()[0].example)
    timeline = Timeline(
        **{name: getattr(header, name) for name in _PLAIN},
        source=Source(
            path=header.path,
            member=header.member,
            inflated_bytes=header.inflated_bytes,
            events=header.events,
            unused=header.unused,
            problems=problems,
        ),
        evidence=evidence,
        **_tables(header, body, inflating),
    )
    _check_numbers(timeline)
    timeline.self_check()
    return timeline


def _tables(header: _Header, body: memoryview, inflating: _Inflating) -> dict[str, Any]:
    arrays: dict[str, dict[str, Column]] = {table: {} for table in TABLES}
    for table, name, dtype, size in header.columns:
        kind: type[Table] = TABLES[table]
        declared = kind.layout()[name]
        narrow = np.dtype(np.int32) if declared == np.int64 else declared
        if np.dtype(dtype) not in (declared, narrow) or size < 0:
            raise ValueError(f"{table}.{name} holds {dtype}")
        arrays[table][name] = np.frombuffer(inflating.inflated(body[:size]), np.dtype(dtype))
        body = body[size:]
    return {table: TABLES[table](**arrays[table]) for table in TABLES}


def _check_numbers(timeline: Timeline) -> None:
    """Numbers beside the columns are within what the reader lets pass."""
    metadata, source = timeline.metadata, timeline.source
    if not (timeline.rank == NONE or is_rank(timeline.rank)) or not 0 <= metadata.world_size <= LARGEST_JOB:
        raise ValueError("no job has such a rank")
    numbers = [timeline.zero_ns, source.inflated_bytes, *source.events.values()]
    numbers += [number for amounts in source.unused.values() for number in amounts]
    numbers += [number for lane in timeline.lanes for number in (lane.device, lane.stream)]
    numbers += [value for device in metadata.devices for value in asdict(device).values() if isinstance(value, int)]
    numbers += [number for problem in source.problems for number in (problem.count, problem.first_offset)]
    numbers += [rank for ranks in metadata.group_ranks.values() for rank in ranks]
    if max(map(abs, numbers)) >= 2**63:
        raise ValueError("a number beyond 64 bits")
