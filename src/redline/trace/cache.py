"""Where read timelines are kept between commands, and for how long. Losing the cache costs time, nothing else."""

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from redline.errors import InputError, OutputError
from redline.timeline.timeline import Timeline
from redline.trace import store
from redline.trace.reader import Reading, ReadOptions, read_file, refuse_damage, with_steps

ENVIRONMENT = "REDLINE_CACHE"  # a folder, or "off"
OFF = "off"
LIMIT_BYTES = 4_000_000_000
WORTH_BYTES = 1_000_000  # smaller traces are read again as fast
_SUFFIX = ".timelines"
_READER_VERSION = 6  # raise it whenever the same file would be read differently


def cache_folder() -> Path | None:
    """The folder for cached timelines; None where the user turned the cache off."""
    named = os.environ.get(ENVIRONMENT, "")
    if named == OFF:
        return None
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "redline" / "traces"


def read_cached(path: Path, options: ReadOptions, folder: Path | None) -> Reading:
    """The same as read_file, from the cache where the file has not changed since it was put there."""
    if folder is None:
        return read_file(path, options)
    key = _key(path)
    kept = folder / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}{_SUFFIX}"
    timelines: tuple[Timeline, ...] = ()
    with suppress(InputError, OSError):
        timelines = store.load(kept, key)
    if timelines:
        return _as_asked(timelines, options)
    lenient = replace(options, strict=False, step_regex=None)
    reading = read_file(path, lenient)
    size = sum(timeline.source.inflated_bytes for timeline in reading.timelines)
    if size >= WORTH_BYTES and not reading.failures:
        with suppress(OutputError, OSError, ValueError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            store.save(kept, reading.timelines, key)
    return replace(_as_asked(reading.timelines, options), failures=reading.failures)


def prune(folder: Path | None, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove what was used longest ago until the rest fits."""
    if folder is None or not folder.is_dir():
        return
    with suppress(OSError):
        kept = sorted((file.stat().st_atime, file.stat().st_size, file) for file in folder.glob(f"*{_SUFFIX}"))
        total = sum(size for _, size, _ in kept)
        for _, size, file in kept:
            if total <= limit_bytes:
                break
            file.unlink(missing_ok=True)
            total -= size


def _key(path: Path) -> str:
    """Changes whenever the file, or the way it is read, does."""
    try:
        state = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
    return f"{path}|{path.resolve()}|{state.st_size}|{state.st_mtime_ns}|{_READER_VERSION}"


def _as_asked(timelines: tuple[Timeline, ...], options: ReadOptions) -> Reading:
    """Cached timelines are neither strict nor cut into the user's own steps; make up for both."""
    if options.strict:
        for timeline in timelines:
            refuse_damage(timeline.source)
    if options.step_regex is not None:
        timelines = tuple(with_steps(timeline, options.step_regex) for timeline in timelines)
    return Reading(timelines=timelines)
