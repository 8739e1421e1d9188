"""Files of the cache: only what this user wrote is read, replaced or removed, no link is followed, and room is kept.

An entry: magic, length of the head, checksum of all that follows, head (JSON), content. It is written under another
name, which ends in `.part`, and then renamed. Nothing is synced: what a power failure leaves has a wrong checksum.
"""

import hashlib
import io
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from isal import isal_zlib

from redline.artifacts import Envelope, check_envelope
from redline.errors import InputError
from redline.trace.inflate import Limits
from redline.values import dataclass

LIMIT_BYTES = 4_000_000_000
LEFT_BEHIND_S = 3600  # nobody writes one entry for so long: whoever began it was killed
_MAGIC = b"REDLINE\n"
_FRAME = struct.Struct("<II")  # length of the head, checksum of it and all that follows
_START = len(_MAGIC) + _FRAME.size
_NAME = re.compile(r"[0-9a-f]{32}\.(?:timelines|digests)(?P<part>\.[0-9a-f]{8}\.part)?")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a FIFO must not hold us up
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What an entry holds, and of what: the key says everything that the content depends on."""

    kind: str  # timelines or digests
    schema_version: int
    key: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(os.fsencode(self.key)).hexdigest()

    @property
    def name(self) -> str:
        return f"{self.digest[:32]}.{self.kind}"


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder. Raises InputError where somebody else could have put files there, OSError else."""
    descriptor = os.open(folder, _FOLDER)
    try:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid():
            raise InputError(f"{folder} belongs to another user; name a folder of your own in REDLINE_CACHE")
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError(f"others may write in {folder}; forbid it (chmod go-w) or name another in REDLINE_CACHE")
        yield descriptor
    finally:
        os.close(descriptor)


def why_unusable(folder: Path) -> str:
    """Why nothing is kept in this folder; "" where it can be, or will be made."""
    try:
        with opened(folder):
            return ""
    except InputError as error:
        return str(error)
    except FileNotFoundError:
        return ""
    except OSError as error:
        linked = folder.is_symlink()
        return f"{folder} is a link; name what it points at" if linked else f"{folder}: {error.strerror}"


def holds(folder: Path, entry: Entry) -> bool:
    """Whether there is an entry of this name; it may still turn out to be damaged."""
    with suppress(InputError, OSError), opened(folder) as at:
        return _ours(os.stat(entry.name, dir_fd=at, follow_symlinks=False))
    return False


def load(folder: Path, entry: Entry) -> memoryview:
    """The content of an entry, marked as used now. Raises InputError or OSError where there is none to be trusted."""
    with opened(folder) as at, io.FileIO(os.open(entry.name, _READ, dir_fd=at)) as file:
        state = os.fstat(file.fileno())
        if not _ours(state) or state.st_size > LIMIT_BYTES:
            raise InputError(f"{entry.name}: not a file of the cache")
        content = _content(file.readall(), entry)
        with suppress(OSError):  # age is what we say, as many file systems do not note when a file is read
            os.utime(file.fileno())
        return content


def _content(data: bytes, entry: Entry) -> memoryview:
    if not data.startswith(_MAGIC) or len(data) < _START:
        raise InputError(f"{entry.name}: not a file of the cache")
    length, checksum = _FRAME.unpack(data[len(_MAGIC) : _START])
    if isal_zlib.crc32(memoryview(data)[_START:]) != checksum:
        raise InputError(f"{entry.name}: its checksum is wrong")
    try:
        head = msgspec.json.decode(data[_START : _START + length], type=dict[str, str | int | bool])
    except msgspec.MsgspecError as error:
        raise InputError(f"{entry.name}: damaged ({error})") from error
    check_envelope(head, entry.kind, entry.schema_version, where=entry.name)
    if head.get("key") != entry.digest or head["schema_version"] != entry.schema_version:
        raise InputError(f"{entry.name}: made from another state of the trace")
    return memoryview(data)[_START + length :]


def most_inflated_bytes(stored_bytes: int) -> int:
    """What so many bytes of content may inflate to: as much as a trace of that size may, and no more than the cache."""
    limits = Limits()
    return min(max(limits.ratio * stored_bytes, limits.ratio_from_bytes), LIMIT_BYTES)


def save(folder: Path, entry: Entry, content: Sequence[bytes], limit_bytes: int | None = None) -> None:
    """Keep the content, after removing what was used longest ago to make room. Raises InputError or OSError."""
    envelope = Envelope(kind=entry.kind, schema_version=entry.schema_version, made_by="redline.trace.entries")
    head = msgspec.json.encode({**envelope.to_dict(), "key": entry.digest})
    checksum = isal_zlib.crc32(head)
    for piece in content:
        checksum = isal_zlib.crc32(piece, checksum)
    pieces = [_MAGIC + _FRAME.pack(len(head), checksum) + head, *content]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with opened(folder) as at:
        with suppress(FileNotFoundError):
            if not _ours(os.stat(entry.name, dir_fd=at, follow_symlinks=False)):
                raise InputError(f"{entry.name}: in the place of the entry is something else")
        _write(at, entry.name, pieces, LIMIT_BYTES if limit_bytes is None else limit_bytes)


def _write(at: int, name: str, pieces: Sequence[bytes], limit_bytes: int) -> None:
    part = f"{name}.{os.urandom(4).hex()}.part"
    descriptor = os.open(part, _WRITE, 0o600, dir_fd=at)
    try:
        with io.BufferedWriter(io.FileIO(descriptor, "wb")) as file:
            # Its size counts from now on, for whoever else makes room at this moment. It takes no disk yet.
            os.ftruncate(descriptor, sum(map(len, pieces)))
            if not _fits(at, limit_bytes):
                raise InputError(f"{name}: more than the cache may hold")
            file.writelines(pieces)
        os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=at)
        raise


def prune(folder: Path | None, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove what killed writers left behind, and what was used longest ago until the rest fits."""
    if folder is not None:
        with suppress(InputError, OSError), opened(folder) as at:
            _fits(at, limit_bytes)


def _fits(at: int, limit_bytes: int) -> bool:
    """Whether all entries are within the limit, once old ones are gone. What is being written counts, but stays."""
    total, entries = 0, []
    for name, state in _files(at):
        is_part = name.endswith(".part")
        if is_part and time.time() - state.st_mtime > LEFT_BEHIND_S:
            _remove(at, name)
            continue
        total += state.st_size
        if not is_part:
            entries.append((state.st_mtime_ns, name, state.st_size))
    if total - sum(size for *_, size in entries) > limit_bytes:
        return False  # not even without all of them
    for _, name, size in sorted(entries):
        if total <= limit_bytes:
            break
        _remove(at, name)
        total -= size
    return True


def _files(at: int) -> Iterator[tuple[str, os.stat_result]]:
    """Our own regular files with names as entries have; all else is left alone."""
    with os.scandir(at) as listed:
        for file in listed:
            with suppress(FileNotFoundError):  # another process was faster
                if _NAME.fullmatch(file.name) and _ours(state := file.stat(follow_symlinks=False)):
                    yield file.name, state


def _remove(at: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=at)


def _ours(state: os.stat_result) -> bool:
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()
