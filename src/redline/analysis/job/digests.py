"""The digests of a job: from traces, read in parallel, or from files that were digested before."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from redline.analysis.job.kept import Kept, kept_digests
from redline.analysis.rank.digest import Digest, Observer, digest_of
from redline.analysis.rank.digest_file import is_digest, load_digest
from redline.analysis.rank.scene import Scene, scene_of
from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Machine, why_unusable
from redline.hardware.profile import choose
from redline.timeline.timeline import Timeline
from redline.trace.cache import cache_folder, read_cached, worth_keeping
from redline.trace.cache_key import FileState, state_of
from redline.trace.job import Failure, JobOptions, OfFile, Progress, gather
from redline.trace.reader import ReadOptions
from redline.trace.summary import devices_of


@dataclass(frozen=True, kw_only=True)
class Digested:
    """Digests in the order of their files, and what could not be read."""

    digests: tuple[Digest, ...]
    failures: tuple[Failure, ...]


def digest_job(
    paths: Sequence[Path],
    machine: str | None,
    options: JobOptions,
    progress: Progress | None = None,
    observe: Observer | None = None,
    check: Callable[[Digest, str], None] | None = None,
) -> Digested:
    """`machine` is what the user chose: a record of the catalogue or a profile; None matches each trace's device.

    `observe` looks for causes on each rank while its trace is open; `check` raises InputError where those in the digest
    of a file, which is named to it, or of the cache are not whole.
    """
    chosen = choose(machine, "") if machine is not None else None
    folder = cache_folder() if options.use_cache else None
    kept = kept_digests(folder, options.reading, chosen, observe)
    reading = options.reading_of(paths)
    work = partial(_digested, options=reading, folder=folder, chosen=chosen, observe=observe, kept=kept, check=check)
    if all(is_digest(path) or _is_kept(path, kept) for path in paths):
        options = replace(options, jobs=1)  # passing digests between processes would cost more than reading them
    results, failures = gather(work, paths, options, progress)
    digests = tuple(digest for index in sorted(results) for digest in results[index].ranks)
    if not digests:
        raise InputError(failures[0].message if failures else f"{paths[0]}: no rank in it.")
    return Digested(digests=digests, failures=tuple(failures))


def _is_kept(path: Path, kept: Kept | None) -> bool:
    with suppress(InputError):
        return kept is not None and kept.holds(state_of(path))
    return False


def _from_cache(kept: Kept, state: FileState, check: Callable[[Digest, str], None] | None) -> tuple[Digest, ...]:
    """Those that are whole: a cache is believed no more than a file."""
    with suppress(InputError):
        digests = kept.load(state)
        if check is not None:
            for digest in digests:
                check(digest, "the cache")
        return digests
    return ()


def _digested(
    path: Path,
    options: ReadOptions,
    folder: Path | None,
    chosen: Machine | None,
    observe: Observer | None,
    kept: Kept | None,
    check: Callable[[Digest, str], None] | None,
) -> OfFile[Digest]:
    if is_digest(path):
        digest = load_digest(path)
        if check is not None:
            check(digest, str(path))
        return OfFile(ranks=(digest,), failures=())
    state = state_of(path)
    digests = _from_cache(kept, state, check) if kept is not None else ()
    if digests:
        return OfFile(ranks=digests, failures=())
    reading = read_cached(path, options, folder)
    digests = tuple(_one(timeline, chosen, observe) for timeline in reading.timelines)
    if kept is not None and worth_keeping(reading, state):
        kept.save(state, digests)
    return OfFile(ranks=digests, failures=reading.failures)


def scene_again(digest: Digest, paths: Sequence[Path], machine: str | None, options: JobOptions) -> Scene | None:
    """The trace of one rank, opened again; None where none of these files is the trace that was digested."""
    chosen = choose(machine, "") if machine is not None else None
    folder = cache_folder() if options.use_cache else None
    source = digest.origin.source
    for path in paths:
        if is_digest(path) or not (source == str(path) or source.startswith(f"{path}!")):
            continue
        for timeline in read_cached(path, options.reading_of([path]), folder).timelines:
            scene = scene_of(timeline, _machine(timeline, chosen)[0])
            if (timeline.zero_ns, scene.activity.window_ns) == (digest.zero_ns, digest.window_ns):
                return scene
    return None


def _one(timeline: Timeline, chosen: Machine | None, observe: Observer | None) -> Digest:
    machine, why_none = _machine(timeline, chosen)
    return digest_of(timeline, machine, why_none, observe)


def _machine(timeline: Timeline, chosen: Machine | None) -> tuple[Machine | None, str]:
    """What the user chose, else the trace's own device; or why there is none, or not all of it is used."""
    if chosen is not None:
        return chosen, why_unusable(chosen)
    device = next(iter(devices_of(timeline)), None)
    if device is None:
        return None, "the trace does not say which device it ran on; give it with --machine"
    try:
        return choose(None, device.name, device.memory_bytes, device.multiprocessors), ""
    except UnknownHardwareError as error:
        return None, str(error)
