"""Local copies of objects: a folder of this command, in which each process keeps little, and which ends with it."""

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from redline.storage.known_objects import ObjectState
from redline.values import dataclass

KEPT_BYTES = 256_000_000  # per process, or one larger object
_PREFIX = "redline-spool-"
_LOCK = "lock"


@dataclass(frozen=True)
class Copy:
    """A file of this machine, and the state of the object that it is a copy of."""

    file: Path
    state: ObjectState
    size_bytes: int


_folder: Path | None = None
_keeping = threading.Lock()
_copies: "OrderedDict[Path, Copy]" = OrderedDict()  # of this process, oldest first


def spool_folder() -> Path:
    """The folder of this command; made when it is first asked for, in the one for temporary files."""
    global _folder  # noqa: PLW0603 (one per process)
    if _folder is None or not _folder.is_dir():
        _remove_abandoned()
        _folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(_folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # held until the process ends, however it does
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return _folder


def share_folder(folder: str) -> None:
    """Use the folder of the process that handed out the work, which removes it even if this one is killed."""
    global _folder  # noqa: PLW0603 (one per process)
    given = Path(folder)
    with suppress(OSError):
        if _folder is None and given.name.startswith(_PREFIX) and given.stat().st_uid == os.geteuid():
            _folder = given


def _remove_abandoned() -> None:
    """Remove what commands left that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def copy_of(path: Path, state: ObjectState) -> Path | None:
    """The copy of an object in this state, if this process has one."""
    known = _copies.get(path)
    if known is None or known.state != state:
        return None
    _copies.move_to_end(path)
    return known.file


def keep(path: Path, copy: Copy) -> None:
    """Note a copy, and remove older ones that are too much with it. Whoever has one open keeps what is in it."""
    with _keeping:
        release(path)
        _copies[path] = copy
        while len(_copies) > 1 and sum(known.size_bytes for known in _copies.values()) > KEPT_BYTES:
            _, oldest = _copies.popitem(last=False)
            oldest.file.unlink(missing_ok=True)


def release(path: Path) -> None:
    """Remove the copy of an object, if there is one."""
    copy = _copies.pop(path, None)
    if copy is not None:
        copy.file.unlink(missing_ok=True)
