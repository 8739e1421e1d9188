"""RL-M01: the driver is asked for memory in the middle of steps, or the allocator holds much that it cannot use."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.usual_steps import without_warm_up
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS
from redline.trace import schema

TIME_SHARE = 0.01  # of the step
MANY_CALLS = 50  # in every step: an allocator that keeps what it has does not need them
MOSTLY = 0.5  # of the time of these calls
UNUSABLE_SHARE = 0.1  # of the device's memory
RESERVED_SHARE = 0.75  # of the device's memory: below this there is room whatever is unusable
_MEMORY = ("full", "memory_bytes", "unusable_bytes")  # figures of ranks whose memory is full


def match(analysis: RankAnalysis) -> RuleMatch | None:
    if not analysis.on_gpu:
        return None
    spans, ledger = analysis.timeline.spans, analysis.ledger
    rows = analysis.rows_named(_asks_the_driver, *CALL_KINDS)
    calls = _in_steps(spans.start_ns[rows], analysis)
    steps = (
        without_warm_up(analysis, calls) if len(calls) > 1 else Intervals.empty()
    )  # of one alone nothing can be told
    rows = rows[steps.contains(spans.start_ns[rows])]
    memory = _memory(analysis)
    if not len(rows) and not memory:
        return None
    figures = {
        "calls": float(len(rows)),
        "calling_ns": float(spans.dur_ns[rows].sum()),
        "steps": float(steps.contains(ledger.start_ns).sum()),
        "uncached": float(len(calls) > 1 and calls.min() >= max(MANY_CALLS, 0.9 * calls.max())),
        **_pinning(analysis, rows),
        **memory,
    }
    return RuleMatch(
        claim=analysis.idle_after(Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])),
        figures=figures,
        names={"call": analysis.name(int(rows[spans.dur_ns[rows].argmax()]))} if len(rows) else {},
    )


def _asks_the_driver(call_name: str) -> bool:
    return schema.is_allocation(call_name) or schema.is_pinning(call_name)


def _in_steps(start_ns: I64, analysis: RankAnalysis) -> I64:
    """How many of these times, which are in order, lie in each step."""
    edges = np.searchsorted(start_ns, np.stack(analysis.host_steps))
    number: I64 = edges[1] - edges[0]
    return number


def _pinning(analysis: RankAnalysis, rows: I64) -> dict[str, float]:
    """Of these calls, those that pin memory of the host; nothing where there are none."""
    pinning = np.intersect1d(rows, analysis.rows_named(schema.is_pinning, *CALL_KINDS))
    return {"pinning_ns": float(analysis.timeline.spans.dur_ns[pinning].sum())} if len(pinning) else {}


def _memory(analysis: RankAnalysis) -> dict[str, float]:
    """The allocator of the fullest device when most was allocated; nothing where that is no trouble or not known."""
    marks = analysis.timeline.memory
    known = {device.id: device.memory_bytes for device in analysis.timeline.metadata.devices if device.memory_bytes}
    figures: dict[str, float] = {}
    for device, memory_bytes in known.items():
        rows = np.flatnonzero(marks.device == device)
        if not len(rows):
            continue
        peak = rows[marks.allocated_bytes[rows].argmax()]
        reserved_bytes = int(marks.reserved_bytes[peak])
        unusable_bytes = reserved_bytes - int(marks.allocated_bytes[peak])
        if reserved_bytes > RESERVED_SHARE * memory_bytes and unusable_bytes > UNUSABLE_SHARE * memory_bytes:
            figures = dict(zip(_MEMORY, (1.0, memory_bytes, unusable_bytes), strict=True))
    return figures


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    if totals.share >= TIME_SHARE:
        steps = max(totals.figures["steps"], 1)  # first steps that warm up were not counted
        yield Evidence(
            "{calls:,} calls per step allocate or free driver memory, the longest is {call}: they take "
            "{calling_ns}, and the device is idle for {idle_ns} because of them.",
            {
                "calls": round(totals.figures["calls"] / steps),
                "call": totals.names.get("call", "?"),
                "calling_ns": totals.figures["calling_ns"] / steps,
                "idle_ns": totals.alone_ns * totals.steps / steps,
            },
        )
        if _mostly_pins(totals):
            yield Evidence(
                "{pinning_share} of that time goes into pinning memory of the host.",
                {"pinning_share": totals.figures["pinning_ns"] / totals.figures["calling_ns"]},
            )
    if totals.figures["uncached"] and not _mostly_pins(totals):
        yield Evidence(
            "Their number is the same in every step: the caching allocator seems to be off. Check "
            "PYTORCH_NO_CUDA_MEMORY_CACHING in the environment."
        )
    ranks, memory_bytes, unusable_bytes = (totals.figures.get(name, 0.0) for name in _MEMORY)
    if ranks:
        yield Evidence(
            "At the allocation peak, {unusable_bytes} is reserved but not allocated: {unusable_share} of the "
            "device memory.",
            {
                "unusable_bytes": unusable_bytes / max(ranks, 1),
                "unusable_share": unusable_bytes / max(memory_bytes, 1),
            },
        )


def _mostly_pins(totals: MatchTotals) -> bool:
    return totals.figures.get("pinning_ns", 0.0) > MOSTLY * totals.figures["calling_ns"]


def fix(totals: MatchTotals) -> Evidence | None:
    """Settings of the caching allocator do nothing where it is off, nor for memory of the host."""
    if _mostly_pins(totals):
        return Evidence(
            "Pin memory once and fill it in every step, as pin_memory=True of a DataLoader does, instead of pinning "
            "new tensors: buffer.copy_(batch)."
        )
    if not totals.figures["uncached"]:
        return None
    return Evidence(
        "Run without PYTORCH_NO_CUDA_MEMORY_CACHING, so that the allocator keeps memory: "
        "unset PYTORCH_NO_CUDA_MEMORY_CACHING."
    )


RULE = Rule(
    code="RL-M01",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("calls", "calling_ns", "steps", "uncached"),
    least_share=0.0,
)
