"""RL-C19: one matrix product, convolution or attention has much of the kernel time and is far from its roof."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import PRODUCTS, in_families, of_calls, savings
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of

KERNEL_SHARE = 0.15  # of the kernel time, in calls of one operator with the same shapes
ROOF_SHARE = 0.4  # of its roof: libraries reach 60 % and more on sizes that suit them
LONG_NS = 20_000  # of a call: shorter ones end before the device is full
_LONGEST_NAME = 100  # letters of a kernel's name


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Of the calls that are far from their roof, those of the operator and shapes that lose most."""
    calls = analysis.kernels.calls
    if not analysis.on_gpu or analysis.machine is None or not len(calls):
        return None
    shapes, _, _ = argument_texts(analysis.timeline, calls.row)
    _, group = distinct(analysis.timeline.spans.name[calls.row], shapes)
    chosen = in_families(calls, PRODUCTS) & calls.has_roof & (shapes >= 0)
    roof_ns = np.where(chosen, np.maximum(calls.math_ns, calls.memory_ns), 0.0)
    time_ns, needed_ns = (np.bincount(group, np.where(chosen, ns, 0)) for ns in (calls.time_ns, roof_ns))
    kernel_ns = float(analysis.activity.compute.dur_ns.sum())
    mean_ns = time_ns / np.maximum(np.bincount(group, chosen), 1)
    is_far = (needed_ns < ROOF_SHARE * time_ns) & (time_ns >= KERNEL_SHARE * kernel_ns) & (mean_ns >= LONG_NS)
    if not is_far.any():
        return None
    worst = int(np.where(is_far, time_ns - needed_ns, -1.0).argmax())
    members = np.flatnonzero(chosen & (group == worst))
    lost_ns = np.where(chosen & (group == worst), calls.time_ns - roof_ns, 0.0)
    figures = {
        "calls": float(len(members)),
        "time_ns": float(time_ns[worst]),
        "needed_ns": float(needed_ns[worst]),
        "kernel_ns": kernel_ns,
    }
    names = {
        "operator": analysis.name(int(calls.row[members[0]])),
        "shapes": _shown(analysis.timeline.text(int(shapes[members[0]]))),
        "kernel": analysis.timeline.text(int(calls.kernel_name[members[0]]))[:_LONGEST_NAME],
    }
    return RuleMatch(claim=savings(analysis, of_calls(analysis, lost_ns)), figures=figures, names=names)


def _shown(text: str) -> str:
    """Shapes of its tensors: 15360x4096, 4096x24576."""
    return ", ".join("x".join(map(str, shape)) for shape in shapes_of(text) if shape)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{operator} on {shapes} takes {kernel_share} of the kernel time, {calls:,} calls per step, and runs at "
        "{roof_share} of its roof.",
        {
            "operator": totals.names["operator"],
            "shapes": totals.names["shapes"],
            "kernel_share": totals.figures["time_ns"] / max(totals.figures["kernel_ns"], 1),
            "calls": round(totals.per_step("calls")),
            "roof_share": totals.figures["needed_ns"] / max(totals.figures["time_ns"], 1),
        },
    )
    yield Evidence("Its kernel is {kernel}.", {"kernel": totals.names["kernel"]})


RULE = Rule(
    code="RL-C19",
    claims=ClaimOrder.MATRIX_PRODUCTS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("calls", "time_ns", "needed_ns", "kernel_ns"),
    names=("operator", "shapes", "kernel"),
    least_share=0.05,
)
