"""Many ranks into one Perfetto trace within a size budget, and the proof that nothing planned is missing in it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from redline.artifacts import Envelope, refuse_unless_free, write_atomic
from redline.errors import ClockError, InputError, OutputError, UnexpectedError
from redline.job.find_files import MERGED_KIND
from redline.job.job import Job, RankSummary
from redline.job.read_failures import Failure, explained, failure_of
from redline.progress import Progress, ProgressStage, silent
from redline.storage import is_remote
from redline.timeline.timeline import Kind, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.decode import decoded_batches
from redline.trace.document import TraceDocument
from redline.trace.inflate import contents
from redline.trace.metadata import written_metadata
from redline.trace.perfetto import (
    MEMORY,
    PIDS_PER_RANK,
    SEPARATOR,
    TAIL,
    DrawnSlice,
    RankEvents,
    Written,
    compressed,
    drawn_events,
    head,
)
from redline.units import format_bytes, format_ns
from redline.values import dataclass

_MARGIN = 1.05  # sizes of other ranks are estimated from one
_ARROWS = (schema.FLOW_LAUNCH, schema.FLOW_FORWARD_BACKWARD)
_EVERYTHING = frozenset(Kind)
LEVELS: tuple[tuple[str, frozenset[Kind]], ...] = (
    ("", _EVERYTHING),
    ("Python calls and memory marks", _EVERYTHING - {Kind.PYTHON}),
    ("Python calls, memory marks and the host's operators", _EVERYTHING - {Kind.PYTHON, Kind.OPERATOR}),
    (
        "everything of the host but its regions",
        frozenset({Kind.KERNEL, Kind.COMMUNICATION, Kind.COPY, Kind.SET, Kind.ANNOTATION}),
    ),
)
"""Kinds that are left out, more from line to line, until the rest fits the budget; after that, whole ranks go."""

Read = Callable[[Path, int], Timeline]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A process of its own, above the ranks."""

    title: str
    slices: tuple[DrawnSlice, ...]


NOTHING_DRAWN = Drawn(title="", slices=())


class RankFailedError(UnexpectedError):
    """A file that could be read could not be merged, or not be read again."""

    def __init__(self, message: str, traceback: str = "", path: Path | None = None) -> None:
        super().__init__(message, traceback)
        self.path = path


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The result of a merge."""

    path: str
    ranks: tuple[int, ...]
    left_out_ranks: tuple[int, ...]
    left_out_kinds: str
    events: int
    arrows: int
    size_bytes: int  # of the JSON text, before compression: what a viewer has to hold
    on_own_clocks: tuple[int, ...]  # ranks that could not be aligned with the others
    missing_ranks: tuple[int, ...]  # ranks of the job that no trace is of
    failures: tuple[Failure, ...]  # files that could not be read
    changes: tuple[str, ...] = ()  # what-ifs that the timelines were altered by
    drawn: int = 0  # slices beside the ranks, which are in `events` too
    no_path: str = ""  # why there is no critical path, where one was asked for


@dataclass(frozen=True, kw_only=True)
class _Plan:
    indices: tuple[int, ...]  # into the job's ranks
    kinds: frozenset[Kind]
    left_out: str
    budget_bytes: int


def write_merged(
    job: Job,
    read: Read,
    path: Path,
    *,
    budget_bytes: int,
    force: bool,
    progress: Progress = silent,
    drawn: Drawn = NOTHING_DRAWN,
) -> Merged:
    """Write the ranks of a job as one trace. `read` gives the timeline of a rank again, by file and number.

    What is `drawn` beside them is on the clock of the job, in Unix time.
    """
    refusal = why_not_mergeable(job)
    if refusal:
        error = InputError if job.doubles else ClockError
        raise error(f"{refusal}\nMerge only traces of the same steps of one job; `redline inspect` shows each.")
    unchecked = path.with_name(f"unchecked-{path.name}")
    try:
        plan = _planned(job, read, budget_bytes)
        counts, size_bytes = _write(job, read, unchecked, plan, drawn, progress)
        while size_bytes > budget_bytes:  # sizes are estimated; what came out too large is planned smaller
            plan = _planned(job, read, int(0.95 * plan.budget_bytes * budget_bytes / size_bytes))
            counts, size_bytes = _write(job, read, unchecked, plan, drawn, progress)
        _check_nothing_lost(unchecked, path, counts, progress)
        refuse_unless_free(path, force=force)
        unchecked.replace(path)
    finally:
        unchecked.unlink(missing_ok=True)
    return Merged(
        path=str(path),
        ranks=tuple(job.ranks[index].rank for index in plan.indices),
        left_out_ranks=tuple(rank.rank for index, rank in enumerate(job.ranks) if index not in plan.indices),
        left_out_kinds=plan.left_out,
        events=sum(count for (_, category), count in counts.items() if category not in _ARROWS),
        arrows=sum(count for (_, category), count in counts.items() if category in _ARROWS) // 2,
        size_bytes=size_bytes,
        on_own_clocks=tuple(job.ranks[index].rank for index in job.clocks.alone),
        missing_ranks=job.missing,
        failures=job.failures,
        changes=job.changes,
        drawn=len(drawn.slices),
    )


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to before hours of reading, not after."""
    if not path.name.endswith((".json", ".json.gz")):
        raise OutputError(f"{path}: a merged trace is written as .json or .json.gz; give it such a name.")
    refuse_unless_free(path, force=force)
    if not is_remote(path) and not path.absolute().parent.is_dir():
        raise OutputError(f"cannot write {path}: the folder {path.absolute().parent} does not exist; create it first")


def why_not_mergeable(job: Job) -> str:
    """The reason not to put these ranks on one clock, or ""."""
    clocks = job.clocks
    if job.doubles:
        names = [timeline.source.name for timeline in job.ranks if timeline.rank == job.doubles[0]]
        return f"more than one trace claims rank {job.doubles[0]}: {', '.join(names)}."
    if not clocks.trusted:
        worst = max(range(len(job.ranks)), key=lambda index: clocks.residual_ns[index])
        return (
            f"the clocks of the ranks do not fit together: once aligned, collectives of rank {job.ranks[worst].rank} "
            f"still end {format_ns(clocks.residual_ns[worst])} apart from the others'."
        )
    starts = [rank.start_ns - offset for rank, offset in zip(job.ranks, clocks.offset_ns, strict=True)]
    ends = [start + rank.window_ns for rank, start in zip(job.ranks, starts, strict=True)]
    if clocks.alone and max(starts) > min(ends):
        apart = format_ns(max(starts) - min(ends))
        return f"ranks share no collective to align their clocks on, and their windows lie {apart} apart."
    return ""


def _planned(job: Job, read: Read, budget_bytes: int) -> _Plan:
    """Plan as many kinds as fit for all ranks, else as many ranks as possible, spread over the job."""
    everyone = tuple(range(len(job.ranks)))
    largest = max(everyone, key=lambda index: job.ranks[index].spans)
    bytes_by_category = _bytes_by_category(job.places[largest][0], lambda: read(*job.places[largest]))
    sizes: list[float] = []
    left_out, kinds = LEVELS[-1]
    for left_out, kinds in LEVELS:
        level_bytes = sum(bytes_by_category[category] for category in _categories(kinds))
        per_span = level_bytes / max(_spans(job.ranks[largest], kinds), 1)
        sizes = [per_span * _spans(rank, kinds) * _MARGIN for rank in job.ranks]
        if sum(sizes) <= budget_bytes:
            return _Plan(indices=everyone, kinds=kinds, left_out=left_out, budget_bytes=budget_bytes)
    affordable = int(budget_bytes // max(*sizes, 1))
    if not affordable:
        raise OutputError(
            f"one rank alone needs {format_bytes(int(max(sizes)))}, the budget is {format_bytes(budget_bytes)}: "
            "raise `budget_bytes=...`."
        )
    spread = {round(place * (len(everyone) - 1) / max(affordable - 1, 1)) for place in range(affordable)}
    return _Plan(indices=tuple(sorted(spread)), kinds=kinds, left_out=left_out, budget_bytes=budget_bytes)


def _bytes_by_category(path: Path, timeline: Callable[[], Timeline]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for category, text in _of_file(path, lambda: RankEvents(timeline(), 0, _EVERYTHING, memory=True)):
        sizes[category] += len(text) + len(SEPARATOR)
    return sizes


def _categories(kinds: frozenset[Kind]) -> set[str]:
    """The categories that spans of these kinds are written in, with the arrows and marks that go with them."""
    categories = {"", *(schema.CATEGORY_OF_KIND[kind] for kind in kinds if kind is not Kind.COMMUNICATION)}
    if Kind.RUNTIME in kinds:
        categories.add(schema.FLOW_LAUNCH)
    if Kind.OPERATOR in kinds:
        categories.add(schema.FLOW_FORWARD_BACKWARD)
    return categories | {MEMORY} if kinds == _EVERYTHING else categories


def _spans(rank: RankSummary, kinds: frozenset[Kind]) -> int:
    return sum(rank.kinds.get(kind.name.lower(), 0) for kind in kinds)


def _write(
    job: Job, read: Read, path: Path, plan: _Plan, drawn: Drawn, progress: Progress
) -> tuple[Counter[tuple[int, str]], int]:
    """Gives how many events of each rank and category were written, and the bytes of their text."""
    counts: Counter[tuple[int, str]] = Counter()
    size_bytes = 0
    zero_ns = min(rank.zero_ns - job.clocks.offset_ns[index] for index, rank in enumerate(job.ranks))
    with write_atomic(path, force=True) as file, compressed(file, path) as text:
        for piece in _document(job, _written_events(job, read, plan, drawn, zero_ns, progress), zero_ns, counts):
            size_bytes += len(piece)
            text.write(piece)
    return counts, size_bytes


def _document(
    job: Job, events: Iterable[tuple[int, Written]], zero_ns: int, counts: Counter[tuple[int, str]]
) -> Iterator[bytes]:
    yield head(_about(job, zero_ns))
    separator = b""
    for rank, (category, text) in events:
        if category:
            counts[rank, category] += 1
        yield separator + text
        separator = SEPARATOR
    yield TAIL


def _written_events(
    job: Job, read: Read, plan: _Plan, drawn: Drawn, zero_ns: int, progress: Progress
) -> Iterator[tuple[int, Written]]:
    """Events of each rank, and of what is drawn beside them under a number that no rank has."""
    for done, index in enumerate(plan.indices):
        progress(ProgressStage.WRITE, done, len(plan.indices))
        events = partial(_events_of_rank, job, read, plan, zero_ns, index)
        for written in _of_file(job.places[index][0], events):
            yield job.ranks[index].rank, written
    if drawn.slices:
        beyond = 1 + max(rank.rank for rank in job.ranks)
        for written in drawn_events(drawn.title, drawn.slices, beyond, zero_ns):
            yield beyond, written


def _events_of_rank(job: Job, read: Read, plan: _Plan, zero_ns: int, index: int) -> RankEvents:
    timeline = replace(read(*job.places[index]), rank=job.ranks[index].rank)
    shift_ns = timeline.zero_ns - job.clocks.offset_ns[index] - zero_ns
    return RankEvents(timeline, shift_ns, plan.kinds, memory=not plan.left_out)


def _of_file(path: Path, events: Callable[[], Iterable[Written]]) -> Iterator[Written]:
    """Events made of one file; whatever goes wrong with it is told as its failure."""
    try:
        yield from events()
    except Exception as error:
        failure = failure_of(path, explained(path, error))
        raise RankFailedError(failure.message, failure.traceback, path) from error


def _about(job: Job, zero_ns: int) -> dict[str, object]:
    """Metadata of the merged trace: what it is comes first, so that a glance at the file tells."""
    first = job.ranks[0].metadata
    synthetic = next((rank.metadata.synthetic for rank in job.ranks if rank.metadata.synthetic), "")
    envelope = Envelope(kind=MERGED_KIND, schema_version=1, made_by="redline merge", synthetic=bool(synthetic))
    origins = [rank.origin for rank in job.ranks if rank.origin is not TimelineOrigin.MEASURED]
    return {
        "redline": envelope.to_dict(),
        **({schema.ORIGIN_KEY: str(origins[0])} if origins else {}),
        schema.BASE_TIME_KEY: zero_ns,
        "displayTimeUnit": "ms",
        **written_metadata(replace(first, world_size=job.world_size, synthetic=synthetic, changes=job.changes)),
    }


def _check_nothing_lost(file: Path, path: Path, counts: Counter[tuple[int, str]], progress: Progress) -> None:
    """Read the file back and compare what is in it with what was put in."""
    read_back: Counter[tuple[int, str]] = Counter()
    for content in contents(file):
        document = TraceDocument(content)
        for batch in decoded_batches(document):
            progress(ProgressStage.CHECK, read_back.total(), counts.total())
            for event in batch.events:
                if event.ph != schema.METADATA and isinstance(event.pid, int):
                    category = MEMORY if event.ph == schema.INSTANT else event.cat
                    read_back[event.pid // PIDS_PER_RANK, category] += 1
    if read_back != counts:
        key = next(key for key in counts | read_back if counts[key] != read_back[key])
        raise OutputError(
            f"{path}: {counts[key]} events of {key[1]} of rank {key[0]} were written, {read_back[key]} read back.\n"
            "The file cannot be trusted: check the disk and merge again."
        )
