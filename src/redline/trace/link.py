"""What belongs to what in one rank: launch to kernel, kernel to operator and annotation, forward to backward."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from redline.timeline.nesting import innermost_at, lumps_of, nearest_of, parents_of
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I32, I64, Column, grouped, numbers_in
from redline.timeline.timeline import (
    NESTED_KINDS,
    NONE,
    Communications,
    DeviceWork,
    EventRecords,
    Kind,
    Operators,
    RecordedWaits,
    Spans,
)
from redline.trace import schema
from redline.trace.columns import Descriptions, RawColumns
from redline.trace.sanity import scattered
from redline.values import dataclass

_DESCRIBED_WITHIN = 4  # levels from a launch up to the operator that describes its collective


def linked_waits(raw: RawColumns, work: DeviceWork) -> RecordedWaits:
    """The waits with the rows of the calls that recorded their events."""
    waits = _without_later_records(raw.waits, work)
    if not len(waits):
        return waits
    asked = scattered(work, "launch", waits.row.astype(np.int64))
    until_ns = raw.spans.start_ns[np.where(asked != NONE, asked, waits.row)]
    return replace(waits, record=_calls_before(raw, waits.record_correlation, until_ns))


def _without_later_records(waits: RecordedWaits, work: DeviceWork) -> RecordedWaits:
    """Events are used again, and Kineto has named the record that came after a wait: then nothing tells the right one.

    Correlation ids are given in the order of the calls.
    """
    later = waits.record_correlation > scattered(work, "correlation", waits.row.astype(np.int64))
    if not later.any():
        return waits
    return replace(
        waits,
        stream=np.where(later, NONE, waits.stream).astype(np.int32),
        record_correlation=np.where(later, NONE, waits.record_correlation),
    )


def _calls_before(raw: RawColumns, correlation: Column, until_ns: Column) -> I32:
    """The last call with each correlation that began before this time: what is recorded later is not waited for."""
    calls = raw.calls
    call_start_ns = raw.spans.start_ns[calls.row]
    # One order by id and start for both; before each wait then stands the call that is meant.
    ids = np.concatenate([calls.correlation, correlation])
    is_wait = np.arange(len(ids)) >= len(calls)
    order = np.lexsort((is_wait, np.concatenate([call_start_ns, until_ns]), ids))
    last = np.maximum.accumulate(np.where(is_wait[order], NONE, np.arange(len(order))))
    before = np.empty(len(order), np.int64)
    before[order] = np.where(last >= 0, order[last], NONE)
    before = before[len(calls) :]
    match = (before != NONE) & (correlation > 0)
    match[match] = ids[before[match]] == correlation[match]
    return np.where(match, np.append(calls.row, NONE)[np.where(match, before, len(calls))], NONE).astype(np.int32)


def event_records(raw: RawColumns, work: DeviceWork, waits: RecordedWaits) -> EventRecords:
    """Calls that recorded an event, with its stream: from the device's own marks, else from what waited for it."""
    marks = raw.event_records
    known = waits.take((waits.record != NONE) & (waits.stream != NONE))
    recorded = scattered(work, "launch", marks.row.astype(np.int64)).astype(np.int32)
    row = np.concatenate([recorded, known.record])
    columns = {
        "stream": np.concatenate([marks.stream, known.stream]),
        "event": np.concatenate([marks.event, known.event]),
        "reached": np.concatenate([marks.row, np.full(len(known), NONE, np.int32)]),
    }
    rows, first = np.unique(row, return_index=True)
    first = first[rows != NONE]
    return EventRecords(row=row[first], **{name: values[first] for name, values in columns.items()})


@dataclass(frozen=True, kw_only=True)
class Linked:
    """The tables that linking completes."""

    spans: Spans
    operators: Operators
    device_work: DeviceWork
    waits: RecordedWaits
    event_records: EventRecords
    communications: Communications


def linked(raw: RawColumns, texts: list[str], log: ProblemLog) -> Linked:
    """All links of one rank's columns; `texts` grows by the words for collectives."""
    spans = _classified(raw, log)
    spans = replace(spans, parent=_parents(spans, log))
    raw = replace(raw, spans=spans)
    launch = _launches(raw, log)
    operator = _operators(raw, launch)
    annotation = _annotations(raw, launch, operator)
    work = replace(raw.device_work, launch=launch, operator=operator, annotation=annotation)
    waits = linked_waits(raw, work)
    return Linked(
        spans=spans,
        operators=replace(raw.operators, forward=_forwards(raw)),
        device_work=work,
        waits=waits,
        event_records=event_records(raw, work, waits),
        communications=_communications(raw, work, texts),
    )


def _classified(raw: RawColumns, log: ProblemLog) -> Spans:
    """Kinds that only a name can tell: communication among kernels, regions among the operators of 2021."""
    spans, texts = raw.spans, raw.texts
    kind = spans.kind.copy()
    for old, is_meant, new in (
        (Kind.KERNEL, schema.is_device_communication, Kind.COMMUNICATION),
        (Kind.OPERATOR, schema.is_annotation_name, Kind.ANNOTATION),
        (Kind.OPERATOR, schema.is_host_communication, Kind.COMMUNICATION),
        (Kind.ANNOTATION, schema.is_host_communication, Kind.COMMUNICATION),
    ):
        rows = np.flatnonzero(kind == old)
        names = numbers_in(spans.name[rows])
        meant = np.array([name for name in names if is_meant(texts[name])], np.int32)
        kind[rows[np.isin(spans.name[rows], meant)]] = new
    regions = spans.name[kind == Kind.ANNOTATION]
    log.add(Reason.LOST_NAMES, sum(1 for name in regions.tolist() if texts[name] == schema.LOST_NAME))
    return replace(spans, kind=kind)


def _parents(spans: Spans, log: ProblemLog) -> I32:
    """Enclosing spans among operators, calls and Python. Annotations cross Python's, so they take no part."""
    nested = np.isin(spans.kind, np.array(NESTED_KINDS, np.uint8))
    parent = np.full(len(spans), NONE, np.int32)
    nested_rows = np.flatnonzero(nested).astype(np.int32)
    lane, start_ns = spans.lane[nested_rows], spans.start_ns[nested_rows]
    end_ns = start_ns + spans.dur_ns[nested_rows]
    for places, shift_ns in lumps_of(lane, start_ns, end_ns):
        rows = nested_rows[places]
        inner, crossing = parents_of(start_ns[places] + shift_ns, end_ns[places] + shift_ns)
        log.add(Reason.CHILD_OUTLIVES_PARENT, int(crossing.sum()))
        has = np.flatnonzero(inner != NONE)
        parent[rows[has]] = rows[inner[has]]
    return parent


def _launches(raw: RawColumns, log: ProblemLog) -> I32:
    """The call that launched each piece of device work, with what looks odd about it noted."""
    spans, work = raw.spans, raw.device_work
    launch, several = launching_calls(raw)
    log.add(Reason.REUSED_CORRELATION, len(np.unique(work.correlation[several])))
    is_kernel = np.isin(spans.kind[work.row], np.array([Kind.KERNEL, Kind.COMMUNICATION], np.uint8))
    log.add(Reason.NO_CORRELATION, int((is_kernel & (work.correlation <= 0)).sum()))
    early = is_kernel & (launch != NONE) & (spans.start_ns[work.row] < spans.start_ns[launch])
    log.add(Reason.KERNEL_BEFORE_LAUNCH, int(early.sum()))
    return launch


def _operators(raw: RawColumns, launch: I32) -> I32:
    """The innermost operator around each launch; where there is no launch, the one that the external id names."""
    spans = raw.spans
    operator = nearest_of(spans.kind == Kind.OPERATOR, spans.parent, launch).astype(np.int32)
    missing = np.flatnonzero(operator == NONE)
    operator[missing] = _by_external_id(raw, missing)
    return operator


def _by_external_id(raw: RawColumns, work_index: I64) -> I32:
    """Operators of device work by external id; of several, the last that began before the work."""
    is_operator = raw.spans.kind[raw.operators.row] == Kind.OPERATOR
    ids, rows = raw.operators.external_id[is_operator], raw.operators.row[is_operator]
    wanted = raw.device_work.external_id[work_index]
    operators = np.full(len(work_index), NONE, np.int32)
    # One order by id and start for both; before each piece of work then stands the operator that is meant.
    all_ids = np.concatenate([ids, wanted])
    starts = raw.spans.start_ns[np.concatenate([rows, raw.device_work.row[work_index]])]
    is_work = np.arange(len(all_ids)) >= len(ids)
    order = np.lexsort((is_work, starts, all_ids))
    last = np.maximum.accumulate(np.where(is_work[order], -1, np.arange(len(order))))
    before = np.empty(len(order), np.int64)
    before[order] = np.where(last >= 0, order[last], NONE)
    before = before[len(ids) :]
    match = (before != NONE) & (wanted > 0)
    match[match] = ids[before[match]] == wanted[match]
    operators[match] = rows[before[match]]
    return operators


def _annotations(raw: RawColumns, launch: I32, operator: I32) -> I32:
    """The innermost annotation around each launch: of its own thread, else of any thread (a step around backward)."""
    spans = raw.spans
    regions = spans.rows_of(Kind.ANNOTATION)
    host = np.where(launch != NONE, launch, operator)
    known = np.flatnonzero(host != NONE)
    annotation = np.full(len(launch), NONE, np.int32)
    if not len(regions) or not len(known):
        return annotation
    lane = spans.lane[host[known]]
    of_lane = {number: regions[places] for number, places in grouped(spans.lane[regions])}
    for number, places in grouped(lane):
        if number in of_lane:
            here = known[places]
            annotation[here] = _region_at(spans, host[here], of_lane[number])
    elsewhere = known[annotation[known] == NONE]
    annotation[elsewhere] = _region_at(spans, host[elsewhere], regions)
    return annotation


def _region_at(spans: Spans, rows: Column, regions: I64) -> I64:
    """Of the regions the innermost that covers the start of each row."""
    starts = spans.start_ns[regions]
    innermost = innermost_at(spans.start_ns[rows], starts, starts + spans.dur_ns[regions])
    return np.where(innermost != NONE, np.append(regions, NONE)[innermost], NONE)


# --- forward to backward ----------------------------------------------------------------------------------------------


def _forwards(raw: RawColumns) -> I32:
    """For operators of the backward pass the forward operator: by the profiler's arrows, else by sequence number."""
    forward = _by_sequence(raw)
    flows = raw.flows
    if not len(flows):
        return forward
    rows = _operators_at(raw, flows.at_ns, flows.lane)
    starts, ends = np.flatnonzero(flows.is_start == 1), np.flatnonzero(flows.is_start == 0)
    order = starts[np.argsort(flows.id[starts], kind="stable")]
    if not len(order):
        return forward
    at = np.minimum(np.searchsorted(flows.id[order], flows.id[ends]), len(order) - 1)
    paired = (flows.id[order[at]] == flows.id[ends]) & (rows[ends] != NONE) & (rows[order[at]] != NONE)
    place = np.searchsorted(raw.operators.row, rows[ends[paired]])
    forward[place] = rows[order[at[paired]]]
    return forward


def _operators_at(raw: RawColumns, at_ns: I64, lane: Column) -> I64:
    """Row of the innermost operator of a lane that begins at this very time."""
    spans = raw.spans
    innermost = np.full(len(at_ns), NONE, np.int64)
    rows = raw.operators.row[spans.kind[raw.operators.row] == Kind.OPERATOR]
    of_lane = {number: rows[places] for number, places in grouped(spans.lane[rows])}
    for number, asked in grouped(lane):
        here = of_lane.get(number)
        if here is None:
            continue
        at = np.maximum(np.searchsorted(spans.start_ns[here], at_ns[asked], "right") - 1, 0)
        exact = spans.start_ns[here[at]] == at_ns[asked]
        innermost[asked[exact]] = here[at[exact]]
    return innermost


def _by_sequence(raw: RawColumns) -> I32:
    """Backward operators name the thread that ran forward; the last forward operator of their sequence is meant."""
    operators = raw.operators
    forward = np.full(len(operators), NONE, np.int32)
    is_backward = (operators.forward_thread > 0) & (operators.sequence >= 0)
    is_forward = (operators.forward_thread <= 0) & (operators.sequence >= 0)
    if not is_backward.any() or not is_forward.any():
        return forward
    rows = np.flatnonzero(is_forward)
    rows = rows[np.argsort(operators.sequence[rows], kind="stable")]
    sequence = operators.sequence[rows]
    wanted = operators.sequence[is_backward]
    at = np.maximum(np.searchsorted(sequence, wanted, "right") - 1, 0)
    is_same = sequence[at] == wanted
    forward[np.flatnonzero(is_backward)[is_same]] = operators.row[rows[at[is_same]]]
    return forward


# --- communication ----------------------------------------------------------------------------------------------------


def _communications(raw: RawColumns, work: DeviceWork, texts: list[str]) -> Communications:
    """Every communicating span with the description that its kernel, or an operator around its launch, carries."""
    spans = raw.spans
    rows = spans.rows_of(Kind.COMMUNICATION)
    launch = scattered(work, "launch", rows).astype(np.int32)
    region = scattered(work, "annotation", rows).astype(np.int32)
    descriptions = raw.descriptions.take(raw.descriptions.collective != NONE)
    description = _descriptions(raw, rows, launch, descriptions)
    described = description != NONE
    numbered = raw.descriptions.take(raw.descriptions.sequence != NONE)
    number = _descriptions(raw, rows, launch, numbered)  # not every version writes it beside the kernel, too

    def column(name: str) -> Column:
        values = np.full(len(rows), NONE, np.int64)
        values[described] = descriptions.columns()[name][description[described]]
        return values

    in_elements = column("in_elements")
    in_elements[~described] = _recorded_elements(raw, rows[~described])
    return Communications(
        row=rows.astype(np.int32),
        collective=_words(raw, rows, column("collective"), region, texts),
        in_elements=in_elements,
        out_elements=column("out_elements"),
        dtype=column("dtype").astype(np.int32),
        group=column("group").astype(np.int32),
        group_ranks=column("group_ranks").astype(np.int32),
        group_size=column("group_size").astype(np.int32),
        source=column("source").astype(np.int32),
        destination=column("destination").astype(np.int32),
        sequence=np.where(number != NONE, np.append(numbered.sequence, NONE)[number], NONE),
        described=described.astype(np.uint8),
    )


def _descriptions(raw: RawColumns, rows: I64, launch: I32, descriptions: Descriptions) -> I64:
    """Index into these descriptions: of the span itself, else of the nearest operator around its launch."""
    nearest = np.full(len(rows), NONE, np.int64)
    have = descriptions.row
    if not len(have):
        return nearest
    at = rows.astype(np.int64)
    for level in range(_DESCRIBED_WITHIN + 1):
        place = np.minimum(np.searchsorted(have, at), len(have) - 1)
        match = (nearest == NONE) & (at != NONE) & (have[place] == at)
        nearest[match] = place[match]
        outward = launch.astype(np.int64) if level == 0 else at
        at = np.where(outward != NONE, raw.spans.parent[outward], NONE)
    return nearest


def _recorded_elements(raw: RawColumns, rows: I64) -> I64:
    """Elements of the tensors that a span was called with, from its recorded shapes; -1 where there are none."""
    shapes = scattered(raw.operators, "shapes", rows)
    counts = {index: elements_in(raw.texts[index]) for index in np.unique(shapes).tolist() if index != NONE}
    return np.array([counts.get(index, NONE) for index in shapes.tolist()], np.int64)


def elements_in(shapes: str) -> int:
    """[[2, 3], [], [4]] -> 10: elements of all tensors in a list of shapes, nested or not; -1 for anything else."""
    try:
        value = msgspec.json.decode(shapes)
    except (msgspec.DecodeError, RecursionError):
        return NONE
    elements = [math.prod(shape) for shape in _tensor_shapes(value)]
    return sum(elements) if elements and min(elements) >= 0 and sum(elements) < 2**62 else NONE


def _tensor_shapes(value: Any) -> Iterator[list[int]]:
    if isinstance(value, list):
        if value and all(isinstance(size, int) for size in value):
            yield value
        else:
            for inner in value:
                yield from _tensor_shapes(inner)


def _number_of(text: str, texts: list[str]) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def _words(raw: RawColumns, rows: I64, metadata: I64, region: I32, texts: list[str]) -> I32:
    """Our word for each collective: from the metadata, else from the backend's region, else from the kernel's name."""
    index: dict[str, int] = {}
    region_name = np.where(region != NONE, raw.spans.name[region], NONE)
    words: dict[tuple[int, int, int], int] = {}
    for key in set(zip(metadata.tolist(), region_name.tolist(), raw.spans.name[rows].tolist(), strict=True)):
        described, around, kernel = (raw.texts[number] if number != NONE else "" for number in key)
        names = (described, around if schema.is_backend_region(around) else "", kernel)
        word = next(filter(None, map(schema.collective_of, names)), "")
        if word not in index:
            index[word] = _number_of(word, texts)
        words[key] = index[word]
    keys = zip(metadata.tolist(), region_name.tolist(), raw.spans.name[rows].tolist(), strict=True)
    return np.array([words[key] for key in keys], np.int32)


def launching_calls(raw: RawColumns) -> tuple[I32, I64]:
    """Row of the launching call for each row of the device work (-1 for none), and which had several to choose from.

    Ids should be unique, but ranks merged into one file share them and writers have reused them:
    with as many calls as pieces of work they pair in order; else the latest call before the work is taken.
    """
    calls, work = raw.calls, raw.device_work
    call_start = raw.spans.start_ns[calls.row]
    order = np.lexsort((call_start, calls.correlation))
    ids, starts, rows = calls.correlation[order], call_start[order], calls.row[order]
    first = np.searchsorted(ids, work.correlation, "left")
    last = np.searchsorted(ids, work.correlation, "right")
    known = (last > first) & (work.correlation > 0)
    chosen = first.copy()
    several = np.flatnonzero(known & (last - first > 1))
    work_start = raw.spans.start_ns[work.row]
    for _, places in grouped(work.correlation[several]):
        group = several[places]
        low, high = first[group[0]], last[group[0]]
        if len(group) == high - low:
            chosen[group] = np.arange(low, high)
        else:
            chosen[group] = np.maximum(low, low + np.searchsorted(starts[low:high], work_start[group], "right") - 1)
    launch = np.full(len(work), NONE, np.int32)
    launch[known] = rows[chosen[known]]
    return launch, several
