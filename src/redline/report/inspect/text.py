"""The result of `inspect` as text for a terminal."""

from collections import Counter
from collections.abc import Iterator
from statistics import median

from redline.ranks.job import Job
from redline.ranks.summary import RankSummary
from redline.report.display import Style, styled
from redline.report.terminal import as_text, fitted, left
from redline.report.text_parts import clipped, plural, rank_list, share
from redline.report.text_table import table
from redline.timeline.problems import Effect, Problem
from redline.units import format_bytes, format_count, format_ns

MOST_ROWS = 16
_LABEL_WIDTH = 10
_HEAD = ("rank", "known by", "window", "steps", "median", "busy", "", "communicating", "linked", "clock", "read")


def render(job: Job, *, verbose: bool = False) -> str:
    ranks = _ranks(job, MOST_ROWS if not verbose else len(job.ranks))
    return as_text(
        [[*fitted(styled(_headline(job), Style.HEADING)), *_facts(job)], ranks, _events(job), _problems(job)]
    )


def _headline(job: Job) -> str:
    files = {rank.source.name: rank.source for rank in job.ranks}
    size = sum(source.inflated_bytes for source in files.values())
    count = sum(sum(source.events.values()) for source in files.values())
    ranks = plural(len(job.ranks), "rank")
    if job.world_size >= len(job.ranks):
        ranks += f" of {job.world_size:,}"
    partial = sum(_state(rank) == "partial" for rank in job.ranks)
    if partial:
        ranks += f" ({partial:,} partial)"
    synthetic = " (synthetic, not a measurement)" if any(rank.metadata.synthetic for rank in job.ranks) else ""
    if job.changes:
        synthetic = f" (altered by {clipped('; '.join(job.changes), 200)}, not measured)"
    return f"{ranks} in {plural(len(files), 'trace')}: {format_count(count)} events, {format_bytes(size)}{synthetic}"


def _facts(job: Job) -> Iterator[str]:
    yield from _fact("hardware", ", ".join(map(clipped, dict.fromkeys(map(_hardware, job.ranks)))))
    versions = dict.fromkeys(f"{key} {value}" for rank in job.ranks for key, value in rank.metadata.versions.items())
    if versions:
        yield from _fact("versions", clipped(", ".join(versions), limit=300))
    recorded = dict.fromkeys(word for rank in job.ranks for word in rank.metadata.recorded)
    yield from _fact("recorded", ", ".join(recorded) or "times only (no shapes, no stacks) as far as the trace says")
    yield from _steps(job)
    windows = sorted(rank.window_ns for rank in job.ranks)
    yield from _fact("window", f"{_span(windows)} from the first start to the last end of a rank")
    yield from _fact("clocks", _clocks(job))
    if job.missing:
        yield from _fact("missing", f"no trace of rank {rank_list(job.missing)}")
    if job.doubles:
        yield from _fact(
            "doubles", f"more than one trace claims rank {rank_list(job.doubles)}: are they of different jobs?"
        )
    elif 0 < job.world_size < len(job.ranks):
        yield from _fact("too many", f"the job had only {plural(job.world_size, 'rank')}: traces of different jobs?")


def _hardware(rank: RankSummary) -> str:
    if not rank.coverage.pieces:
        return "no device work in the trace"
    return ", ".join(rank.device_names) or "devices not named in the trace"


def _fact(label: str, text: str) -> list[str]:
    return fitted(text, styled(left(label, _LABEL_WIDTH), Style.LABEL))


def _span(ordered: list[int]) -> str:
    if not ordered:
        return "-"
    if ordered[0] == ordered[-1]:
        return format_ns(ordered[0])
    return f"{format_ns(ordered[0])} to {format_ns(ordered[-1])}"


def _steps(job: Job) -> Iterator[str]:
    for anchor in dict.fromkeys(rank.step_anchor for rank in job.ranks):
        ranks = [rank for rank in job.ranks if rank.step_anchor == anchor]
        counts = sorted({len(rank.step_ns) for rank in ranks})
        times = sorted(time for rank in ranks for time in rank.step_ns)
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        middle = f"median {format_ns(round(median(times)))} ({_span(times)})" if times else "no time"
        yield from _fact("steps", f"{number} per rank, from {clipped(anchor)}; {middle}")


def _clocks(job: Job) -> str:
    clocks = job.clocks
    if len(job.ranks) == 1:
        return "one rank: nothing to align"
    if not clocks.operations:
        return "not aligned: the ranks share no collective without a root"
    widest = max(map(abs, clocks.offset_ns))
    text = (
        f"aligned on {plural(clocks.operations, 'collective')}: offsets up to {format_ns(widest)}, "
        f"residual {format_ns(max(clocks.residual_ns))} (worst {format_ns(clocks.worst_ns)})"
    )
    if clocks.alone:
        text += f"; without a shared collective, as written: rank {rank_list(job.ranks[i].rank for i in clocks.alone)}"
    return text if clocks.trusted else f"{text}: TOO LARGE, times of different ranks cannot be compared"


def _ranks(job: Job, most: int) -> Iterator[str]:
    indices = sorted(range(len(job.ranks)), key=lambda index: _dubious(job.ranks[index]), reverse=True)[:most]
    yield from table(_HEAD, (_row(job, index) for index in sorted(indices)))
    if len(job.ranks) > most:
        yield f"... and {plural(len(job.ranks) - most, 'more rank')}; -v lists all"


def _dubious(rank: RankSummary) -> int:
    return sum(problem.count for problem in rank.source.problems if problem.reason.effect is not Effect.NOTED)


def _row(job: Job, index: int) -> tuple[str, ...]:
    rank = job.ranks[index]
    coverage = rank.coverage
    offset = job.clocks.offset_ns[index]
    return (
        str(rank.rank),
        rank.rank_origin,
        format_ns(rank.window_ns),
        str(len(rank.step_ns)),
        format_ns(round(median(rank.step_ns))) if rank.step_ns else "-",
        format_ns(rank.busy_ns) if coverage.pieces else "-",
        share(rank.busy_ns, rank.window_ns) if coverage.pieces else "-",
        format_ns(rank.communication_ns) if rank.communication_ns else "-",
        share(coverage.with_launch, coverage.pieces),
        "-" if index in job.clocks.alone else f"{'+' if offset >= 0 else '-'}{format_ns(abs(offset))}",
        _state(rank),
    )


def _state(rank: RankSummary) -> str:
    """How much of a rank's trace was read."""
    effects = {problem.reason.effect for problem in rank.source.problems}
    if Effect.DROPPED in effects:
        return "partial"
    return "repaired" if Effect.REPAIRED in effects else "whole"


def _events(job: Job) -> Iterator[str]:
    totals: Counter[str] = Counter()
    for source in {rank.source.name: rank.source for rank in job.ranks}.values():
        totals.update(source.events)
    words = [f"{format_count(count)} {clipped(category, 40)}" for category, count in totals.most_common()]
    yield from _fact(
        "events", ", ".join(words[:14]) + (f" and {len(words) - 14} more kinds" if len(words) > 14 else "")
    )
    pieces = sum(rank.coverage.pieces for rank in job.ranks)
    if pieces:
        yield from _fact("coverage", _coverage(job, pieces))


def _coverage(job: Job, pieces: int) -> str:
    launched = sum(rank.coverage.with_launch for rank in job.ranks)
    total_ns = sum(rank.coverage.time_ns for rank in job.ranks)
    without_ns = total_ns - sum(rank.coverage.with_launch_ns for rank in job.ranks)
    graphs = sum(rank.coverage.from_graphs for rank in job.ranks)
    text = f"{format_count(launched)} of {format_count(pieces)} pieces of device work have their launch"
    if launched < pieces:
        text += f"; the {format_count(pieces - launched)} without one are kept ({format_ns(without_ns)})"
    if graphs:
        launches = sum(rank.coverage.graph_launches for rank in job.ranks)
        text += f"; {format_count(graphs)} came from {plural(launches, 'launch', 'launches')} of a graph"
    return text


def _problems(job: Job) -> Iterator[str]:
    by_reason: dict[str, list[tuple[int, Problem]]] = {}
    for rank in job.ranks:
        for problem in rank.source.problems:
            by_reason.setdefault(problem.reason.code, []).append((rank.rank, problem))
    if not by_reason and not job.failures:
        yield from _fact("problems", "none: everything in the traces was used as written")
        return
    yield "problems"
    worst_first = sorted(
        by_reason.values(), key=lambda problems: list(Effect).index(problems[0][1].reason.effect), reverse=True
    )
    for problems in worst_first:
        yield from fitted(_problem(problems, len(job.ranks)), "  ", " " * 21)
    for failure in job.failures:
        yield from fitted(clipped(failure.message.replace("\n", " "), limit=300), "  unread    ")


def _problem(problems: list[tuple[int, Problem]], ranks: int) -> str:
    first = problems[0][1]
    count = sum(problem.count for _, problem in problems)
    where = f" (rank {rank_list({rank for rank, _ in problems})})" if ranks > 1 else ""
    example = f", e.g. {clipped(first.example, 80)}" if first.example else ""
    at = f" at byte {first.first_offset:,}" if first.first_offset >= 0 else ""
    return f"{first.reason.effect:<9} {format_count(count):>7}  {first.reason.sentence}{where}{example}{at}"
