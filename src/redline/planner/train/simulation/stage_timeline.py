"""The spans of one stage as a Timeline: columns, lanes, launches linked to what they launched."""

import json

import numpy as np

from redline.planner.train.simulation.host_spans import STEP
from redline.planner.train.simulation.pipeline_messages import STAGES
from redline.planner.train.simulation.stage_spans import SimulatedSpan, stream_name
from redline.timeline.nesting import parents_of
from redline.timeline.table import I32
from redline.timeline.timeline import (
    BUSY_KINDS,
    NESTED_KINDS,
    NONE,
    Communications,
    DeviceWork,
    EventRecords,
    Kind,
    Lane,
    MemoryMarks,
    Metadata,
    Operators,
    PythonCalls,
    RecordedWaits,
    RuntimeCalls,
    Source,
    Spans,
    StepWindows,
    Timeline,
    TimelineOrigin,
)


def stage_timeline(spans: list[SimulatedSpan], stage: int, about: Metadata) -> Timeline:
    """`spans` are in order of start; the rank is the number of the stage."""
    streams = sorted({span.stream for span in spans} - {NONE})
    words = _Words()
    every, communications = _spans(spans, streams, words), _communications(spans, stage, about.world_size, words)
    at = np.flatnonzero(every.name == words[STEP])
    operators, calls = _operators(spans, words), _calls(spans)
    return Timeline(
        origin=TimelineOrigin.PREDICTED,
        rank=stage,
        rank_origin="stage of the pipeline",
        zero_ns=0,
        texts=tuple(words),
        lanes=(Lane(process="host", thread="1", label="host"), *(_lane(stream) for stream in streams)),
        spans=every,
        operators=operators,
        calls=calls,
        device_work=_device_work(spans, calls),
        waits=RecordedWaits.empty(),
        event_records=EventRecords.empty(),
        communications=communications,
        python_calls=PythonCalls.empty(),
        memory=MemoryMarks.empty(),
        steps=StepWindows(start_ns=every.start_ns[at], end_ns=every.end_ns[at], label=every.name[at]),
        step_anchor="ProfilerStep",
        metadata=about,
        source=Source(path=about.synthetic),
    )


class _Words(dict[str, int]):
    """Numbers for texts, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


def _lane(stream: int) -> Lane:
    return Lane(process="0", thread=str(stream), label=stream_name(stream), device=0, stream=stream)


def _spans(spans: list[SimulatedSpan], streams: list[int], words: _Words) -> Spans:
    lane_of = {stream: number for number, stream in enumerate([NONE, *streams])}
    start_ns, end_ns = (np.array([span[place] for span in spans], np.int64) for place in (0, 1))
    kind = np.array([span.kind for span in spans], np.uint8)
    parent = _none(len(spans))
    nested = np.flatnonzero(np.isin(kind, np.array(NESTED_KINDS, np.uint8)))
    inner, _ = parents_of(start_ns[nested], end_ns[nested])
    parent[nested] = np.where(inner == NONE, NONE, nested[inner])
    return Spans(
        start_ns=start_ns,
        dur_ns=end_ns - start_ns,
        kind=kind,
        name=np.array([words[span.name] for span in spans], np.int32),
        lane=np.array([lane_of[span.stream] for span in spans], np.int32),
        parent=parent,
    )


def _operators(spans: list[SimulatedSpan], words: _Words) -> Operators:
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.OPERATOR]
    chosen = [spans[row] for row in rows]
    texts = {
        name: np.array([words[getattr(span.call, name)] if span.call else NONE for span in chosen], np.int32)
        for name in ("shapes", "dtypes", "values")
    }
    return Operators(
        row=np.array(rows, np.int32),
        external_id=np.array([span.correlation for span in chosen], np.int64),
        sequence=np.array([span.sequence for span in chosen], np.int64),
        forward_thread=np.array([int(span.is_node) for span in chosen], np.int64),
        **texts,
        strides=_none(len(rows)),
        site=_none(len(rows)),
        forward=_none(len(rows)),
    )


def _calls(spans: list[SimulatedSpan]) -> RuntimeCalls:
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.RUNTIME]
    correlation = np.array([spans[row].correlation for row in rows], np.int64)
    return RuntimeCalls(row=np.array(rows, np.int32), correlation=correlation, external_id=correlation)


def _device_work(spans: list[SimulatedSpan], calls: RuntimeCalls) -> DeviceWork:
    rows = [row for row, span in enumerate(spans) if span.kind in BUSY_KINDS]
    call_of = dict(zip(calls.correlation.tolist(), calls.row.tolist(), strict=True))
    operator_of = {
        span.correlation: row for row, span in enumerate(spans) if span.kind is Kind.OPERATOR and span.call is not None
    }
    correlation = [spans[row].correlation for row in rows]
    unknown = _none(len(rows))
    return DeviceWork(
        row=np.array(rows, np.int32),
        correlation=np.array(correlation, np.int64),
        external_id=np.array(correlation, np.int64),
        bytes=np.array([spans[row].bytes for row in rows], np.int64),
        grid=unknown,
        block=unknown,
        graph_node=unknown,
        launch=np.array([call_of[number] for number in correlation], np.int32),
        operator=np.array([operator_of.get(number, NONE) for number in correlation], np.int32),
        annotation=unknown,
    )


def _communications(spans: list[SimulatedSpan], stage: int, stages: int, words: _Words) -> Communications:
    """Of groups, only the one of all stages has several members in the file."""
    rows = [row for row, span in enumerate(spans) if span.message is not None]
    sent = [(span.message, span.share, span.event) for row in rows for span in (spans[row],)]
    messages = [message for message, _, _ in sent if message is not None]
    elements = [message.elements(share) for message, share, _ in sent if message is not None]
    partners = [event.partner if event is not None else NONE for _, _, event in sent]
    all_stages = words[json.dumps(list(range(stages)))]
    groups = [message.group if message.group == STAGES else f"{message.group} of stage {stage}" for message in messages]
    collectives = [message.collective for message in messages]
    return Communications(
        row=np.array(rows, np.int32),
        collective=np.array([words[collective] for collective in collectives], np.int32),
        in_elements=np.array([size for size, _ in elements], np.int64),
        out_elements=np.array([size for _, size in elements], np.int64),
        dtype=np.array([words[message.dtype] for message in messages], np.int32),
        group=np.array([words[group] for group in groups], np.int32),
        group_ranks=np.array([all_stages if group == STAGES else NONE for group in groups], np.int32),
        group_size=np.array([message.members for message in messages], np.int32),
        source=_partners(collectives, partners, "receive"),
        destination=_partners(collectives, partners, "send"),
        sequence=_none(len(rows)),
        described=np.ones(len(rows), np.uint8),
    )


def _partners(collectives: list[str], partners: list[int], meant: str) -> I32:
    both = zip(collectives, partners, strict=True)
    return np.array([partner if collective == meant else NONE for collective, partner in both], np.int32)


def _none(count: int) -> I32:
    return np.full(count, NONE, np.int32)
