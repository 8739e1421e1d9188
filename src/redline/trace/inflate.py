"""Bytes of a trace file, whatever wraps them: gzip, zstd, tar or nothing; told by content, inflated under limits."""

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard
from isal import isal_zlib

from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.units import format_bytes

PIECE_BYTES = 1 << 20
FEED_BYTES = 64 << 10  # of compressed data at a time: what a broken spot may cost
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
WRAPPERS_DEEP = 3  # a gzip of a tar of gzips is normal, more is not
_GZIP_ERROR = cast(type[Exception], isal_zlib.error)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a file may inflate. Real traces compress 13 to 45 times; bombs 1,000 times."""

    ratio: int = 200
    ratio_from_bytes: int = 16 << 20  # a small file may compress absurdly well
    inflated_bytes: int = 64 << 30


class Readable(Protocol):
    """What the rest of the reader needs of a stream."""

    def read(self, size: int, /) -> bytes: ...


class _Counted:
    """A stream that counts what was read of it; compressed bytes are charged where the file is read."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
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


class _Gzip:
    """The inflated bytes of gzip members, at most a piece a call; a broken or cut end is logged, not raised."""

    def __init__(self, raw: Readable, log: ProblemLog) -> None:
        self._raw, self._log = raw, log
        self._member = isal_zlib.decompressobj(wbits=31)
        self._pending = b""
        self._started = False  # in the middle of a member
        self._done = False

    def read(self, size: int, /) -> bytes:
        while not self._done:
            at_end = not self._pending and not self._refill()
            if at_end and not self._started:
                break
            piece = self._inflated()
            if piece:
                return piece
            if at_end:
                self._stop("the compressed data ends early")
        return b""

    def _refill(self) -> bool:
        self._pending = self._raw.read(FEED_BYTES)
        return bool(self._pending)

    def _inflated(self) -> bytes:
        try:
            piece = bytes(self._member.decompress(self._pending, PIECE_BYTES))
        except _GZIP_ERROR as error:
            self._stop(str(error))
            return b""
        self._started = not self._member.eof
        self._pending = self._member.unconsumed_tail if self._started else self._member.unused_data
        if not self._started:
            self._member = isal_zlib.decompressobj(wbits=31)
            self._check_next_member()
        return piece

    def _check_next_member(self) -> None:
        if self._pending and not self._pending.startswith(GZIP_MAGIC):
            self._done = True
            if self._pending.strip(b"\0"):
                self._log.add(Reason.TRAILING_CONTENT, example="bytes after the compressed data")

    def _stop(self, why: str) -> None:
        self._done = True
        self._log.add(Reason.TRUNCATED_FILE, example=why)


class _Zstd:
    """The inflated bytes of zstd frames. A cut end shows in the text itself; a broken one is logged, not raised."""

    def __init__(self, raw: Readable, log: ProblemLog) -> None:
        source = cast(IO[bytes], raw)
        self._reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        self._log = log

    def read(self, size: int, /) -> bytes:
        try:
            return self._reader.read(PIECE_BYTES)
        except zstandard.ZstdError as error:
            self._log.add(Reason.TRUNCATED_FILE, example=str(error))
            return b""


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
class Content:
    """One document inside a file."""

    name: str  # for messages
    member: str  # inside an archive, else ""
    stream: Readable
    log: ProblemLog


def contents(path: Path, limits: Limits | None = None) -> Iterator[Content]:
    """Each document of a file, to be read before the next is asked for; archives are streamed, never extracted."""
    with _open(path) as file:
        counted = _Counted(cast(Readable, file))
        yield from _unwrap(counted, counted, limits or Limits(), str(path), ProblemLog(), depth=0)


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb", buffering=0))
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
        yield file


def _unwrap(
    raw: Readable, compressed: _Counted, limits: Limits, name: str, log: ProblemLog, depth: int
) -> Iterator[Content]:
    stream = _Peeked(raw)
    head = stream.peek(TAR_MAGIC_AT + len(TAR_MAGIC))
    inflate = _inflater_of(head)
    if inflate is not None and depth < WRAPPERS_DEEP:
        inflated = _Limited(inflate(stream, log), compressed, limits, name)
        yield from _unwrap(inflated, compressed, limits, name, log, depth + 1)
    elif head[TAR_MAGIC_AT:] == TAR_MAGIC and depth < WRAPPERS_DEEP:
        yield from _tar_members(stream, compressed, limits, name, depth + 1)
    else:
        yield Content(name=name, member=name.partition("!")[2], stream=stream, log=log)


def _inflater_of(head: bytes) -> type[_Gzip] | type[_Zstd] | None:
    if head.startswith(GZIP_MAGIC):
        return _Gzip
    return _Zstd if head.startswith(ZSTD_MAGIC) else None


def _tar_members(stream: Readable, compressed: _Counted, limits: Limits, name: str, depth: int) -> Iterator[Content]:
    found = 0
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isreg() and ".json" in entry.name else None
                if file is None:
                    continue
                found += 1
                yield from _unwrap(file, compressed, limits, f"{name}!{entry.name}", ProblemLog(), depth)
    except tarfile.TarError as error:
        if not found:
            raise InputError(f"{name}: a damaged tar archive ({error}).") from error
    if not found:
        raise NotATraceError(f"{name}: a tar archive without any .json member.")
