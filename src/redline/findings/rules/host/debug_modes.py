"""RL-H24: a mode for debugging was left on: anomaly detection, or filling memory for deterministic results."""

from collections.abc import Iterator

import numpy as np

from redline.findings.autograd_nodes import recording_operators, time_before_work
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

CHECKED_SHARE = 0.5  # of the nodes of the backward pass: anomaly detection checks what each of them returns
MANY_FILLS = 10  # to a step: allocations that are filled at once
TRACEBACK_NS = 2_000_000  # an operator that records a node formats a Python stack: tens to hundreds of microseconds


def match(analysis: RankAnalysis) -> RuleMatch | None:
    checks, fills = _checks(analysis), _fills(analysis)
    if not len(checks) and not len(fills):
        return None
    spans = analysis.timeline.spans
    rows = np.concatenate([checks, fills])
    claim = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if len(checks):
        claim |= time_before_work(analysis, recording_operators(analysis), TRACEBACK_NS) | analysis.python_in_passes
    figures = {"checks": float(len(checks)), "fills": float(len(fills))}
    lost = analysis.idle_after(claim & analysis.in_steps)
    return RuleMatch(claim=lost | analysis.busy_with(_launched_by(analysis, rows)), figures=figures)


def _checks(analysis: RankAnalysis) -> I64:
    """Operators with which anomaly detection looks for NaN, where most nodes of the backward pass are checked."""
    spans = analysis.timeline.spans
    nodes = analysis.rows_named(schema.is_backward_engine, Kind.OPERATOR)
    checks = analysis.rows_named(schema.is_nan_check, Kind.OPERATOR)
    if not len(nodes) or not len(checks):
        return np.empty(0, np.int64)
    is_node = np.zeros(len(spans), bool)
    is_node[nodes] = True
    checks = checks[_flagged(is_node, spans.parent[checks].astype(np.int64))]
    checked = len(np.unique(spans.parent[checks]))
    return checks if checked >= CHECKED_SHARE * len(nodes) else np.empty(0, np.int64)


def _fills(analysis: RankAnalysis) -> I64:
    """Fills of memory by the operator that allocates it, which happens in deterministic mode only."""
    spans = analysis.timeline.spans
    rows = analysis.rows_named(schema.is_fill, Kind.OPERATOR)
    parent = spans.parent[rows].astype(np.int64)
    inside = (parent != NONE) & matching(analysis.timeline, parent, schema.is_empty_allocation)
    rows = rows[inside & analysis.in_steps.contains(spans.start_ns[rows])]
    return rows if len(rows) >= MANY_FILLS * max(len(analysis.ledger.start_ns), 1) else np.empty(0, np.int64)


def _launched_by(analysis: RankAnalysis, rows: I64) -> I64:
    """Kernels on a GPU; on a CPU the operators themselves are claimed."""
    if not analysis.on_gpu:
        return np.empty(0, np.int64)
    chosen = np.zeros(len(analysis.timeline.spans), bool)
    chosen[rows] = True
    return analysis.launched_under(chosen)


def _flagged(flags: np.typing.NDArray[np.bool_], rows: I64) -> np.typing.NDArray[np.bool_]:
    found: np.typing.NDArray[np.bool_] = np.append(flags, False)[rows]  # NONE is the last one
    return found


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    if totals.figures["checks"]:
        yield Evidence(
            "Anomaly detection is on: {checks:,} operators per step look for NaN in the backward pass, and every "
            "forward operator stores a Python traceback. Together {lost_ns} of each {step_ns} step.",
            {"checks": round(totals.per_step("checks")), "lost_ns": totals.alone_ns, "step_ns": totals.step_ns},
        )
    if totals.figures["fills"]:
        yield Evidence(
            "Deterministic mode is on: {fills:,} times per step, newly allocated memory is filled before it is used.",
            {"fills": round(totals.per_step("fills"))},
        )


def fix(totals: MatchTotals) -> Evidence:
    if totals.figures["checks"]:
        return Evidence("Switch it off after debugging: torch.autograd.set_detect_anomaly(False)")
    return Evidence(
        "Keep deterministic kernels and leave out the filling: "
        "torch.utils.deterministic.fill_uninitialized_memory = False"
    )


RULE = Rule(
    code="RL-H24",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("checks", "fills"),
)
