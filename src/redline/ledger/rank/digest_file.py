"""A digest as a file of at most 32 KB: what does not fit is left out from the least important end, and said.

One zstd frame with a checksum, around MessagePack. Columns are differences of neighbours, little-endian.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import zstandard
from msgspec import Meta

from redline.artifacts import DIGEST_ENDING, Envelope, check_envelope, open_ordinary, read_whole, write_atomic
from redline.errors import InputError
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.rank import host_activity, kernel_table
from redline.ledger.rank.comparable_ranks import SIGNATURE, read_signature
from redline.ledger.rank.digest import Arithmetic, Digest, DigestOrigin, Facts
from redline.ledger.rank.digest_check import (
    check_exchanges,
    check_intervals,
    check_kernels,
    check_ledger,
    check_match,
    check_phases,
    check_rates,
)
from redline.ledger.rank.digest_limits import Amount, Count, Duration, Measure, Time
from redline.ledger.rank.exchanges import CollectiveSeries, Exchanges, PackedSpent, Spent
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Ledger
from redline.ledger.rank.packing import PackedIntervals, PackedRows, packed, unpacked
from redline.ledger.rank.phases import CELLS
from redline.ledger.rank.rank_match import RankMatch
from redline.storage import is_remote
from redline.timeline.intervals import Intervals
from redline.timeline.table import Column
from redline.timeline.timeline import NONE
from redline.values import common_fields, dataclass

KIND = "digest"
SCHEMA_VERSION = 2  # 2: matches of rules
MOST_BYTES = 32_768
_MAGIC = b"\x28\xb5\x2f\xfd"  # of any zstd frame
_BEGINNING = b"envelope"  # the first key
_LEVEL = 9
_MOST_INFLATED = 8_000_000
_MOST_ROWS = 64  # of the tables of kernels and of what the host did, at first
_TIMES = 2  # columns of exchanges that are times: on disk since 1970, in memory since the zero of the rank
_IN_TABLE = tuple(name for name in Exchanges.layout() if name != "sequence")
_SMALLEST = 16  # as many as tell what kind of work a rank does

Record = TypeVar("Record", DigestOrigin, Facts, Arithmetic, CollectiveSeries)
Shareable = TypeVar("Shareable", str, tuple[str, ...])


@dataclass(frozen=True, kw_only=True)
class _WireMatch:
    """A match of a rule in types that MessagePack has."""

    code: str
    by_step: bytes  # claimed and alone
    places: bytes  # starts and ends
    accounts: dict[str, Duration]
    figures: dict[str, Measure]
    names: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class _Wire:
    """A digest in types that MessagePack has."""

    envelope: dict[str, Any]
    origin: DigestOrigin
    facts: Facts
    zero_ns: Time
    window_ns: tuple[Time, Time]
    ledger: bytes  # start, end and accounts of each step
    outside: Annotated[tuple[Duration, ...], Meta(min_length=len(ACCOUNTS), max_length=len(ACCOUNTS))]
    exposed: bytes  # starts and ends
    arithmetic: Annotated[tuple[Arithmetic, ...], Meta(max_length=256)]
    signature: Annotated[tuple[Count, ...], Meta(min_length=SIGNATURE, max_length=SIGNATURE)]
    kernels: Annotated[tuple[KernelRow, ...], Meta(max_length=65_536)]
    doing: Annotated[tuple[HostActivity, ...], Meta(max_length=65_536)]
    exchanges: bytes  # the columns of Exchanges
    series: Annotated[tuple[CollectiveSeries, ...], Meta(max_length=65_536)]
    sightings: Annotated[tuple[_WireMatch, ...], Meta(max_length=256)]  # matches, under their name in files
    left_out: dict[str, Count]
    phases: Annotated[tuple[Duration, ...], Meta(max_length=CELLS)] = ()  # digests of before it was kept have none
    step_work: tuple[Amount, ...] = ()  # the same
    step_queue_ns: tuple[Duration, ...] = ()
    step_host_ns: tuple[Duration, ...] = ()
    fsdp_hooks: bytes = b"\x08"  # starts and ends, here of no hook
    memory: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # not in the file where no allocation was recorded
    sequence: bytes | msgspec.UnsetType = msgspec.UNSET  # of the exchanges; not in the file where none has a number


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


def encoded_whole(digest: Digest, made_by: str) -> bytes:
    """The same with nothing left out, however large."""
    return _compressed(digest, made_by)


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
    exchanges = len(_squeezed((_columns(short), _sequence(short.exchanges) or b"", short.series)))
    if kept.intervals > 1 and len(_squeezed(_edges(short.exposed))) > exchanges:
        return replace(kept, intervals=max(int(kept.intervals * share), 1))
    if kept.exchanges:
        return replace(kept, exchanges=int(kept.exchanges * share))
    return replace(kept, rows=max(kept.rows // 2, _SMALLEST), intervals=min(kept.intervals, 1))


def _shortened(digest: Digest, kept: _Kept) -> Digest:
    """The most expensive rows, the others added up; the first exchanges, as a beginning can be matched by order."""
    first = np.arange(min(kept.exchanges, len(digest.exchanges)))
    exchanges = digest.exchanges.take(first)
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
        doing=host_activity.shortened(digest.doing, kept.rows),
        exchanges=exchanges,
        spent=PackedSpent.of(digest.spent.unpacked().take(first)),
        series=digest.series[:used] if left_out["exchanges"] else digest.series,
        packed_exposed=PackedIntervals.of(exposed),
        packed_fsdp_hooks=PackedIntervals.of(_merged(digest.fsdp_hooks, kept.intervals)),
        left_out={**digest.left_out, **{what: count for what, count in left_out.items() if count > 0}},
    )


def _known(digest: Digest, exchanges: Exchanges) -> Intervals:
    """Exposed time up to the last of these exchanges: later, nothing tells whether it was waiting."""
    exposed = digest.exposed
    if len(exchanges) == len(digest.exchanges) or not len(exposed):
        return exposed
    first_ns = int(exposed.start[0])
    return exposed.clip(first_ns, int(exchanges.end_ns.max()) if len(exchanges) else first_ns)


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
    changed: dict[str, Any] = {
        "envelope": envelope.to_dict(),
        "ledger": packed(np.vstack([ledger.start_ns, ledger.end_ns, ledger.steps.T])),
        "outside": tuple(ledger.outside.tolist()),
        "exposed": _edges(digest.exposed),
        "signature": tuple(digest.signature.tolist()),
        "kernels": tuple(digest.kernels),
        "doing": tuple(digest.doing),
        "exchanges": _columns(digest),
        "sightings": tuple(map(_wire_match, digest.matches)),
        "fsdp_hooks": _edges(digest.fsdp_hooks),
        "memory": msgspec.Raw(digest.memory) if digest.memory else msgspec.UNSET,
        "sequence": _sequence(digest.exchanges),
    }
    return _squeezed(_Wire(**common_fields(digest, _Wire) | changed))


def _wire_match(match: RankMatch) -> _WireMatch:
    by_step = packed(np.vstack([match.claimed_ns, match.alone_ns]))
    return _WireMatch(**common_fields(match, _WireMatch) | {"by_step": by_step, "places": _edges(match.places)})


def _edges(time: Intervals) -> bytes:
    return packed(np.vstack([time.start, time.end]))


def _columns(digest: Digest) -> bytes:
    """Of exchanges, with times since 1970, and of what was spent around them."""
    exchanges = digest.exchanges.columns()
    columns = {name: exchanges[name] for name in _IN_TABLE} | digest.spent.unpacked().columns()
    table = np.vstack([column.astype(np.int64) for column in columns.values()])
    table[:_TIMES] += digest.zero_ns
    return packed(table)


def _sequence(exchanges: Exchanges) -> bytes | msgspec.UnsetType:
    is_numbered = (exchanges.sequence != NONE).any()
    return packed(exchanges.sequence.astype(np.int64)[None, :]) if is_numbered else msgspec.UNSET


def _squeezed(content: object) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(msgspec.msgpack.encode(content))


def is_digest(path: Path) -> bool:
    """By its name, else by its content."""
    if path.name.endswith(DIGEST_ENDING) or is_remote(path):  # in a store, every other look is a request
        return path.name.endswith(DIGEST_ENDING)
    with suppress(OSError, InputError, zstandard.ZstdError), os.fdopen(open_ordinary(path), "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            file.seek(0)
            return _BEGINNING in zstandard.ZstdDecompressor().stream_reader(file).read(2 * len(_BEGINNING))
    return False


def load_digest(path: Path) -> Digest:
    """Raises InputError where the file is no digest, or damaged."""
    return decoded(read_whole(path, _MOST_INFLATED, "a digest"), str(path))


def decoded(data: bytes, where: str, most_inflated_bytes: int = _MOST_INFLATED) -> Digest:
    try:
        text = _inflated(data, most_inflated_bytes)
        envelope = check_envelope(
            msgspec.msgpack.decode(text, type=_Enveloped).envelope, KIND, SCHEMA_VERSION, where=where
        )
        if envelope.schema_version < SCHEMA_VERSION:
            raise InputError(
                f"{where} was written by Redline {envelope.redline_version}, before this version learnt to see what it "
                "looks for in traces today. Make it anew from its trace: redline digest"
            )
        return _digest(msgspec.msgpack.decode(text, type=_Wire))
    except _UNSOUND as error:
        raise InputError(f"{where}: damaged, or not a digest ({error}). Make it anew: redline digest") from error


_UNSOUND = (
    *(zstandard.ZstdError, msgspec.MsgspecError, ValueError, TypeError, IndexError, AssertionError),
    RecursionError,  # nested without end
)


def _inflated(data: bytes, most_bytes: int) -> bytes:
    # Where a frame states its size, that much is allocated whatever the largest size that is asked for.
    stated = zstandard.get_frame_parameters(data).content_size
    if zstandard.CONTENTSIZE_UNKNOWN != stated > most_bytes:
        raise ValueError(f"{stated} bytes inflated")
    text: bytes = zstandard.ZstdDecompressor().decompress(data, max_output_size=most_bytes, allow_extra_data=False)
    return text


@dataclass(frozen=True, kw_only=True)
class _Enveloped:
    envelope: dict[str, Any]


def _digest(wire: _Wire) -> Digest:
    by_step = unpacked(wire.ledger, 2 + len(ACCOUNTS))
    ledger = Ledger(
        start_ns=by_step[0],
        end_ns=by_step[1],
        steps=by_step[2:].T,
        outside=np.array(wire.outside, np.int64),
        window_ns=wire.window_ns[1] - wire.window_ns[0],
    )
    check_ledger(ledger, wire.window_ns)
    exposed = Intervals(*unpacked(wire.exposed, 2))
    check_intervals("exposed", exposed, wire.window_ns)
    hooks = Intervals(*unpacked(wire.fsdp_hooks, 2))
    check_intervals("fsdp_hooks", hooks, wire.window_ns)
    exchanges, spent = _exchanges(wire)
    check_kernels(wire.kernels)
    check_rates(wire.facts, wire.arithmetic)
    check_phases(wire.phases, ledger)
    for sighting in wire.sightings:
        check_match(_match(sighting), ledger, wire.window_ns)
    changed: dict[str, Any] = {
        "origin": _shared_origin(wire.origin),
        "facts": _shared(wire.facts),
        "ledger": ledger,
        "packed_exposed": PackedIntervals.of(exposed),
        "arithmetic": tuple(map(_shared, wire.arithmetic)),
        "signature": read_signature(wire.signature),
        "kernels": PackedRows.of(wire.kernels, _kernels),
        "doing": PackedRows.of(wire.doing, _doing),
        "exchanges": exchanges,
        "spent": spent,
        "series": tuple(map(_shared, wire.series)),
        "matches": PackedRows.of(wire.sightings, _matches),
        "packed_fsdp_hooks": PackedIntervals.of(hooks),
        "memory": b"" if isinstance(wire.memory, msgspec.UnsetType) else bytes(wire.memory),
    }
    return Digest(**common_fields(wire, Digest) | changed)


def _exchanges(wire: _Wire) -> tuple[Exchanges, PackedSpent]:
    table = unpacked(wire.exchanges, len(_IN_TABLE) + len(Spent.layout()))
    table[:_TIMES] -= wire.zero_ns
    columns = dict(zip(_IN_TABLE, table, strict=False))
    columns["sequence"] = _read_sequence(wire.sequence, table.shape[1])
    exchanges = Exchanges(**columns | {name: columns[name].astype(np.int32) for name in ("series", "backward")})
    check_exchanges(exchanges, table[len(_IN_TABLE) :], wire.series)
    return exchanges.narrow(), PackedSpent.of_rows(table[len(_IN_TABLE) :])


def _read_sequence(data: bytes | msgspec.UnsetType, count: int) -> Column:
    if isinstance(data, msgspec.UnsetType):
        return np.full(count, NONE)
    sequence: Column = unpacked(data, 1)[0]
    if len(sequence) != count:
        raise ValueError(f"{len(sequence)} numbers of {count} exchanges")
    return sequence


def _kernels(data: bytes) -> tuple[KernelRow, ...]:
    return _KERNELS.decode(data)


def _doing(data: bytes) -> tuple[HostActivity, ...]:
    return _DOING.decode(data)


def _matches(data: bytes) -> Iterator[RankMatch]:
    return map(_match, _MATCHES.decode(data))


def _match(wire: _WireMatch) -> RankMatch:
    claimed_ns, alone_ns = unpacked(wire.by_step, 2)
    changed: dict[str, Any] = {
        "claimed_ns": claimed_ns,
        "alone_ns": alone_ns,
        "places": Intervals(*unpacked(wire.places, 2)),
    }
    return RankMatch(**common_fields(wire, RankMatch) | changed)


def _shared(record: Record) -> Record:
    """With texts and tuples of which there is one for all digests: thousands of ranks say the same."""
    for name in type(record).__slots__:  # the record was made a moment ago and nobody else has seen it
        value = getattr(record, name)
        if type(value) is str or type(value) is tuple:
            object.__setattr__(record, name, _only(value))
    return record


def _shared_origin(origin: DigestOrigin) -> DigestOrigin:
    versions, dropped = _only_dict(tuple(origin.versions.items())), _only_dict(tuple(origin.dropped.items()))
    return replace(_shared(origin), versions=versions, dropped=dropped)


@lru_cache(4096)
def _only(value: Shareable) -> Shareable:
    """The first that is equal to this one."""
    return value


@lru_cache(4096)
def _only_dict(items: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(items)


_KERNELS = msgspec.msgpack.Decoder(tuple[KernelRow, ...])
_DOING = msgspec.msgpack.Decoder(tuple[HostActivity, ...])
_MATCHES = msgspec.msgpack.Decoder(tuple[_WireMatch, ...])
