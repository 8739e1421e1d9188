"""What is in traces, and how far to trust them; docs/reference/inspect.md describes every field of the JSON."""

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Any

from redline.job.job import Job, RankSummary
from redline.report.data import enveloped, picked
from redline.report.document import Document, Heading, Items, LabelledLines, ReportTable
from redline.report.text_parts import about_some_ranks, clipped, plural, rank_list, share
from redline.timeline.problems import Effect, Problem, Reason
from redline.units import format_bytes, format_count, format_ns

MOST_ROWS = 16
_HEAD = ("rank", "known by", "window", "steps", "median", "busy", "", "communicating", "linked", "clock", "read")


def document_of(job: Job, *, verbose: bool = False) -> Document:
    about = about_some_ranks(len(job.ranks), job.world_size, job.failures)
    return Document(
        blocks=(
            (
                *([Items(items=(about,), mark="")] if about else []),
                Heading(text=_headline(job)),
                LabelledLines(lines=tuple(_facts(job))),
            ),
            _ranks(job, len(job.ranks) if verbose else MOST_ROWS),
            LabelledLines(lines=tuple(_events(job))),
            _problems(job),
        ),
        has_long_lines=True,
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


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    yield ("hardware", ", ".join(map(clipped, dict.fromkeys(map(_hardware, job.ranks)))))
    versions = dict.fromkeys(f"{key} {value}" for rank in job.ranks for key, value in rank.metadata.versions.items())
    if versions:
        yield ("versions", clipped(", ".join(versions), limit=300))
    recorded = dict.fromkeys(word for rank in job.ranks for word in rank.metadata.recorded)
    yield ("recorded", ", ".join(recorded) or "times only (no shapes, no stacks) as far as the trace says")
    yield from _steps(job)
    windows = sorted(rank.window_ns for rank in job.ranks)
    yield ("window", f"{_span(windows)} from the first start to the last end of a rank")
    yield ("clocks", _clocks(job))
    if job.missing:
        yield ("missing", f"no trace of rank {rank_list(job.missing)}")
    if job.jobs > 1:
        yield ("jobs", f"{job.jobs:,}, recorded hours apart: not ranks of one job, look at each for itself")
    if job.doubles:
        yield ("doubles", f"more than one trace claims rank {rank_list(job.doubles)}: are they of different jobs?")
    elif 0 < job.world_size < len(job.ranks):
        yield ("too many", f"the job had only {plural(job.world_size, 'rank')}: traces of different jobs?")


def _hardware(rank: RankSummary) -> str:
    if any(problem.reason is Reason.UNKNOWN_DEVICE for problem in rank.source.problems):
        return "a device that Redline does not know: see unused"
    if not rank.coverage.pieces:
        return "no device work in the trace"
    return ", ".join(rank.device_names) or "devices not named in the trace"


def _span(ordered: list[int]) -> str:
    if not ordered:
        return "-"
    if ordered[0] == ordered[-1]:
        return format_ns(ordered[0])
    return f"{format_ns(ordered[0])} to {format_ns(ordered[-1])}"


def _steps(job: Job) -> Iterator[tuple[str, str]]:
    for anchor in dict.fromkeys(rank.step_anchor for rank in job.ranks):
        ranks = [rank for rank in job.ranks if rank.step_anchor == anchor]
        counts = sorted({len(rank.step_ns) for rank in ranks})
        times = sorted(time for rank in ranks for time in rank.step_ns)
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        middle = f"median {format_ns(round(median(times)))} ({_span(times)})" if times else "no time"
        yield ("steps", f"{number} per rank, from {clipped(anchor)}; {middle}")


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


def _ranks(job: Job, most: int) -> tuple[ReportTable, Items]:
    """Those whose traces are the most dubious, in order of rank."""
    indices = sorted(range(len(job.ranks)), key=lambda index: _dubious(job.ranks[index]), reverse=True)[:most]
    rows = ReportTable(head=_HEAD, rows=tuple(_row(job, index) for index in sorted(indices)))
    more = len(job.ranks) - most
    return rows, Items(items=(f"... and {plural(more, 'more rank')}; -v lists all",) if more > 0 else (), mark="")


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


def _events(job: Job) -> Iterator[tuple[str, str]]:
    totals: Counter[str] = Counter()
    for source in {rank.source.name: rank.source for rank in job.ranks}.values():
        totals.update(source.events)
    words = [f"{format_count(count)} {clipped(category, 40)}" for category, count in totals.most_common()]
    yield ("events", ", ".join(words[:14]) + (f" and {len(words) - 14} more kinds" if len(words) > 14 else ""))
    unused = _unused(job)
    if unused:
        yield ("unused", unused)
    pieces = sum(rank.coverage.pieces for rank in job.ranks)
    if pieces:
        yield ("coverage", _coverage(job, pieces))


def _unused(job: Job) -> str:
    """Spans of categories that are not known, with their summed time, the longest first."""
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for source in {rank.source.name: rank.source for rank in job.ranks}.values():
        for category, (count, time_ns) in source.unused.items():
            counts[category] += count
            times[category] += time_ns
    words = [
        f"{format_count(counts[category])} {clipped(category, 40)} ({format_ns(time_ns)})"
        for category, time_ns in times.most_common()
    ]
    return ", ".join(words[:14]) + (f" and {len(words) - 14} more kinds" if len(words) > 14 else "")


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


def _problems(job: Job) -> LabelledLines | tuple[Items, ...]:
    by_reason: dict[str, list[tuple[int, Problem]]] = {}
    for rank in job.ranks:
        for problem in rank.source.problems:
            by_reason.setdefault(problem.reason.code, []).append((rank.rank, problem))
    if not by_reason and not job.failures:
        return LabelledLines(lines=(("problems", "none: everything in the traces was used as written"),))
    worst_first = sorted(
        by_reason.values(), key=lambda problems: list(Effect).index(problems[0][1].reason.effect), reverse=True
    )
    reasons = tuple(_problem(problems, len(job.ranks)) for problems in worst_first)
    unread = tuple(clipped(failure.message.replace("\n", " "), limit=300) for failure in job.failures)
    return (
        Items(items=("problems",), mark=""),
        Items(items=reasons, rest=" " * 21),
        Items(items=unread, mark="  unread    "),
    )


def _problem(problems: list[tuple[int, Problem]], ranks: int) -> str:
    first = problems[0][1]
    count = sum(problem.count for _, problem in problems)
    where = f" (rank {rank_list({rank for rank, _ in problems})})" if ranks > 1 else ""
    example = f", e.g. {clipped(first.example, 80)}" if first.example else ""
    at = f" at byte {first.first_offset:,}" if first.first_offset >= 0 else ""
    return f"{first.reason.effect:<9} {format_count(count):>7}  {first.reason.sentence}{where}{example}{at}"


# --- for programs -----------------------------------------------------------------------------------------------------


def record(job: Job) -> dict[str, Any]:
    clocks = job.clocks
    content = {
        "world_size": job.world_size,
        "missing_ranks": list(job.missing),
        "double_ranks": list(job.doubles),
        "jobs": job.jobs,
        "clocks": {
            "aligned_on_collectives": clocks.operations,
            "worst_residual_ns": clocks.worst_ns,
            "trusted": clocks.trusted,
            "ranks_alone": [job.ranks[index].rank for index in clocks.alone],
        },
        "ranks": [_rank_record(job, index) for index in range(len(job.ranks))],
        "failures": [picked(failure, "path message") for failure in job.failures],
    }
    synthetic = any(bool(rank.metadata.synthetic) for rank in job.ranks)
    return enveloped("inspection", 1, "redline inspect", content, synthetic=synthetic)


def _rank_record(job: Job, index: int) -> dict[str, Any]:
    rank = job.ranks[index]
    return {
        "rank": rank.rank,
        "rank_origin": rank.rank_origin,
        "altered": list(rank.changes),
        "path": rank.source.path,
        "member": rank.source.member,
        "devices": list(rank.device_names),
        "backend": rank.metadata.backend,
        "versions": dict(rank.metadata.versions),
        "recorded": list(rank.metadata.recorded),
        "start_unix_ns": rank.start_ns,
        "window_ns": rank.window_ns,
        "device_busy_ns": rank.busy_ns,
        "communication_ns": rank.communication_ns,
        "step_anchor": rank.step_anchor,
        "step_ns": list(rank.step_ns),
        "spans_by_kind": dict(rank.kinds),
        "events_in_file": dict(rank.source.events),
        "unused_in_file": {
            category: {"spans": count, "time_ns": time_ns} for category, (count, time_ns) in rank.source.unused.items()
        },
        "inflated_bytes": rank.source.inflated_bytes,
        "clock_offset_ns": job.clocks.offset_ns[index],
        "clock_residual_ns": job.clocks.residual_ns[index],
        "coverage": _coverage_record(rank),
        "problems": [_problem_record(problem) for problem in rank.source.problems],
    }


def _coverage_record(rank: RankSummary) -> dict[str, int]:
    coverage = rank.coverage
    return {
        "device_work": coverage.pieces,
        "device_work_ns": coverage.time_ns,
        "with_launch": coverage.with_launch,
        "with_launch_ns": coverage.with_launch_ns,
        "with_operator": coverage.with_operator,
        "with_operator_ns": coverage.with_operator_ns,
        "graph_launches": coverage.graph_launches,
        "from_graphs": coverage.from_graphs,
    }


def _problem_record(problem: Problem) -> dict[str, Any]:
    reason = {"reason": problem.reason.code, "effect": str(problem.reason.effect)}
    return {**reason, **picked(problem, "count first_offset example")}
