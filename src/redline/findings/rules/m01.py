"""RL-M01: the allocator asks the driver for memory in the middle of steps, or holds much that it cannot use."""

from collections.abc import Iterator

import numpy as np

from redline.analysis.rank.scene import Scene
from redline.findings.rule import Evidence, Grade, Look, Numerics, Rule, Seen
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS
from redline.trace import schema

TIME_SHARE = 0.01  # of the step
UNUSABLE_SHARE = 0.1  # of the device's memory
RESERVED_SHARE = 0.75  # of the device's memory: below this there is room whatever is unusable


def look(scene: Scene) -> Look | None:
    if not scene.on_gpu:
        return None
    rows = _calls(scene)
    memory = _memory(scene)
    if not len(rows) and not memory:
        return None
    spans = scene.timeline.spans
    figures = {
        "calls": float(len(rows)),
        "calling_ns": float(spans.dur_ns[rows].sum()),
        "first_steps": float(len(scene.ledger.start_ns) > 0),
        **memory,
    }
    return Look(
        claim=scene.idle_after(Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])),
        figures=figures,
        names={"call": scene.name(int(rows[spans.dur_ns[rows].argmax()]))} if len(rows) else {},
    )


def _calls(scene: Scene) -> I64:
    """Calls that take memory from the driver or give it back, in any step but the first, which may warm up."""
    spans = scene.timeline.spans
    rows = scene.rows_named(schema.is_allocation, *CALL_KINDS)
    later = Intervals.union_of(scene.ledger.start_ns[1:], scene.ledger.end_ns[1:])
    return rows[later.contains(spans.start_ns[rows])]


def _memory(scene: Scene) -> dict[str, float]:
    """The allocator of the fullest device when most was allocated; nothing where that is no trouble or not known."""
    marks = scene.timeline.memory
    known = {one.id: one.memory_bytes for one in scene.timeline.metadata.devices if one.memory_bytes}
    found: dict[str, float] = {}
    for device, memory_bytes in known.items():
        rows = np.flatnonzero(marks.device == device)
        if not len(rows):
            continue
        peak = rows[marks.allocated_bytes[rows].argmax()]
        reserved_bytes = int(marks.reserved_bytes[peak])
        unusable_bytes = reserved_bytes - int(marks.allocated_bytes[peak])
        if reserved_bytes > RESERVED_SHARE * memory_bytes and unusable_bytes > UNUSABLE_SHARE * memory_bytes:
            found = {"unusable_bytes": unusable_bytes, "memory_bytes": memory_bytes, "full": 1.0}
    return found


def explain(seen: Seen) -> Iterator[Evidence]:
    if seen.share >= TIME_SHARE:
        later = max(seen.steps - seen.figures["first_steps"], 1)  # the calls of first steps were not counted
        yield Evidence(
            "{calls:,} calls per step take memory from the driver or give it back, the longest of them {call}: they "
            "take {calling_ns}, and the device is idle for {idle_ns} because of them.",
            {
                "calls": round(seen.figures["calls"] / later),
                "call": seen.names["call"],
                "calling_ns": seen.figures["calling_ns"] / later,
                "idle_ns": seen.alone_ns * seen.steps / later,
            },
        )
    ranks = seen.figures.get("full", 0.0)
    if ranks:
        memory_bytes = seen.figures["memory_bytes"]
        yield Evidence(
            "When most memory is allocated, {unusable_bytes} more are reserved than allocated: {unusable_share} of "
            "the device's memory.",
            {
                "unusable_bytes": seen.figures["unusable_bytes"] / ranks,
                "unusable_share": seen.figures["unusable_bytes"] / memory_bytes,
            },
        )


RULE = Rule(
    code="RL-M01",
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    look=look,
    explain=explain,
    least_share=0.0,
)
