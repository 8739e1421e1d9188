"""The digests of a job: from traces, read in parallel, or from files that were digested before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from redline.analysis.rank.digest import Digest, Observer, digest_of
from redline.analysis.rank.digest_file import is_digest, load_digest
from redline.analysis.rank.scene import Scene, scene_of
from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Machine
from redline.hardware.profile import choose
from redline.timeline.timeline import Timeline
from redline.trace.cache import cache_folder, read_cached
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
) -> Digested:
    """`machine` is what the user chose: a record of the catalogue or a profile; None matches each trace's device.

    `observe` looks for causes on each rank while its trace is open.
    """
    chosen = choose(machine, "") if machine is not None else None
    folder = cache_folder() if options.use_cache else None
    work = partial(_digested, options=options.reading, folder=folder, chosen=chosen, observe=observe)
    if all(map(is_digest, paths)):
        options = replace(options, jobs=1)  # passing digests between processes would cost more than reading them
    results, failures = gather(work, paths, options, progress)
    digests = tuple(digest for index in sorted(results) for digest in results[index].ranks)
    if not digests:
        raise InputError(failures[0].message if failures else f"{paths[0]}: no rank in it.")
    return Digested(digests=digests, failures=tuple(failures))


def _digested(
    path: Path, options: ReadOptions, folder: Path | None, chosen: Machine | None, observe: Observer | None
) -> OfFile[Digest] | InputError:
    try:
        if is_digest(path):
            return OfFile(ranks=(load_digest(path),), failures=())
        reading = read_cached(path, options, folder)
    except InputError as error:
        return error
    digests = tuple(_one(timeline, chosen, observe) for timeline in reading.timelines)
    return OfFile(ranks=digests, failures=reading.failures)


def scene_again(digest: Digest, paths: Sequence[Path], machine: str | None, options: JobOptions) -> Scene | None:
    """The trace of one rank, opened again; None where none of these files is the trace that was digested."""
    chosen = choose(machine, "") if machine is not None else None
    folder = cache_folder() if options.use_cache else None
    source = digest.origin.source
    for path in paths:
        if is_digest(path) or not (source == str(path) or source.startswith(f"{path}!")):
            continue
        for timeline in read_cached(path, options.reading, folder).timelines:
            scene = scene_of(timeline, _machine(timeline, chosen)[0])
            if (timeline.zero_ns, scene.activity.window_ns) == (digest.zero_ns, digest.window_ns):
                return scene
    return None


def _one(timeline: Timeline, chosen: Machine | None, observe: Observer | None) -> Digest:
    machine, why_none = _machine(timeline, chosen)
    return digest_of(timeline, machine, why_none, observe)


def _machine(timeline: Timeline, chosen: Machine | None) -> tuple[Machine | None, str]:
    """What the user chose, else the trace's own device; or why there is none."""
    if chosen is not None:
        return chosen, ""
    device = next(iter(devices_of(timeline)), None)
    if device is None:
        return None, "the trace does not say which device it ran on; give it with --machine"
    try:
        return choose(None, device.name, device.memory_bytes, device.multiprocessors), ""
    except UnknownHardwareError as error:
        return None, str(error)
