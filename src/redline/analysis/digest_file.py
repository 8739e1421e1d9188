"""A digest as a file of at most 32 KB: what does not fit is left out from the least important end, and said.

One zstd frame with a checksum, around MessagePack. Columns are differences of neighbours, little-endian.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

import msgspec
import numpy as np
import zstandard

from redline.analysis.accounts import ACCOUNTS
from redline.analysis.digest import Arithmetic, Digest, Facts, Origin
from redline.analysis.doing import Doing
from redline.analysis.exchanges import Exchanges, Series
from redline.analysis.kernel_table import KernelRow
from redline.analysis.ledger import Ledger
from redline.artifacts import Envelope, check_envelope, write_atomic
from redline.errors import InputError
from redline.timeline.intervals import Intervals
from redline.timeline.table import Column, narrowed
from redline.trace.find import DIGEST_ENDING

KIND = "digest"
SCHEMA_VERSION = 1
MOST_BYTES = 32_768
_MAGIC = b"\x28\xb5\x2f\xfd"  # of any zstd frame
_LEVEL = 9
_MOST_INFLATED = 8_000_000
_MOST_ROWS = 64  # of the tables of kernels and of what the host did, at first
_SMALLEST = 8

Row = TypeVar("Row", KernelRow, Doing)


@dataclass(frozen=True, kw_only=True)
class _Wire:
    """A digest in types that MessagePack has."""

    envelope: dict[str, Any]
    origin: Origin
    facts: Facts
    zero_ns: int
    window_ns: tuple[int, int]
    ledger: bytes  # start, end and accounts of each step
    outside: tuple[int, ...]
    exposed: bytes  # starts and ends
    arithmetic: tuple[Arithmetic, ...]
    kernels: tuple[KernelRow, ...]
    doing: tuple[Doing, ...]
    exchanges: bytes  # the columns of Exchanges
    series: tuple[Series, ...]
    left_out: dict[str, int]


def save_digest(digest: Digest, path: Path, *, made_by: str, force: bool = False) -> int:
    """Write it, and return its size in bytes."""
    data = encoded(digest, made_by)
    with write_atomic(path, force=force) as file:
        file.write(data)
    return len(data)


def encoded(digest: Digest, made_by: str) -> bytes:
    """The bytes of the file, within the limit wherever shortening tables and exchanges can achieve that."""
    rows, exchanges = _MOST_ROWS, len(digest.exchanges)
    while True:
        data = _compressed(_shortened(digest, rows, exchanges), made_by)
        if len(data) <= MOST_BYTES or (rows <= _SMALLEST and exchanges == 0):
            return data
        if rows > _SMALLEST and len(data) < 2 * MOST_BYTES:
            rows //= 2
        else:
            exchanges = min(exchanges // 2, int(exchanges * MOST_BYTES / len(data)))


def _shortened(digest: Digest, rows: int, exchanges: int) -> Digest:
    """The most expensive rows and the first exchanges: matching goes by order, so a beginning can be matched."""
    left_out = {
        "kernel_rows": len(digest.kernels) - rows,
        "kernel_ns": sum(row.time_ns for row in digest.kernels[rows:]),
        "doing_rows": len(digest.doing) - rows,
        "exchanges": len(digest.exchanges) - exchanges,
    }
    return replace(
        digest,
        kernels=digest.kernels[:rows],
        doing=digest.doing[:rows],
        exchanges=digest.exchanges.take(np.arange(min(exchanges, len(digest.exchanges)))),
        left_out={**digest.left_out, **{what: count for what, count in left_out.items() if count > 0}},
    )


def _compressed(digest: Digest, made_by: str) -> bytes:
    envelope = Envelope(
        kind=KIND, schema_version=SCHEMA_VERSION, made_by=made_by, synthetic=bool(digest.origin.synthetic)
    )
    ledger = digest.ledger
    wire = _Wire(
        envelope=envelope.to_dict(),
        origin=digest.origin,
        facts=digest.facts,
        zero_ns=digest.zero_ns,
        window_ns=digest.window_ns,
        ledger=_packed(np.vstack([ledger.start_ns, ledger.end_ns, ledger.steps.T])),
        outside=tuple(ledger.outside.tolist()),
        exposed=_packed(np.vstack([digest.exposed.start, digest.exposed.end])),
        arithmetic=digest.arithmetic,
        kernels=digest.kernels,
        doing=digest.doing,
        exchanges=_packed(np.vstack(list(digest.exchanges.columns().values()))),
        series=digest.series,
        left_out=digest.left_out,
    )
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(msgspec.msgpack.encode(wire))


def is_digest(path: Path) -> bool:
    return path.name.endswith(DIGEST_ENDING)


def load_digest(path: Path) -> Digest:
    """Raises InputError where the file is no digest, or damaged."""
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error


def decoded(data: bytes, where: str) -> Digest:
    try:
        text = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MOST_INFLATED)
        check_envelope(msgspec.msgpack.decode(text, type=_Enveloped).envelope, KIND, SCHEMA_VERSION, where=where)
        return _digest(msgspec.msgpack.decode(text, type=_Wire))
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError, KeyError, AssertionError) as error:
        raise InputError(f"{where}: damaged, or not a digest ({error}). Make it anew: redline digest") from error


@dataclass(frozen=True, kw_only=True)
class _Enveloped:
    envelope: dict[str, Any]


def _digest(wire: _Wire) -> Digest:
    start_ns, end_ns, *accounts = _unpacked(wire.ledger, 2 + len(ACCOUNTS))
    ledger = Ledger(
        start_ns=start_ns,
        end_ns=end_ns,
        steps=np.stack(accounts, axis=1),
        outside=np.array(wire.outside, np.int64),
        window_ns=wire.window_ns[1] - wire.window_ns[0],
    )
    ledger.self_check()
    exposed = Intervals(*_unpacked(wire.exposed, 2))
    exposed.self_check()
    layout = Exchanges.layout()
    columns = zip(layout.items(), _unpacked(wire.exchanges, len(layout)), strict=True)
    exchanges = Exchanges(**{name: column.astype(dtype, copy=False) for (name, dtype), column in columns})
    rest = {name: getattr(wire, name) for name in ("origin", "facts", "zero_ns", "window_ns", "arithmetic")}
    return Digest(
        ledger=ledger,
        exposed=exposed,
        exchanges=exchanges,
        kernels=tuple(map(_shared, wire.kernels)),
        doing=tuple(map(_shared, wire.doing)),
        series=wire.series,
        left_out=wire.left_out,
        **rest,
    )


def _shared(row: Row) -> Row:
    """With texts that all digests share: thousands of ranks say the same."""
    values = ((field.name, getattr(row, field.name)) for field in fields(row))
    texts: dict[str, Any] = {name: intern(value) for name, value in values if type(value) is str}
    return replace(row, **texts)


def _packed(rows: Column) -> bytes:
    """Rows of equal length: the first of each, then the differences of neighbours, in 32 bits where all of them fit."""
    first, steps = rows[:, :1].astype("<i8"), narrowed(np.diff(rows, axis=1).reshape(-1))
    return (
        bytes([steps.itemsize]) + first.tobytes() + np.ascontiguousarray(steps, steps.dtype.newbyteorder("<")).tobytes()
    )


def _unpacked(data: bytes, rows: int) -> Column:
    if len(data) == 1:
        return np.empty((rows, 0), np.int64)
    edge = 1 + 8 * rows
    first = np.frombuffer(data[1:edge], "<i8").reshape(rows, 1)
    steps = np.frombuffer(data[edge:], f"<i{data[0]}").reshape(rows, -1)
    return np.cumsum(np.concatenate([first, steps], axis=1), axis=1, dtype=np.int64)
