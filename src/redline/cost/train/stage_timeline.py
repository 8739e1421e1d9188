"""The spans of one stage as a Timeline: columns, lanes, launches linked to what they launched."""

import json

import numpy as np

from redline.cost.train.stage_spans import STAGES, STEP, Span
from redline.timeline.table import I32
from redline.timeline.timeline import (
    BUSY_KINDS,
    NONE,
    Calls,
    Communications,
    DeviceWork,
    Kind,
    Lane,
    MemoryMarks,
    Metadata,
    Operators,
    Origin,
    PythonCalls,
    Source,
    Spans,
    Steps,
    Timeline,
)


def stage_timeline(spans: list[Span], stage: int, about: Metadata) -> Timeline:
    """`spans` are in order of start; the rank is the number of the stage."""
    streams = sorted({span.stream for span in spans} - {NONE})
    words = _Words()
    every, communications = _spans(spans, streams, words), _communications(spans, stage, about.world_size, words)
    at = np.flatnonzero(every.name == words[STEP])
    calls = _calls(spans)
    return Timeline(
        origin=Origin.PREDICTED,
        rank=stage,
        rank_origin="stage of the pipeline",
        zero_ns=0,
        texts=tuple(words),
        lanes=(Lane(process="host", thread="1", label="host"), *(_lane(stream) for stream in streams)),
        spans=every,
        operators=Operators.empty(),
        calls=calls,
        device_work=_device_work(spans, calls),
        communications=communications,
        python_calls=PythonCalls.empty(),
        memory=MemoryMarks.empty(),
        steps=Steps(start_ns=every.start_ns[at], end_ns=every.end_ns[at], label=every.name[at]),
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
    return Lane(process="0", thread=str(stream), device=0, stream=stream)


def _spans(spans: list[Span], streams: list[int], words: _Words) -> Spans:
    lane_of = {stream: number for number, stream in enumerate([NONE, *streams])}
    return Spans(
        start_ns=np.array([span.start_ns for span in spans], np.int64),
        dur_ns=np.array([span.end_ns - span.start_ns for span in spans], np.int64),
        kind=np.array([span.kind for span in spans], np.uint8),
        name=np.array([words[span.name] for span in spans], np.int32),
        lane=np.array([lane_of[span.stream] for span in spans], np.int32),
        parent=_none(len(spans)),
    )


def _calls(spans: list[Span]) -> Calls:
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.RUNTIME]
    return Calls(
        row=np.array(rows, np.int32),
        correlation=np.array([spans[row].correlation for row in rows], np.int64),
        external_id=_none(len(rows)),
    )


def _device_work(spans: list[Span], calls: Calls) -> DeviceWork:
    rows = [row for row, span in enumerate(spans) if span.kind in BUSY_KINDS]
    call_of = dict(zip(calls.correlation.tolist(), calls.row.tolist(), strict=True))
    unknown = _none(len(rows))
    return DeviceWork(
        row=np.array(rows, np.int32),
        correlation=np.array([spans[row].correlation for row in rows], np.int64),
        external_id=unknown,
        bytes=unknown.astype(np.int64),
        grid=unknown,
        block=unknown,
        graph_node=unknown,
        launch=np.array([call_of[spans[row].correlation] for row in rows], np.int32),
        operator=unknown,
        annotation=unknown,
    )


def _communications(spans: list[Span], stage: int, stages: int, words: _Words) -> Communications:
    """Sizes are not known here; of groups, only the one of all stages has several members in the file."""
    rows = [row for row, span in enumerate(spans) if span.kind is Kind.COMMUNICATION]
    chosen = [spans[row] for row in rows]
    unknown = _none(len(rows))
    members = json.dumps(list(range(stages)))
    with_members = [span.group == STAGES for span in chosen]
    groups = [span.group if span.group == STAGES else f"{span.group} of stage {stage}" for span in chosen]
    return Communications(
        row=np.array(rows, np.int32),
        collective=np.array([words[span.collective] for span in chosen], np.int32),
        in_elements=unknown.astype(np.int64),
        out_elements=unknown.astype(np.int64),
        dtype=unknown,
        group=np.array([words[group] for group in groups], np.int32),
        group_ranks=np.array([words[members] if has else NONE for has in with_members], np.int32),
        group_size=np.array([stages if has else NONE for has in with_members], np.int32),
        source=np.array([span.partner if span.collective == "receive" else NONE for span in chosen], np.int32),
        destination=np.array([span.partner if span.collective == "send" else NONE for span in chosen], np.int32),
        described=np.ones(len(rows), np.uint8),
    )


def _none(count: int) -> I32:
    return np.full(count, NONE, np.int32)
