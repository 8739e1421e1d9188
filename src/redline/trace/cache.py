"""Where read timelines are kept between commands, and for how long. Losing the cache costs time, nothing else."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from redline.errors import InputError
from redline.timeline.timeline import Timeline
from redline.trace import entries, store
from redline.trace.cache_key import READING, FileState, code_key, state_of
from redline.trace.entries import Entry
from redline.trace.reader import ReadOptions, ReadResult, read_file, refuse_damage, with_steps

ENVIRONMENT = "REDLINE_CACHE"  # a folder, or "off"
OFF = "off"
WORTH_BYTES = 1_000_000  # smaller traces are read again as fast


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
