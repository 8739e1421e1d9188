"""RL-ID01: a serving engine launches every kernel of a step on its own, and the device waits for the launches."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.engine_steps import phases_of
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.cuda_graph import has_stacks, stacks_inflate
from redline.findings.what_if import launching_gone
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS
from redline.trace import schema

BUSY_SHARE = 0.7  # of a step: above this, launching is not what limits it


def match(analysis: RankAnalysis) -> RuleMatch | None:
    ledger, spans = analysis.ledger, analysis.timeline.spans
    told = phases_of(analysis) != ""
    if not analysis.on_gpu or not told.any():
        return None
    calls = spans.rows_of(*CALL_KINDS)
    graphs = calls[matching(analysis.timeline, calls, schema.is_graph_launch)]
    own_ns = ledger.end_ns - ledger.start_ns - analysis.unowned.overlap_with(ledger.start_ns, ledger.end_ns)
    busy_ns = analysis.activity.busy.overlap_with(ledger.start_ns, ledger.end_ns)
    bound = told & (busy_ns < BUSY_SHARE * own_ns) & (_begun_in(analysis, graphs) == 0)
    if not bound.any():
        return None
    figures = {
        "engine_steps": float(told.sum()),
        "bound_steps": float(bound.sum()),
        "own_ns": float(own_ns[bound].sum()),
        "busy_ns": float(busy_ns[bound].sum()),
        "kernels": float(_begun_in(analysis, analysis.activity.compute.row)[bound].sum()),
        "stacked": float(has_stacks(analysis)),
    }
    return RuleMatch(
        claim=analysis.launch_gaps & Intervals.union_of(ledger.start_ns[bound], ledger.end_ns[bound]), figures=figures
    )


def _begun_in(analysis: RankAnalysis, rows: I64) -> I64:
    """How many of these spans began in each step."""
    starts = np.sort(analysis.timeline.spans.start_ns[rows])
    edges = np.searchsorted(starts, np.stack([analysis.ledger.start_ns, analysis.ledger.end_ns]))
    number: I64 = edges[1] - edges[0]
    return number


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    figures = totals.figures
    yield Evidence(
        "{bound_steps:,} of {engine_steps:,} engine steps launch their kernels one by one, about "
        "{kernels:,} each; the device is busy {busy_share} of that time.",
        {
            "engine_steps": figures["engine_steps"],
            "bound_steps": figures["bound_steps"],
            "kernels": round(figures["kernels"] / max(figures["bound_steps"], 1)),
            "busy_share": figures["busy_ns"] / max(figures["own_ns"], 1),
        },
    )
    if figures["stacked"]:
        yield stacks_inflate()


RULE = Rule(
    code="RL-ID01",
    claims=ClaimOrder.ENGINE_LAUNCHES,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    what_if=launching_gone,
    figures=("engine_steps", "bound_steps", "kernels", "busy_ns", "own_ns", "stacked"),
    least_share=0.05,
    is_launch_bound=True,
)
