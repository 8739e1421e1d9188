"""Compresses a trace at a low level, with its checksum, and gives it its name only when all of it is on the disk."""

from __future__ import annotations

import os
import zlib

from redline.artifacts.masked_json import JsonMasker
from redline.capture.process import open_file
from redline.capture.shared_state import BYTES, CHECKSUM, DISOWNED, LOST_SPACE, RAW_BYTES, STATE, WRITTEN
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.settings import Settings

_CHUNK_BYTES = 1 << 20
_GZIP = 31  # window bits of zlib that stand for a gzip file
_LEVEL = 1  # a third larger than the default, in a seventh of the time


class NotWritten(Exception):  # noqa: N818 (an outcome)
    """There will be no trace of this window; `state` says why."""

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self.state = state


def compress(raw: str, target: str, window: memoryview[int], settings: Settings, member: bytes = b"") -> None:
    """`raw` to `target`, with what came of it in the words of the window; `member` is put first into its object."""
    from hashlib import sha256

    room = room_bytes(settings.folder, settings.disk_bytes, settings.free_bytes)
    part = f"{target}.part"
    packer, checksum, masker = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP), sha256(), JsonMasker()
    size = raw_size = 0
    try:
        with open_file(raw, "rb") as source, open_file(part, "xb") as file:
            while chunk := source.read(_CHUNK_BYTES):
                if not raw_size:
                    chunk = _with_member(chunk, member)
                raw_size += len(chunk)
                packed = packer.compress(masker.add(chunk))
                size += len(packed)
                if size > room:
                    raise NotWritten(LOST_SPACE)
                checksum.update(packed)
                file.write(packed)
            packed = packer.compress(masker.end()) + packer.flush()
            checksum.update(packed)
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)  # noqa: PTH105
    except BaseException:
        if os.path.exists(part):  # noqa: PTH110
            os.remove(part)  # noqa: PTH107
        raise
    window[RAW_BYTES], window[BYTES] = raw_size, size + len(packed)
    digest = checksum.digest()
    for at in range(4):
        window[CHECKSUM + at] = int.from_bytes(digest[8 * at : 8 * at + 8], "little", signed=True)
    if window[STATE] != DISOWNED:
        window[STATE] = WRITTEN


def _with_member(text: bytes, member: bytes) -> bytes:
    """The beginning of an object with one more member; on a line of its own, as secrets are masked line by line."""
    before, brace, rest = text.partition(b"{")
    return b"".join((before, brace, b"\n", member, b",", rest)) if member and brace else text


def room_bytes(folder: str, disk_bytes: int, free_bytes: int) -> int:
    """How much may still be written: of the run's share of the disk, and with the floor of free space kept.

    Digests do not count: their watcher has a limit for them, and they would only be more files to look at.
    """
    used = 0
    for path, folders, names in os.walk(folder):
        if path == folder and "digests" in folders:
            folders.remove("digests")
        for name in names:
            with tolerated(OSError):
                used += os.lstat(f"{path}/{name}").st_size
    disk = os.statvfs(folder)
    return min(disk_bytes - used, disk.f_bavail * disk.f_frsize - free_bytes)
