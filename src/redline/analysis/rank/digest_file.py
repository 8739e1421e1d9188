"""A digest as a file of at most 32 KB: what does not fit is left out from the least important end, and said.

One zstd frame with a checksum, around MessagePack. Columns are differences of neighbours, little-endian.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

import msgspec
import numpy as np
import zstandard

from redline.analysis.accounts import ACCOUNTS
from redline.analysis.rank import doing, kernel_table
from redline.analysis.rank.digest import Arithmetic, Digest, Facts, Origin
from redline.analysis.rank.doing import Doing
from redline.analysis.rank.exchanges import Exchanges, Series
from redline.analysis.rank.kernel_table import KernelRow
from redline.analysis.rank.ledger import Ledger
from redline.analysis.rank.sighting import Sighting
from redline.artifacts import Envelope, check_envelope, write_atomic
from redline.errors import InputError
from redline.timeline.intervals import Intervals
from redline.timeline.table import Column, narrowed
from redline.trace.find import DIGEST_ENDING

KIND = "digest"
SCHEMA_VERSION = 2  # 2: sightings of rules
MOST_BYTES = 32_768
_MAGIC = b"\x28\xb5\x2f\xfd"  # of any zstd frame
_BEGINNING = b"envelope"  # the first key
_LEVEL = 9
_MOST_INFLATED = 8_000_000
_MOST_ROWS = 64  # of the tables of kernels and of what the host did, at first
_SMALLEST = 16  # as many as tell what kind of work a rank does

Row = TypeVar("Row", KernelRow, Doing)


@dataclass(frozen=True, kw_only=True)
class _WireSighting:
    """A sighting in types that MessagePack has."""

    code: str
    by_step: bytes  # claimed and alone
    places: bytes  # starts and ends
    accounts: dict[str, int]
    figures: dict[str, float]
    names: dict[str, str]


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
    signature: tuple[int, ...]
    kernels: tuple[KernelRow, ...]
    doing: tuple[Doing, ...]
    exchanges: bytes  # the columns of Exchanges
    series: tuple[Series, ...]
    sightings: tuple[_WireSighting, ...]
    left_out: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A digest that was written."""

    size_bytes: int
    left_out: Mapping[str, int]


def save_digest(digest: Digest, path: Path, *, made_by: str, force: bool = False) -> Saved:
    data = encoded(digest, made_by)
    with write_atomic(path, force=force) as file:
        file.write(data)
    return Saved(size_bytes=len(data), left_out=decoded(data, str(path)).left_out)


def encoded(digest: Digest, made_by: str) -> bytes:
    """The bytes of the file, within the limit wherever shortening tables, exchanges and intervals can achieve that."""
    kept = _Kept(rows=_MOST_ROWS, exchanges=len(digest.exchanges), intervals=len(digest.exposed))
    while True:
        short = _shortened(digest, kept)
        data = _compressed(short, made_by)
        fewer = kept if len(data) <= MOST_BYTES else _fewer(kept, short, len(data))
        if fewer == kept:
            return data
        kept = fewer


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """How much of a digest goes into the file."""

    rows: int  # of each table
    exchanges: int
    intervals: int  # of exposed communication


def _fewer(kept: _Kept, short: Digest, size_bytes: int) -> _Kept:
    """Rows of tables first, where they can be enough; then whatever takes most room. The same where all is gone."""
    if kept.rows > _SMALLEST and size_bytes < 2 * MOST_BYTES:
        return replace(kept, rows=kept.rows // 2)
    share = min(MOST_BYTES / size_bytes, 0.8)
    exchanges = len(_squeezed((_columns(short.exchanges), short.series)))
    if kept.intervals > 1 and len(_squeezed(_edges(short.exposed))) > exchanges:
        return replace(kept, intervals=max(int(kept.intervals * share), 1))
    if kept.exchanges:
        return replace(kept, exchanges=int(kept.exchanges * share))
    return replace(kept, rows=max(kept.rows // 2, _SMALLEST), intervals=min(kept.intervals, 1))


def _shortened(digest: Digest, kept: _Kept) -> Digest:
    """The most expensive rows, the others added up; the first exchanges, as a beginning can be matched by order."""
    exchanges = digest.exchanges.take(np.arange(min(kept.exchanges, len(digest.exchanges))))
    used = int(exchanges.series.max()) + 1 if len(exchanges) else 0  # series are numbered as they appear
    exposed = _merged(_known(digest, exchanges), kept.intervals)
    left_out = {
        "kernel_rows": len(digest.kernels) - kept.rows,
        "doing_rows": len(digest.doing) - kept.rows,
        "exchanges": len(digest.exchanges) - len(exchanges),
        "intervals": len(digest.exposed) - len(exposed),
    }
    return replace(
        digest,
        kernels=kernel_table.shortened(digest.kernels, kept.rows),
        doing=doing.shortened(digest.doing, kept.rows),
        exchanges=exchanges,
        series=digest.series[:used] if left_out["exchanges"] else digest.series,
        exposed=exposed,
        left_out={**digest.left_out, **{what: count for what, count in left_out.items() if count > 0}},
    )


def _known(digest: Digest, exchanges: Exchanges) -> Intervals:
    """Exposed time up to the last of these exchanges: later, nothing tells whether it was waiting."""
    if len(exchanges) == len(digest.exchanges) or not len(digest.exposed):
        return digest.exposed
    last_ns = int(exchanges.end_ns.max()) - digest.zero_ns if len(exchanges) else int(digest.exposed.start[0])
    return digest.exposed.clip(int(digest.exposed.start[0]), last_ns)


def _merged(time: Intervals, count: int) -> Intervals:
    """At most so many intervals, by closing the smallest gaps; at least one where there is any."""
    if len(time) <= count:
        return time
    gaps = time.start[1:] - time.end[:-1]
    kept = np.sort(np.argsort(-gaps, kind="stable")[: max(count, 1) - 1])
    return Intervals(np.append(time.start[:1], time.start[kept + 1]), np.append(time.end[kept], time.end[-1:]))


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
        exposed=_edges(digest.exposed),
        arithmetic=digest.arithmetic,
        signature=digest.signature,
        kernels=digest.kernels,
        doing=digest.doing,
        exchanges=_columns(digest.exchanges),
        series=digest.series,
        sightings=tuple(map(_wire_sighting, digest.sightings)),
        left_out=digest.left_out,
    )
    return _squeezed(wire)


def _wire_sighting(seen: Sighting) -> _WireSighting:
    return _WireSighting(
        code=seen.code,
        by_step=_packed(np.vstack([seen.claimed_ns, seen.alone_ns])),
        places=_edges(seen.places),
        accounts=dict(seen.accounts),
        figures=dict(seen.figures),
        names=dict(seen.names),
    )


def _edges(time: Intervals) -> bytes:
    return _packed(np.vstack([time.start, time.end]))


def _columns(exchanges: Exchanges) -> bytes:
    return _packed(np.vstack(list(exchanges.columns().values())))


def _squeezed(content: object) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(msgspec.msgpack.encode(content))


def is_digest(path: Path) -> bool:
    """By its name, else by its content."""
    if path.name.endswith(DIGEST_ENDING):
        return True
    with suppress(OSError, zstandard.ZstdError), path.open("rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            file.seek(0)
            return _BEGINNING in zstandard.ZstdDecompressor().stream_reader(file).read(2 * len(_BEGINNING))
    return False


def load_digest(path: Path) -> Digest:
    """Raises InputError where the file is no digest, or damaged."""
    try:
        with path.open("rb") as file:
            return decoded(file.read(_MOST_INFLATED), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error


def decoded(data: bytes, where: str) -> Digest:
    try:
        text = _inflated(data)
        envelope = check_envelope(
            msgspec.msgpack.decode(text, type=_Enveloped).envelope, KIND, SCHEMA_VERSION, where=where
        )
        if envelope.schema_version < SCHEMA_VERSION:
            raise InputError(
                f"{where} was written by Redline {envelope.redline_version}, before this version learnt to see what it "
                "looks for in traces today. Make it anew from its trace: redline digest"
            )
        return _digest(msgspec.msgpack.decode(text, type=_Wire))
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise InputError(f"{where}: damaged, or not a digest ({error}). Make it anew: redline digest") from error


def _inflated(data: bytes) -> bytes:
    # Where a frame states its size, that much is allocated whatever the largest size that is asked for.
    stated = zstandard.get_frame_parameters(data).content_size
    if zstandard.CONTENTSIZE_UNKNOWN != stated > _MOST_INFLATED:
        raise ValueError(f"{stated} bytes inflated")
    text: bytes = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MOST_INFLATED, allow_extra_data=False)
    return text


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
    _check(exchanges, len(wire.series))
    rest = {
        name: getattr(wire, name) for name in ("origin", "facts", "zero_ns", "window_ns", "arithmetic", "signature")
    }
    return Digest(
        ledger=ledger,
        exposed=exposed,
        exchanges=exchanges,
        kernels=tuple(map(_shared, wire.kernels)),
        doing=tuple(map(_shared, wire.doing)),
        series=wire.series,
        sightings=tuple(_sighting(one, len(start_ns)) for one in wire.sightings),
        left_out=wire.left_out,
        **rest,
    )


def _sighting(wire: _WireSighting, steps: int) -> Sighting:
    claimed_ns, alone_ns = _unpacked(wire.by_step, 2)
    places = Intervals(*_unpacked(wire.places, 2))
    places.self_check()
    if len(claimed_ns) != steps or (claimed_ns < 0).any() or (claimed_ns > alone_ns).any():
        raise ValueError("a sighting that does not fit the steps")
    return Sighting(
        code=intern(wire.code),
        claimed_ns=claimed_ns,
        alone_ns=alone_ns,
        accounts=wire.accounts,
        places=places,
        figures=wire.figures,
        names=wire.names,
    )


def _check(exchanges: Exchanges, series: int) -> None:
    known = (exchanges.series >= 0) & (exchanges.series < series)
    if not known.all() or (exchanges.end_ns < exchanges.start_ns).any():
        raise ValueError("an exchange of no kind, or of no length")


def _shared(row: Row) -> Row:
    """With texts that all digests share: thousands of ranks say the same."""
    for name in _TEXTS[type(row)]:  # the row was made a moment ago and nobody else has seen it
        object.__setattr__(row, name, intern(getattr(row, name)))
    return row


_TEXTS = {KernelRow: ("operator", "kernel", "shapes", "dtype"), Doing: ("kind", "name", "region", "site")}


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
