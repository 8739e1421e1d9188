"""RL-N04: DDP broadcasts the buffers of the model before every forward pass."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import exchanges_where
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

CPU_SHARE = 0.03  # of the step, on a CPU: what DDP does there without any buffers is in it too


def match(analysis: RankAnalysis) -> RuleMatch | None:
    if not analysis.on_gpu:
        return _match_on_cpu(analysis)
    copies = _buffer_copies(analysis)
    if not len(copies):
        return None
    claim = analysis.busy_with(copies) | analysis.gaps_before(copies)
    figures = {
        "copies": float(len(copies)),
        "copying_ns": float((claim & analysis.in_steps).length_ns),
        "broadcast_ns": float(_exposed_broadcast_ns(analysis)),
    }
    return RuleMatch(claim=claim, figures=figures)


def _match_on_cpu(analysis: RankAnalysis) -> RuleMatch | None:
    """What DDP's forward does before the first operator of the model, where it broadcasts: it joins buffers too."""
    spans, activity = analysis.timeline.spans, analysis.activity
    forward = _forward_regions(analysis)
    begun_ns, until_ns = _broadcasting(analysis, forward)
    chosen = begun_ns < np.minimum(until_ns, spans.end_ns[forward])
    before_model = Intervals.union_of(spans.start_ns[forward[chosen]], until_ns[chosen])
    before_ns = (before_model & analysis.in_steps).length_ns
    if before_ns < CPU_SHARE * analysis.steps_ns or not before_ns:
        return None
    operators = np.concatenate([activity.copies.row, activity.compute.row])
    figures = {
        "copies": float(before_model.contains(spans.start_ns[np.unique(operators)]).sum()),
        "copying_ns": float(((before_model & analysis.in_steps) - activity.communicating).length_ns),
        "broadcast_ns": float((before_model & activity.communicating).length_ns),
    }
    return RuleMatch(claim=before_model, figures=figures)


def broadcasts(rank: Digest) -> Mask:
    """Those outside of backward passes."""
    forward: Mask = rank.exchanges.backward == FORWARD
    return forward & exchanges_where(rank, lambda series: series.collective == "broadcast")


def _forward_regions(analysis: RankAnalysis) -> I64:
    spans = analysis.timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    return rows[matching(analysis.timeline, rows, schema.is_ddp_forward)]


def _buffer_copies(analysis: RankAnalysis) -> I64:
    """Copies that DDP's forward makes itself, after a broadcast and before the first operator of the model."""
    work, spans = analysis.timeline.device_work, analysis.timeline.spans
    forward = _forward_regions(analysis)
    candidates = (spans.kind[work.row] == Kind.COPY) & np.isin(work.annotation, forward) & (work.operator != NONE)
    rows, operator = work.row[candidates].astype(np.int64), work.operator[candidates].astype(np.int64)
    parent = spans.parent[operator]
    own: Mask = matching(analysis.timeline, operator, schema.is_copying_operator)
    own &= ~matching(analysis.timeline, rows, schema.is_copy_with_host)
    own &= (parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)
    begun_ns, until_ns = _broadcasting(analysis, work.annotation[candidates].astype(np.int64))
    at_ns = spans.start_ns[operator]
    copies: I64 = rows[own & (begun_ns <= at_ns) & (at_ns < until_ns)]
    return copies


def _broadcasting(analysis: RankAnalysis, forward: I64) -> tuple[I64, I64]:
    """For each of these regions its first broadcast, and the first operator that autograd numbered after its last."""
    spans, operators = analysis.timeline.spans, analysis.timeline.operators
    rows = spans.rows_of(Kind.ANNOTATION, Kind.COMMUNICATION)  # of gloo, which runs on the host, they are the exchange
    broadcast_ns = np.sort(spans.start_ns[rows[matching(analysis.timeline, rows, schema.is_broadcast_region)]])
    model_ns = np.sort(spans.start_ns[operators.row[operators.sequence >= 0]])
    never = np.iinfo(np.int64).max
    first = np.searchsorted(broadcast_ns, spans.start_ns[forward])
    last = np.maximum(np.searchsorted(broadcast_ns, spans.end_ns[forward]) - 1, first)
    starts_ns = np.append(broadcast_ns, never)
    return starts_ns[first], np.append(model_ns, never)[np.searchsorted(model_ns, starts_ns[last])]


def _exposed_broadcast_ns(analysis: RankAnalysis) -> int:
    """Exposed time of broadcasts that were launched in DDP's forward."""
    work, spans, owned = analysis.timeline.device_work, analysis.timeline.spans, analysis.activity.communication
    launch = work.launch[np.searchsorted(work.row, owned.row)]
    forward = _forward_regions(analysis)
    inside = Intervals.union_of(spans.start_ns[forward], spans.end_ns[forward]).contains(spans.start_ns[launch])
    chosen = inside & (launch != NONE) & matching(analysis.timeline, owned.row, schema.is_broadcast)
    return (owned.where(chosen) & analysis.activity.communicating).length_ns


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Before every forward pass DDP broadcasts the buffers and copies them one by one, {copies:,} "
        "copies per step. The copies and the gaps while they are launched take {copying_ns} of each "
        "{step_ns} step.",
        {
            "copies": round(totals.per_step("copies")),
            "copying_ns": totals.per_step("copying_ns"),
            "step_ns": totals.step_ns,
        },
    )
    if totals.figures["broadcast_ns"]:
        yield Evidence(
            "The broadcasts themselves are exposed for another {broadcast_ns} of each step, including "
            "waiting for other ranks.",
            {"broadcast_ns": totals.per_step("broadcast_ns")},
        )


RULE = Rule(
    code="RL-N04",
    claims=ClaimOrder.DDP_COPIES,
    numerics=Numerics.SEMANTICS,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("copies", "copying_ns", "broadcast_ns"),
    ends=broadcasts,
)
