"""What kept results depend on: the state of a file, and the code that made them. A key changes when any of it does."""

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import redline
from redline.errors import InputError

READING = ("artifacts/**/*", "timeline/**/*", "trace/**/*")  # what in the package says how a file is read
_SETTLED_NS = 20_000_000  # two ticks of the clock that stamps files: within one, two states of a file look alike
_IMPORTED_NS = time.time_ns()
_PACKAGE = Path(redline.__file__).parent


@dataclass(frozen=True, kw_only=True)
class FileState:
    """A file at one moment. Not even a replacement of equal size and time has the same key."""

    key: str
    settled: bool
    """False where the file changed so lately that it can change again without a trace: keep nothing of it."""


def state_of(path: Path) -> FileState:
    """Taken before the file is read: what is read after a change is then kept under a key that nobody asks for."""
    try:
        state = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
    known = (path, path.resolve(), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return FileState(key="|".join(map(str, known)), settled=time.time_ns() - state.st_ctime_ns > _SETTLED_NS)


@cache
def code_key(*patterns: str) -> str:
    """A hash of the files of the package that match these; "" where nobody can tell that they are what runs here."""
    known = hashlib.sha256()
    paths = sources(patterns)
    with suppress(OSError):
        for path in paths:
            if path.stat().st_ctime_ns > _IMPORTED_NS:
                return ""
            content = path.read_bytes()
            known.update(f"{path.relative_to(_PACKAGE)}|{len(content)}|".encode() + content)
        return known.hexdigest() if paths else ""  # from an archive, Python runs what no path leads to
    return ""


def sources(patterns: tuple[str, ...]) -> list[Path]:
    """Code and data, in an order that does not depend on the machine; not what Python compiled."""
    paths = {path for pattern in patterns for path in _PACKAGE.glob(pattern) if path.is_file()}
    return sorted(path for path in paths if path.parent.name != "__pycache__")
