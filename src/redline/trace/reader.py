"""One trace file to timelines: the pure function that a loop, a process pool or a cluster can run."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from redline.artifacts.masking import masked, masked_texts
from redline.errors import DamagedError, InputError
from redline.timeline.host_evidence import GroupCount
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import encodable, numbers_in
from redline.timeline.timeline import (
    CALL_KINDS,
    NONE,
    Kind,
    Lane,
    Metadata,
    Source,
    StepWindows,
    Timeline,
    TimelineOrigin,
)
from redline.trace import rank_claim, schema
from redline.trace.column_builder import LaneKey
from redline.trace.columns import RawColumns
from redline.trace.devices import device_of, told_apart, with_named_devices
from redline.trace.document import TraceDocument
from redline.trace.host_evidence import evidence_of
from redline.trace.inflate import Limits, TraceContent, contents
from redline.trace.link import linked
from redline.trace.metadata import base_time_ns, metadata_of, stated_origin, stated_rank
from redline.trace.parallel import Worker, collected, workers
from redline.trace.processes import by_process, named_rank
from redline.trace.sanity import note_contradictions, sane
from redline.trace.steps import find_steps
from redline.trace.times import LARGEST_NS
from redline.values import dataclass

Result = TypeVar("Result")
_LARGE_BYTES = 40_000_000  # of text
_INFLATES = 13  # times, at least: so much do real traces
HARMLESS = frozenset(
    {
        Reason.STREAM_OVERLAP,
        Reason.CHILD_OUTLIVES_PARENT,
        Reason.RANK_INFERRED,
        Reason.UNKNOWN_PHASE,
        Reason.UNUSED_CATEGORY,
        Reason.DEVICE_BY_STRUCTURE,
    }
)
"""Notes that say nothing against a trace, so that even a strict reading accepts them."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read; the same options and the same file give the same timelines."""

    step_regex: str | None = None
    strict: bool = False
    processes: int = 1  # that one large file may take; more than a few have nothing to do
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    """What came out of one file."""

    timelines: tuple[Timeline, ...]
    failures: tuple[str, ...] = ()  # members of an archive that could not be read, each with the reason


@dataclass(frozen=True, kw_only=True)
class OfFile(Generic[Result]):
    """What was made of the ranks in one file, and messages on those of its members that could not be read."""

    ranks: tuple[Result, ...]
    failures: tuple[str, ...]


def read_file(path: Path, options: ReadOptions | None = None) -> ReadResult:
    """The timelines in a file: one per rank. Raises InputError where there is none."""
    options = options or ReadOptions()
    timelines: list[Timeline] = []
    failures: list[str] = []
    try:
        with workers(options.processes - 1 if _is_large(path) else 0) as team:
            for content in contents(path, options.limits):
                try:
                    timelines += _read_document(path, content, options, team)
                except InputError as error:
                    if not content.member or options.strict:
                        raise
                    failures.append(str(error))
    except InputError as error:
        if not timelines or options.strict:
            raise
        failures.append(str(error))
    if not timelines:
        raise InputError(failures[0])
    return ReadResult(timelines=tuple(timelines), failures=tuple(failures))


def _is_large(path: Path) -> bool:
    """Whether decoding takes so long that starting processes for it is worth their time."""
    if not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        is_plain = file.read(1) in (b"{", b"[")
        return os.fstat(file.fileno()).st_size >= (_LARGE_BYTES if is_plain else _LARGE_BYTES // _INFLATES)
    return False


def _read_document(path: Path, content: TraceContent, options: ReadOptions, team: list[Worker]) -> list[Timeline]:
    if path.suffix == ".tmp":
        content.log.add(Reason.UNFINISHED_EXPORT)
    document = TraceDocument(content)
    raw = collected(document, team)
    metadata = document.metadata()
    document.refuse_if_void(sum(raw.events.values()))
    raw, unused = told_apart(raw, content.log)
    raw = sane(raw, content.log)
    _note_absences(raw, content.log)
    zero_ns = _from_zero(raw, base_time_ns(metadata))
    source = Source(
        path=encodable(str(path)),
        member=content.member,
        inflated_bytes=document.offset,
        events=raw.events,
        unused=unused,
    )
    parts = by_process(raw, content.log)
    described = with_named_devices(metadata_of(metadata, content.log), raw)
    # It is of one process, and says nothing of others in the same file.
    evidence = evidence_of(metadata if len(parts) == 1 else {}, zero_ns, content.log)
    texts = list(raw.texts)  # of all ranks: each would need nearly all of them
    timelines = []
    for process, part in parts:
        log = ProblemLog()
        log.extend(content.log.freeze())
        claim = _rank_claim(metadata if len(parts) == 1 else {}, part, process, source)
        timeline = replace(
            _timeline(part, texts, zero_ns, claim, described, source, stated_origin(metadata), log), evidence=evidence
        )
        timeline = numbered(timeline, texts)
        if options.strict:
            refuse_damage(timeline.source)
        timelines.append(timeline)
    shared = tuple(masked_texts(texts))
    return [with_steps(replace(timeline, texts=shared), options.step_regex) for timeline in timelines]


def _timeline(
    raw: RawColumns,
    texts: list[str],
    zero_ns: int,
    claim: tuple[int, str],
    metadata: Metadata,
    source: Source,
    origin: TimelineOrigin,
    log: ProblemLog,
) -> Timeline:
    links = linked(raw, texts, log)
    if origin is not TimelineOrigin.PREDICTED:  # parts of its backward passes share a number
        note_contradictions(replace(raw, spans=links.spans), log)
    if claim[1] not in rank_claim.STATED:
        log.add(Reason.RANK_INFERRED, example=claim[1])
    return Timeline(
        origin=origin,
        rank=claim[0],
        rank_origin=claim[1],
        zero_ns=zero_ns,
        texts=(),  # shared by all ranks, once they are complete
        lanes=tuple(_lane(raw, index, key) for index, key in enumerate(raw.lanes)),
        spans=links.spans,
        operators=links.operators,
        calls=raw.calls,
        device_work=links.device_work,
        waits=links.waits,
        event_records=links.event_records,
        communications=links.communications,
        python_calls=raw.python_calls,
        memory=raw.memory,
        steps=StepWindows.empty(),
        step_anchor="",
        metadata=metadata,
        source=replace(source, problems=log.freeze()),
    )


def with_steps(timeline: Timeline, step_regex: str | None) -> Timeline:
    """The timeline cut into steps."""
    recognised_steps = find_steps(timeline.spans, timeline.texts, timeline.window_ns, step_regex)
    return replace(timeline, steps=recognised_steps.steps, step_anchor=recognised_steps.anchor)


def _from_zero(raw: RawColumns, base_ns: int) -> int:
    """Make times count from the first span or mark, and give the Unix time of that."""
    firsts = [int(times.min()) for times in (raw.spans.start_ns, raw.memory.at_ns) if len(times)]
    first_ns = min(firsts, default=0)
    for times in (raw.spans.start_ns, raw.memory.at_ns, raw.flows.at_ns):
        np.subtract(times, first_ns, out=times)  # in place: the columns are the reader's own
    return max(-LARGEST_NS, min(base_ns + first_ns, LARGEST_NS))


def _rank_claim(metadata: dict[str, Any], raw: RawColumns, process: int | str, source: Source) -> tuple[int, str]:
    """The rank of a process and how it is known; -1 where only the order of the files can tell."""
    for rank, origin in (
        (stated_rank(metadata), rank_claim.FROM_METADATA),
        (named_rank(raw, process), rank_claim.FROM_PROCESS_NAME),
        (rank_claim.rank_in_groups(raw.descriptions, raw.texts), rank_claim.FROM_COLLECTIVES),
        (rank_claim.rank_in_file_name(source.member or source.path), rank_claim.FROM_FILE_NAME),
    ):
        if rank != NONE:
            return rank, origin
    return NONE, rank_claim.FROM_ORDER


def _lane(raw: RawColumns, index: int, key: LaneKey) -> Lane:
    process, thread, on_device = key
    label = masked(raw.thread_names.get((process, thread), ""))
    if not on_device:
        return Lane(process=str(process), thread=str(thread), label=label)
    device, stream = raw.lane_streams.get(index, (NONE, NONE))
    device = device_of(process) if device == NONE else device
    return Lane(process=str(process), thread=str(thread), label=label, device=device, stream=stream)


def _note_absences(raw: RawColumns, log: ProblemLog) -> None:
    """What a reader of the timeline would wonder about: no events at all, launches without kernels, odd kernels."""
    spans = raw.spans
    if not len(spans):
        log.add(Reason.NO_EVENTS)
        return
    calls = spans.rows_of(*CALL_KINDS)
    names = numbers_in(spans.name[calls])
    if (
        not len(raw.device_work)
        and Reason.TRUNCATED_FILE not in log
        and any(schema.launches_work(raw.texts[name]) for name in names)
    ):
        log.add(Reason.NO_DEVICE_EVENTS, example="kernels were launched, none was recorded")
    host_lanes = {key[:2] for key in raw.lanes if not key[2]}
    odd = [lane for lane, key in enumerate(raw.lanes) if key[2] and key[:2] in host_lanes]
    if odd:  # calls are written beside the kernels of some devices
        working = numbers_in(spans.lane[spans.rows_of(Kind.OPERATOR, Kind.ANNOTATION, Kind.PYTHON)])
        host_lanes = {raw.lanes[lane][:2] for lane in working}
        odd = [lane for lane in odd if raw.lanes[lane][:2] in host_lanes]
        kernels = (spans.kind == Kind.KERNEL) & np.isin(spans.lane, odd)
        log.add(Reason.SUSPICIOUS_KERNEL, int(kernels.sum()))


def refuse_damage(source: Source) -> None:
    """Raise DamagedError if anything in the file had to be repaired or dropped."""
    damage = [problem for problem in source.problems if problem.reason not in HARMLESS]
    if damage:
        worst = damage[0]
        more = f", and more kinds of damage: {len(damage) - 1}" if len(damage) > 1 else ""
        raise DamagedError(
            f"{source.name}: damaged ({worst.count} x {worst.reason.code}: {worst.reason.sentence}{more}).\n"
            "Read it without `strict=True` to use the rest."
        )


def numbered(timeline: Timeline, texts: Sequence[str]) -> Timeline:
    """Where only one group was at work, and had as many collectives as there are in the trace: in order of start.

    Of several groups nothing in the trace tells which collective is whose.
    """
    at_work = [group for group in timeline.evidence.groups if group.closed > group.opened]
    comms = timeline.communications
    names = timeline.spans.name[comms.row].tolist()
    counted = np.flatnonzero([schema.is_counted_by_group(texts[name]) for name in names])
    if len(at_work) != 1 or not _agrees(at_work[0], len(counted)) or (comms.sequence[counted] != NONE).any():
        return timeline
    sequence = comms.sequence.astype(np.int64)
    sequence[counted] = at_work[0].opened + np.arange(len(counted))
    return replace(timeline, communications=replace(comms, sequence=sequence))


def _agrees(group: GroupCount, counted: int) -> bool:
    return group.opened >= 0 and group.closed - group.opened == counted
