"""A digest as a file of at most 32 KB: what does not fit is left out from the least important end, and said.

One zstd frame with a checksum, around MessagePack. Columns are differences of neighbours, little-endian.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, kw_only=True)
class _Wire:
    """A digest in types that MessagePack has."""

    envelope: dict[str, Any]
    origin: Origin
    facts: Facts
    zero_ns: int
    window_ns: tuple[int, int]
    ledger: dict[str, bytes]
    exposed: dict[str, bytes]
    arithmetic: tuple[Arithmetic, ...]
    kernels: tuple[KernelRow, ...]
    doing: tuple[Doing, ...]
    exchanges: dict[str, bytes]
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
    columns = {"start_ns": ledger.start_ns, "end_ns": ledger.end_ns, "outside": ledger.outside}
    accounts = {f"steps.{name}": ledger.steps[:, place] for place, name in enumerate(ACCOUNTS)}
    wire = _Wire(
        envelope=envelope.to_dict(),
        origin=digest.origin,
        facts=digest.facts,
        zero_ns=digest.zero_ns,
        window_ns=digest.window_ns,
        ledger={name: _packed(values) for name, values in {**columns, **accounts}.items()},
        exposed={"start": _packed(digest.exposed.start), "end": _packed(digest.exposed.end)},
        arithmetic=digest.arithmetic,
        kernels=digest.kernels,
        doing=digest.doing,
        exchanges={name: _packed(values) for name, values in digest.exchanges.columns().items()},
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
    columns = {name: _unpacked(data) for name, data in wire.ledger.items()}
    steps = np.stack([columns[f"steps.{name}"] for name in ACCOUNTS], axis=1)
    ledger = Ledger(
        start_ns=columns["start_ns"],
        end_ns=columns["end_ns"],
        steps=steps,
        outside=columns["outside"],
        window_ns=wire.window_ns[1] - wire.window_ns[0],
    )
    ledger.self_check()
    exposed = Intervals(_unpacked(wire.exposed["start"]), _unpacked(wire.exposed["end"]))
    exposed.self_check()
    names = Exchanges.layout()
    exchanges = Exchanges(**{name: _unpacked(wire.exchanges[name]).astype(kind) for name, kind in names.items()})
    exchanges.self_check()
    rest = {name: getattr(wire, name) for name in ("origin", "facts", "zero_ns", "window_ns", "arithmetic")}
    tables = {name: getattr(wire, name) for name in ("kernels", "doing", "series", "left_out")}
    return Digest(ledger=ledger, exposed=exposed, exchanges=exchanges, **rest, **tables)


def _packed(values: Column) -> bytes:
    """First value and differences; in 32 bits where all of them fit."""
    steps = narrowed(np.diff(values.astype(np.int64), prepend=0)[1:]) if len(values) else values
    first = int(values[0]) if len(values) else 0
    little = np.ascontiguousarray(steps, steps.dtype.newbyteorder("<"))
    return (
        bytes([little.dtype.itemsize])
        + len(values).to_bytes(4, "little")
        + first.to_bytes(8, "little", signed=True)
        + little.tobytes()
    )


def _unpacked(data: bytes) -> Column:
    count, first = int.from_bytes(data[1:5], "little"), int.from_bytes(data[5:13], "little", signed=True)
    if not count:
        return np.empty(0, np.int64)
    steps = np.frombuffer(data[13:], f"<i{data[0]}").astype(np.int64)
    if len(steps) != count - 1:
        raise ValueError(f"a column has {len(steps) + 1} values instead of {count}")
    return np.cumsum(np.concatenate([[first], steps]))
