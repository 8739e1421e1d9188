"""Bytes of a trace file, whatever wraps them: gzip, zstd, tar or nothing; told by content, inflated under limits."""

import os
import tarfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard
from isal import isal_zlib

from redline.artifacts import open_ordinary
from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.units import format_bytes
from redline.values import dataclass

PIECE_BYTES = 1 << 20
FEED_BYTES = 64 << 10  # of compressed data at a time: what a broken spot may cost
TAR_READ_BYTES = 4 << 10  # a read that meets the end of a cut archive gives nothing at all
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_BEGINNINGS = (ZSTD_MAGIC, *(bytes([number]) + b"\x2a\x4d\x18" for number in range(0x50, 0x60)))
"""Of a frame, and of a frame that is to be skipped: pzstd and seekable files have them."""
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
WRAPPERS_DEEP = 3  # a gzip of a tar of gzips is normal, more is not
_GZIP_TRAILER_BYTES = 8
_BROKEN = (cast(type[Exception], isal_zlib.error), zstandard.ZstdError, ValueError)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a file may inflate. Real traces compress 13 to 45 times; bombs 1,000 times."""

    ratio: int = 200
    ratio_from_bytes: int = 8 << 20  # a small file may compress absurdly well
    inflated_bytes: int = 64 << 30


class Readable(Protocol):
    """What the rest of the reader needs of a stream."""

    def read(self, size: int, /) -> bytes: ...


class _Counted:
    """A stream that counts what was read of it; compressed bytes are charged where the file is read."""

    def __init__(self, raw: Readable, size: int = 0) -> None:
        self._raw = raw
        self.size = size  # of the whole, where it is known
        self.total = 0

    def read(self, size: int, /) -> bytes:
        piece = self._raw.read(size)
        self.total += len(piece)
        return piece


class _Peeked:
    """A stream whose first bytes can be looked at before reading."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size:
            piece = self._raw.read(size - len(self._ahead))
            if not piece:
                break
            self._ahead += piece
        return self._ahead[:size]

    def read(self, size: int, /) -> bytes:
        if self._ahead:
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
            return piece
        return self._raw.read(size)


class _Packed:
    """The inflated bytes of gzip members or zstd frames, one after the other.

    A broken or cut end is logged, not raised: what was inflated before it counts.
    """

    def __init__(self, raw: Readable, log: ProblemLog, *, new_part: type["_GzipPart"] | type["_ZstdPart"]) -> None:
        self._raw, self._log, self._new_part = raw, log, new_part
        self._pending = b""
        self._part = new_part()
        self._at_end = False

    def read(self, size: int, /) -> bytes:
        while True:
            while len(self._pending) < self._new_part.feed_bytes and not self._at_end:
                more = self._raw.read(FEED_BYTES)
                self._pending += more
                self._at_end = not more
            if self._at_end and not self._pending and not self._part.begun:
                return b""
            piece, going_on = self._inflated()
            if piece or not going_on:
                return piece

    def _inflated(self) -> tuple[bytes, bool]:
        """The next bytes, and whether any may follow."""
        if not self._part.begun and not self._pending.startswith(self._new_part.magic):
            return b"", self._stop_at_rest()
        if self._at_end and not self._pending:
            return b"", self._stop("the compressed data ends early")
        try:
            piece, self._pending = self._part.inflate(self._pending)
        except _BROKEN as error:
            return b"", self._stop(str(error))
        if self._part.done:
            if self._part.is_wrong:
                self._log.add(Reason.TRUNCATED_FILE, example="a wrong checksum: some of it may be wrong")
            self._part = self._new_part()
        return piece, True

    def _stop(self, why: str) -> bool:
        if Reason.TRUNCATED_FILE not in self._log:
            self._log.add(Reason.TRUNCATED_FILE, example=why)
        return self._end()

    def _stop_at_rest(self) -> bool:
        if self._pending.strip(b"\0"):
            self._log.add(Reason.TRAILING_CONTENT, example="bytes after the compressed data")
        return self._end()

    def _end(self) -> bool:
        self._pending, self._at_end, self._part = b"", True, self._new_part()
        return False


class _GzipPart:
    """One gzip member. Its checksum is compared here: the library would drop what it inflated beside a wrong one."""

    magic = GZIP_MAGIC
    feed_bytes = 64 << 10

    def __init__(self) -> None:
        self._inflater = isal_zlib.decompressobj(wbits=-15)
        self._checksum = 0
        self.begun = self.done = self.is_wrong = False

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        """Inflated bytes, and the data that was not used."""
        if not self.begun:
            data = data[_gzip_header_bytes(data) :]
            self.begun = True
        piece = bytes(self._inflater.decompress(data, PIECE_BYTES))
        self._checksum = isal_zlib.crc32(piece, self._checksum)
        if not self._inflater.eof:
            return piece, bytes(self._inflater.unconsumed_tail)
        rest = bytes(self._inflater.unused_data)
        trailer = rest[:_GZIP_TRAILER_BYTES]
        self.is_wrong = len(trailer) < _GZIP_TRAILER_BYTES or int.from_bytes(trailer[:4], "little") != self._checksum
        self.done, self.begun = True, False
        return piece, rest[_GZIP_TRAILER_BYTES:]


def _gzip_header_bytes(data: bytes) -> int:
    """Length of a gzip header; what is not there, or cut, is an error."""
    extra, name, comment, checksum = 4, 8, 16, 2
    if len(data) < 10 or data[2] != 8:
        raise ValueError("a damaged gzip header")
    flags, end = data[3], 10
    if flags & extra:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for text in (name, comment):
        if flags & text:
            end = data.find(b"\0", end) + 1
            if not end:
                raise ValueError("a damaged gzip header")
    return end + 2 if flags & checksum else end


class _ZstdPart:
    """One zstd frame. Fed little by little: a few bytes can hold a block, and what a call inflates has no cap."""

    magic = ZSTD_BEGINNINGS
    feed_bytes = 512

    def __init__(self) -> None:
        self._inflater = zstandard.ZstdDecompressor().decompressobj()
        self.begun = self.done = self.is_wrong = False

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        """Inflated bytes, and the data that was not used."""
        now, later = data[: self.feed_bytes], data[self.feed_bytes :]
        self.begun = True
        piece = bytes(self._inflater.decompress(now))
        if self._inflater.eof:
            self.done, self.begun = True, False
            return piece, bytes(self._inflater.unused_data) + later
        return piece, later


class _Limited:
    """A stream that refuses to inflate beyond the limits."""

    def __init__(self, raw: Readable, compressed: _Counted, limits: Limits, name: str) -> None:
        self._raw, self._compressed, self._limits, self._name = raw, compressed, limits, name
        self._total = 0

    def read(self, size: int, /) -> bytes:
        piece = self._raw.read(size)
        self._total += len(piece)
        limits = self._limits
        if self._total > limits.inflated_bytes:
            raise RefusedInputError(
                f"{self._name}: inflates to more than {format_bytes(limits.inflated_bytes)}; not read.\n"
                "If it is a real trace, inflate it first and give Redline the plain file."
            )
        if self._total > max(limits.ratio_from_bytes, limits.ratio * self._compressed.total):
            raise RefusedInputError(
                f"{self._name}: inflates more than {limits.ratio} times, as no trace does (a bomb?); not read.\n"
                "If it is a real trace, inflate it first and give Redline the plain file."
            )
        return piece


@dataclass(frozen=True, kw_only=True)
class TraceContent:
    """One document inside a file."""

    name: str  # for messages
    member: str  # inside an archive, else ""
    stream: Readable
    log: ProblemLog


def contents(path: Path, limits: Limits | None = None) -> Iterator[TraceContent]:
    """Each document of a file, to be read before the next is asked for; archives are streamed, never extracted."""
    with RegularFile(path) as file:
        counted = _Counted(file, os.fstat(file.fileno()).st_size)
        yield from _unwrap(counted, counted, limits or Limits(), str(path), "", ProblemLog(), depth=0)


def _unwrap(
    raw: Readable, compressed: _Counted, limits: Limits, name: str, member: str, log: ProblemLog, depth: int
) -> Iterator[TraceContent]:
    stream = _Peeked(raw)
    head = stream.peek(TAR_MAGIC_AT + len(TAR_MAGIC))
    part = _GzipPart if head.startswith(GZIP_MAGIC) else _ZstdPart if head.startswith(ZSTD_BEGINNINGS) else None
    if part is not None and depth < WRAPPERS_DEEP:
        inflated = _Limited(_Packed(stream, log, new_part=part), compressed, limits, name)
        yield from _unwrap(inflated, compressed, limits, name, member, log, depth + 1)
    elif head[TAR_MAGIC_AT:] == TAR_MAGIC and depth < WRAPPERS_DEEP:
        yield from _tar_members(stream, compressed, limits, name, depth + 1)
    else:
        yield TraceContent(name=name, member=member, stream=stream, log=log)


def _tar_members(
    stream: Readable, compressed: _Counted, limits: Limits, name: str, depth: int
) -> Iterator[TraceContent]:
    """Members that may be traces. A cut or damaged archive gives those before the damage, then raises."""
    count = 0
    counted = _Counted(stream)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], counted), mode="r|") as archive:
            for entry in archive:
                _refuse_absurd(entry, compressed, limits, name)
                file = archive.extractfile(entry) if entry.isreg() and ".json" in entry.name else None
                if file is not None:
                    count += 1
                    log = ProblemLog()
                    whole = f"{name}!{entry.name}"
                    member = _Limited(_TarMember(file, log), compressed, limits, whole)
                    yield from _unwrap(member, compressed, limits, whole, entry.name, log, depth)
        if counted.total % tarfile.BLOCKSIZE:
            raise tarfile.ReadError("unexpected end of data")
    except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
        raise InputError(f"{name}: a damaged tar archive, read up to member {count} ({error}).") from error
    if not count:
        raise NotATraceError(f"{name}: a tar archive without any .json member.")


def _refuse_absurd(entry: tarfile.TarInfo, compressed: _Counted, limits: Limits, name: str) -> None:
    """Holes cost an archive nothing, nor does a size that is only claimed: both would be read for ever."""
    if entry.issparse() or entry.size > max(limits.ratio_from_bytes, limits.ratio * compressed.size):
        raise RefusedInputError(f"{name}!{entry.name}: a member larger than the archive can hold; not read.")


class _TarMember:
    """A member's bytes; where the archive is cut inside it, what is there."""

    def __init__(self, file: IO[bytes], log: ProblemLog) -> None:
        self._file, self._log = file, log

    def read(self, size: int, /) -> bytes:
        try:
            return self._file.read(min(size, TAR_READ_BYTES))
        except tarfile.TarError as error:
            self._log.add(Reason.TRUNCATED_FILE, example=str(error))
            return b""


class RegularFile(FileIO):
    """A device or a pipe is refused, as it may block, never end, or be gone once it was read."""

    def __init__(self, path: Path) -> None:
        self._shown = path
        try:
            super().__init__(open_ordinary(path), "rb")
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            piece = super().read(size)
        except OSError as error:
            raise InputError(f"{self._shown}: reading it failed at byte {self.tell():,} ({error.strerror}).") from error
        if piece is None:  # of the system's own files some wait for more to come
            raise RefusedInputError(f"{self._shown}: has no end, only more to come; not read.")
        return piece
