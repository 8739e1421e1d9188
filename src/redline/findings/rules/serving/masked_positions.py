"""RL-C29: most positions of a call are masked: a static cache or padding is far longer than the text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from redline.findings.called_models import ModelCall, is_usual, shapes_of_call, steps_of_calls
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

MOST_USED = 0.5  # of the positions
STEP_SHARE = 0.05  # of the step
_LAST_SIZE = re.compile(r"(\d+)\]$")


@dataclass(frozen=True, kw_only=True)
class MaskedCall:
    """A call most of whose positions are masked."""

    call: ModelCall
    length: int
    used: int  # by the longest text
    is_prompt: bool  # tokens are padded, not the cache alone


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """On a CPU: masks of a GPU are not read."""
    steps = [_masked(analysis, step) for step in steps_of_calls(analysis)]
    calls = [masked for step in steps for masked in step]
    if analysis.on_gpu or not is_usual(sum(map(bool, steps)), len(steps)):
        return None
    longest = max(calls, key=lambda masked: masked.length - masked.used)
    return RuleMatch(
        claim=_without_masked(analysis, calls),
        figures={"prompts": float(sum(masked.is_prompt for masked in calls))},
        names={"length": f"{longest.length:,}", "used": f"{longest.used:,}"},
    )


def _masked(analysis: RankAnalysis, step: Sequence[ModelCall]) -> list[MaskedCall]:
    recorded = analysis.timeline.evidence.calls
    found = []
    for call in step:
        shapes = shapes_of_call(analysis, call)
        for number, shape in zip(call.inputs, shapes, strict=True):
            used, last = recorded.used[number] if recorded.used else -1, _LAST_SIZE.search(shape)
            length = int(last[1]) if last else 0
            if 0 < used <= MOST_USED * length:
                is_prompt = sum(other.endswith(f",{length}]") for other in shapes) > 1
                found.append(MaskedCall(call=call, length=length, used=used, is_prompt=is_prompt))
                break
    return found


def _without_masked(analysis: RankAnalysis, calls: Sequence[MaskedCall]) -> Intervals:
    """The last part of operators that compute masked positions: attention between them grows with their square."""
    spans = analysis.timeline.spans
    rows = outermost(analysis, operators_in_steps(analysis))
    texts, _, _ = argument_texts(analysis.timeline, rows)
    shapes = [shapes_of(analysis.timeline.text(text)) for text in texts.tolist()]
    time = Intervals.empty()
    for masked in calls:
        first, last = np.searchsorted(spans.start_ns[rows], [masked.call.start_ns, masked.call.end_ns]).tolist()
        is_wide = [masked.is_prompt or _is_of(masked.length, shapes[place]) for place in range(first, last)]
        share = (masked.used / masked.length) ** (2 if masked.is_prompt else 1)
        time |= _last_parts(analysis, rows[first:last][np.array(is_wide, bool)], 1 - share)
    return time & analysis.in_steps


def _is_of(length: int, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether an operator reads all positions of a cache, or a mask of them."""
    return any(len(shape) == 4 and length in shape[2:] for shape in shapes)


def _last_parts(analysis: RankAnalysis, rows: I64, share: float) -> Intervals:
    spans = analysis.timeline.spans
    end_ns = spans.end_ns[rows]
    return Intervals.union_of(end_ns - np.floor(spans.dur_ns[rows] * share).astype(np.int64), end_ns)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    if totals.figures["prompts"]:
        yield Evidence(
            "Prompts are padded to {length} positions, of which the longest text has {used}: the model computes "
            "padding.",
            {"length": totals.names["length"], "used": totals.names["used"]},
        )
    else:
        yield Evidence(
            "The cache has {length} positions, of which the longest text has {used}: attention reads all of them for "
            "each token.",
            {"length": totals.names["length"], "used": totals.names["used"]},
        )


RULE = Rule(
    code="RL-C29",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("prompts",),
    names=("length", "used"),
    least_share=STEP_SHARE,
)
