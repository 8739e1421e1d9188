"""Timelines as a file of columns: what was read once need not be decoded again.

Layout: magic, length of the header, checksum, header (JSON, zstd), then each column (little-endian, zstd) in order.
"""

import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zstandard
from isal import isal_zlib

from redline.artifacts import Envelope, check_envelope, write_atomic
from redline.errors import InputError
from redline.timeline.problems import Problem, Reason
from redline.timeline.table import Column
from redline.timeline.timeline import TABLES, Lane, Metadata, Origin, Source, Timeline

KIND = "timelines"
SCHEMA_VERSION = 1
_MAGIC = b"REDLINE\n"
_FRAME = struct.Struct("<QI")  # length of the header, checksum of it and all that follows
_LEVEL = 1  # a third more speed than the default, for a tenth more size
_REASONS = {reason.code: reason for reason in Reason}


def save(path: Path, timelines: tuple[Timeline, ...], key: str) -> None:
    """Write the timelines; `key` says what they were read from and is checked when they are loaded."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    blobs: list[bytes] = []
    described = [_described(timeline, compressor, blobs) for timeline in timelines]
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline.trace.store")
    header = compressor.compress(msgspec.json.encode({**envelope.to_dict(), "key": key, "timelines": described}))
    checksum = isal_zlib.crc32(header)
    for blob in blobs:
        checksum = isal_zlib.crc32(blob, checksum)
    with write_atomic(path, force=True) as file:
        file.write(_MAGIC + _FRAME.pack(len(header), checksum) + header)
        for blob in blobs:
            file.write(blob)


def load(path: Path, key: str) -> tuple[Timeline, ...]:
    """The timelines that were saved under this key. Raises InputError where the file is another's or damaged."""
    data = path.read_bytes()
    try:
        header, position = _header(data)
        check_envelope(header, KIND, SCHEMA_VERSION, where=str(path))
        if header["key"] != key:
            raise InputError(f"{path}: made from another state of the trace")
        body = memoryview(data)[position:]
        return tuple(_restored(one, body) for one in header["timelines"])
    except (zstandard.ZstdError, msgspec.MsgspecError, struct.error, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error})") from error


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    start = len(_MAGIC) + _FRAME.size
    if not data.startswith(_MAGIC):
        raise ValueError("not a file of timelines")
    length, checksum = _FRAME.unpack(data[len(_MAGIC) : start])
    if isal_zlib.crc32(memoryview(data)[start:]) != checksum:
        raise ValueError("its checksum is wrong")
    end = start + length
    header: dict[str, Any] = msgspec.json.decode(zstandard.ZstdDecompressor().decompress(data[start:end]))
    return header, end


def _described(timeline: Timeline, compressor: zstandard.ZstdCompressor, blobs: list[bytes]) -> dict[str, Any]:
    columns = []
    for table in TABLES:
        for name, array in getattr(timeline, table).columns().items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            blob = compressor.compress(little.view(np.uint8).data)
            columns.append((table, name, little.dtype.str, sum(map(len, blobs)), len(blob)))
            blobs.append(blob)
    problems = [(one.reason.code, one.count, one.first_offset, one.example) for one in timeline.source.problems]
    plain = ("rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata")
    source = {name: getattr(timeline.source, name) for name in ("path", "member", "inflated_bytes", "events")}
    return {
        **{name: getattr(timeline, name) for name in plain},
        "origin": str(timeline.origin),
        "source": source,
        "problems": problems,
        "columns": columns,
    }


def _restored(one: dict[str, Any], body: memoryview) -> Timeline:
    problems = tuple(
        Problem(_REASONS[code], count, offset, example) for code, count, offset, example in one["problems"]
    )
    return Timeline(
        origin=Origin(one["origin"]),
        rank=one["rank"],
        rank_origin=one["rank_origin"],
        zero_ns=one["zero_ns"],
        texts=tuple(one["texts"]),
        lanes=msgspec.convert(one["lanes"], tuple[Lane, ...]),
        step_anchor=one["step_anchor"],
        metadata=msgspec.convert(one["metadata"], Metadata),
        source=Source(**one["source"], problems=problems),
        **_tables(one["columns"], body),
    )


def _tables(columns: list[tuple[str, str, str, int, int]], body: memoryview) -> dict[str, Any]:
    decompressor = zstandard.ZstdDecompressor()
    arrays: dict[str, dict[str, Column]] = {table: {} for table in TABLES}
    for table, name, dtype, start, size in columns:
        raw = decompressor.decompress(body[start : start + size])
        arrays[table][name] = np.frombuffer(raw, np.dtype(dtype))
    return {table: TABLES[table](**arrays[table]) for table in TABLES}
