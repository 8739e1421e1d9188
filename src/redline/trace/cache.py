"""Where read timelines are kept, under keys of the file and the code. Losing the cache costs time, nothing else."""

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import redline
from redline.errors import InputError
from redline.timeline.timeline import Timeline
from redline.trace import entries, store
from redline.trace.entries import Entry
from redline.trace.reader import ReadOptions, ReadResult, read_file, refuse_damage, with_steps
from redline.values import dataclass

ENVIRONMENT = "REDLINE_CACHE"  # a folder, or "off"
OFF = "off"
WORTH_BYTES = 1_000_000  # smaller traces are read again as fast
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


def cache_folder() -> Path | None:
    """The folder of the cache; None where the user turned it off, or has no home to keep it in."""
    named = os.environ.get(ENVIRONMENT, "")
    if named:
        return None if named == OFF else Path(named)
    with suppress(RuntimeError):  # a container may run as a user that nobody has heard of
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "redline" / "traces"
    return None


def read_cached(path: Path, options: ReadOptions, folder: Path | None) -> ReadResult:
    """The same as read_file, from the cache where the file has not changed since it was put there."""
    code = code_key(*READING)
    if folder is None or not code:
        return read_file(path, options)
    state = state_of(path)
    entry = Entry(kind=store.KIND, schema_version=store.SCHEMA_VERSION, key=f"{state.key}|{options.limits}|{code}")
    timelines: tuple[Timeline, ...] = ()
    with suppress(InputError, OSError):
        timelines = store.unpacked(entries.load(folder, entry))
    if timelines:
        return _as_asked(timelines, options)
    lenient = replace(options, strict=False, step_regex=None)
    reading = read_file(path, lenient)
    if worth_keeping(reading, state):
        with suppress(InputError, OSError, ValueError):
            entries.save(folder, entry, store.packed(reading.timelines))
    return replace(_as_asked(reading.timelines, options), failures=reading.failures)


def worth_keeping(reading: ReadResult, state: FileState) -> bool:
    """Whether what was made of a file in this state would save time, and be right, the next time."""
    size = sum(timeline.source.inflated_bytes for timeline in reading.timelines)
    return size >= WORTH_BYTES and not reading.failures and state.settled


def _as_asked(timelines: tuple[Timeline, ...], options: ReadOptions) -> ReadResult:
    """Cached timelines are neither strict nor cut into the user's own steps; make up for both."""
    if options.strict:
        for timeline in timelines:
            refuse_damage(timeline.source)
    if options.step_regex is not None:
        timelines = tuple(with_steps(timeline, options.step_regex) for timeline in timelines)
    return ReadResult(timelines=timelines)
