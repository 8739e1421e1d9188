"""Traces: whatever the bytes, the reader answers or raises InputError, and what it read can be reported and merged."""

import gzip
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from redline.errors import InputError
from redline.findings.match import check_matches, match_rules
from redline.job.job import read_job, summarise
from redline.job.merge import write_merged
from redline.job.read_files import JobOptions
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.digest_file import decoded, encoded
from redline.report.data import json_text
from redline.report.inspect import document_of
from redline.report.inspect import record as inspection
from redline.report.terminal import text_of
from redline.timeline.timeline import TABLES, Timeline
from redline.trace import store
from redline.trace.inflate import WRAPPERS_DEEP, contents
from redline.trace.reader import ReadOptions, read_file
from tests.support.damage.corpus import seed_trace
from tests.support.fuzzing import runner
from tests.support.fuzzing.mutate import Mutant, excerpt, mutant
from tests.support.fuzzing.runner import Kind, expect
from tests.support.traces.synthetic import JobSpec, rank_text, simulate_job

ROOT = Path(__file__).resolve().parents[3]
LARGEST_TRACE_BYTES = 500_000  # of a packed real trace that is worth unpacking for a seed


def own_seeds() -> list[bytes]:
    """Small traces from what the repository holds: recordings, the seed of the damage corpus, a synthetic job."""
    recorded = sorted((ROOT / "tests" / "data" / "recorded").glob("*.json.gz"))
    wholes = [gzip.decompress(path.read_bytes()) for path in recorded]
    spec = JobSpec(ranks=2, steps=2, layers=1, with_stacks=True)
    wholes += [seed_trace(), "".join(rank_text(simulate_job(spec), 1)).encode()]
    return [excerpt(whole, size) for whole in wholes for size in (1500, 4000)]


def real_seeds() -> list[bytes]:
    """Small traces cut from published ones, where REDLINE_TRACES names their folder."""
    folder = os.environ.get("REDLINE_TRACES")
    seeds = []
    for path in sorted(Path(folder).rglob("*.json.gz")) if folder else ():
        if path.stat().st_size <= LARGEST_TRACE_BYTES:
            try:
                seeds.append(excerpt(gzip.decompress(path.read_bytes()), 3000))
            except ValueError:
                continue  # already damaged as it was published
    return [seed for seed in seeds if len(seed) < 16_000]


def outcome_of(path: Path, *, sampled: bool) -> tuple[str, set[str]]:
    """What reading gives and the reasons in its ledger; raises whatever breaks the promise."""
    try:
        reading = read_file(path)
    except InputError as error:
        return f"refused: {type(error).__name__}", set()
    expect(len(reading.timelines) > 0, "a file without any timeline is refused")
    for timeline in reading.timelines:
        check_timeline(timeline)
    if sampled:
        check_sampled(path, reading.timelines)
    reasons = {problem.reason.code for timeline in reading.timelines for problem in timeline.source.problems}
    return "read" if not reading.failures else "read in part", reasons


def check_timeline(timeline: Timeline) -> None:
    """What every timeline promises, and what follows from it for its summary."""
    timeline.self_check()
    first_ns, last_ns = timeline.window_ns
    summary = summarise(timeline)
    expect(first_ns <= last_ns and summary.window_ns == last_ns - first_ns, "a window ends after it begins")
    expect(0 <= summary.busy_ns <= summary.window_ns, "a device is busy inside the window only")
    expect(0 <= summary.communication_ns <= summary.window_ns, "communication is inside the window")
    expect(all(step_ns >= 0 for step_ns in summary.step_ns), "no step is negative")
    expect(all(problem.count > 0 for problem in timeline.source.problems), "the ledger holds what happened only")


def check_sampled(path: Path, timelines: tuple[Timeline, ...]) -> None:
    """Timelines can be stored, digested, reported and merged, and a strict reading agrees or refuses."""
    for timeline in timelines:
        check_matches(decoded(encoded(digest_of(timeline, None, match=match_rules), "fuzzing"), "a digest"), "a digest")
    if is_text(path.name) and all(is_text(timeline.source.member) for timeline in timelines):
        check_stored(timelines)
    job = read_job([path], JobOptions(jobs=1, use_cache=False))
    record = json.loads(json_text(inspection(job)).encode(errors="backslashreplace"))
    expect(len(record["ranks"]) == len(timelines), "every timeline is a rank of the report")
    text_of(document_of(job)).encode(errors="backslashreplace")
    with suppress(InputError):
        merged = path.parent / "merged.json"
        write_merged(job, lambda _, number: timelines[number], merged, budget_bytes=1 << 30, force=True)
    with suppress(InputError):
        strict = read_file(path, ReadOptions(strict=True, step_regex="a"))
        expect(len(strict.timelines) <= len(timelines), "a strict reading gives no other timelines")


def check_stored(timelines: tuple[Timeline, ...]) -> None:
    """What the cache gives back is the same; what it refuses is read again from the trace."""
    try:
        kept = store.unpacked(memoryview(b"".join(store.packed(timelines))))
    except InputError as error:
        expect("a number beyond 64 bits" in str(error), f"a timeline that was read can be stored: {error}")
        return
    for before, after in zip(timelines, kept, strict=True):
        expect(same_timeline(before, after), "a stored timeline comes back the same")


def is_text(name: str) -> bool:
    """Whether a name of a file can be encoded; the command line shows what cannot as escapes."""
    return name.encode(errors="replace").decode() == name


def same_timeline(one: Timeline, other: Timeline) -> bool:
    tables = all(
        array.dtype == getattr(other, table).columns()[name].dtype
        and bool((array == getattr(other, table).columns()[name]).all())
        for table in TABLES
        for name, array in getattr(one, table).columns().items()
    )
    plain = ("origin", "rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata", "source")
    return tables and all(getattr(one, name) == getattr(other, name) for name in plain)


def unpacked(made: Mutant) -> Iterator[bytes]:
    """What the reader finds inside a packed input, layer by layer."""
    data = made.data
    for _ in range(WRAPPERS_DEEP):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            try:
                with runner.deadline(runner.DEADLINE_S):
                    inner = [content.stream.read(1 << 24) for content in contents(Path(file.name))]
            except (InputError, tarfile.TarError, runner.DeadlineError):
                return
        if not inner or inner[0] == data:
            return
        data = inner[0]
        yield data


TRACE = Kind(
    name="trace",
    seeds=lambda: own_seeds() + real_seeds(),
    mutant=mutant,
    outcome_of=outcome_of,
    unpacked=unpacked,
)
