"""RL-H25: a training loop does much between its steps: it saves, evaluates, logs, averages, makes batches."""

from collections.abc import Callable, Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.kinds_of_work import WorkKind, around_models, kinds_in
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.garbage_collection import collecting
from redline.findings.usual_steps import without_warm_up
from redline.ledger.rank.call_sites import call_sites
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.phases import PhaseKind
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

LEAST_SHARE = 0.05  # of the steps: a log line and a scheduler of learning rates take less
MANY_OPERATORS = 20  # per step that compute or read: fewer are calls on whole tensors, not a loop
MANY_READS = 5  # per step: a loss, an accuracy and a norm are ordinary
LARGEST_SHARE = 0.5  # of the time between steps, that one operator takes
KIND_SHARE = 0.3  # of the time between steps: a kind with less does not say what it goes to


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Only where something says what the time goes to: a few calls on whole tensors are as fast as they can be."""
    phases, ledger, evidence = analysis.phases, analysis.ledger, analysis.timeline.evidence
    if not phases.known or not len(analysis.passes.optimizer):
        return None
    between = phases.time(Phase.BETWEEN) - collecting(analysis)  # which RL-H09 names
    steps = without_warm_up(analysis, between.overlap_with(ledger.start_ns, ledger.end_ns))
    claim, on_host = between & steps, phases.host.when(Phase.BETWEEN) & steps
    if claim.length_ns < LEAST_SHARE * steps.length_ns:
        return None
    operators = _operators(analysis, on_host)
    kinds, sites = kinds_in(evidence, on_host), call_sites(evidence, on_host, around_models, late_ns=0)
    host_ns = (phases.time(Phase.BETWEEN, PhaseKind.HOST) & steps).length_ns
    count = int(np.count_nonzero(steps.contains(ledger.start_ns)))
    is_python = bool(sites) and host_ns >= LEAST_SHARE * steps.length_ns
    is_known = max(kinds.values(), default=0) >= KIND_SHARE * claim.length_ns
    reads = _count(analysis, operators, schema.reads_scalar)
    computing = len(operators) - _count(analysis, operators, _only_moves)
    is_loop = computing + reads >= MANY_OPERATORS * count
    if not (is_python or is_known or is_loop):
        return None
    return RuleMatch(
        claim=claim,
        figures={
            "operators": float(len(operators)),
            "computing": float(computing),
            "reads": float(reads),
            "checks": float(_count(analysis, operators, schema.checks_finite)),
            "sampled_ns": float(sum(site.time_ns for site in sites)),
            "site_ns": float(sites[0].time_ns if sites else 0),
            **{f"{kind}_ns": float(kinds.get(kind, 0)) for kind in WorkKind},
        },
        names={
            "site": sites[0].site if sites else "",
            "calls": sites[0].calls if sites else "",
            "operator": _largest(analysis, operators, claim.length_ns),
        },
    )


def _largest(analysis: RankAnalysis, operators: I64, between_ns: int) -> str:
    """The operator that takes most of the time; "" where it is less than half of it."""
    spans = analysis.timeline.spans
    sums_ns = np.bincount(spans.name[operators], spans.dur_ns[operators], minlength=1)
    name = int(sums_ns.argmax())
    return analysis.timeline.text(name) if sums_ns[name] >= LARGEST_SHARE * between_ns else ""


def _operators(analysis: RankAnalysis, time: Intervals) -> I64:
    """Rows of operators that Python called in this time: no other operator is around them."""
    spans = analysis.timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    parent = spans.parent[rows]
    is_outermost = (parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)
    chosen: I64 = rows[is_outermost & time.contains(spans.start_ns[rows])]
    return chosen


def _only_moves(operator_name: str) -> bool:
    return schema.is_bookkeeping_operator(operator_name) or schema.is_copying_operator(operator_name)


def _count(analysis: RankAnalysis, rows: I64, is_meant: Callable[[str], bool]) -> int:
    return int(np.count_nonzero(matching(analysis.timeline, rows, is_meant)))


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{between_ns} of each {step_ns} step passes after the optimizer and before the next forward pass; operators "
        "in it: {operators:,}.",
        {
            "between_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
            "operators": round(totals.per_step("operators")),
        },
    )
    yield _what(totals)
    if totals.names["site"]:
        share = min(totals.figures["site_ns"] / max(totals.figures["sampled_ns"], 1.0), 1.0)
        yield Evidence("{site_share} of it is spent in {site}.", {"site_share": share, "site": totals.names["site"]})


def _what(totals: MatchTotals) -> Evidence:
    """What the time goes to, and so what to do: by samples of the stack, else by the operators that ran."""
    figures = totals.figures
    times_ns = {kind: figures.get(f"{kind}_ns", 0.0) for kind in WorkKind}
    kind = max(times_ns, key=lambda kind: times_ns[kind])
    values = {"kind_share": min(times_ns[kind] / max(figures["sampled_ns"], 1.0), 1.0)}
    if values["kind_share"] >= KIND_SHARE and kind is WorkKind.CHECKPOINT:
        return Evidence(
            "{kind_share} of it saves checkpoints: save less often, or with torch.distributed.checkpoint.async_save.",
            values,
        )
    if values["kind_share"] >= KIND_SHARE and kind is WorkKind.EVALUATION:
        return Evidence(
            "{kind_share} of it is evaluation, a model called without a backward pass: evaluate less often.", values
        )
    if values["kind_share"] >= KIND_SHARE and kind is WorkKind.INPUT:
        return Evidence(
            "{kind_share} of it makes the next batch: let workers of a DataLoader load data meanwhile.", values
        )
    if values["kind_share"] >= KIND_SHARE and kind is WorkKind.AVERAGING:
        return Evidence(
            "{kind_share} of it averages weights: one call such as torch._foreach_lerp_ does it for all of them.",
            values,
        )
    return _what_by_operators(totals, values if kind is WorkKind.LOGGING else {"kind_share": 0.0})


def _what_by_operators(totals: MatchTotals, values: dict[str, float]) -> Evidence:
    reads, checks = totals.per_step("reads"), totals.per_step("checks")
    if checks >= MANY_READS:
        return Evidence(
            "{checks:,} checks for NaN or infinity run in each step: check the loss alone, or every 100 steps.",
            {"checks": round(checks)},
        )
    if reads >= MANY_READS:
        return Evidence(
            "Metrics or logs read {reads:,} numbers from tensors in each step, by .item(), .tolist() or an if: compute "
            "with tensors, and read every 100 steps.",
            {"reads": round(reads)},
        )
    if values["kind_share"] >= KIND_SHARE:
        return Evidence("{kind_share} of it is logging or metrics: do it every 100 steps.", values)
    if totals.per_step("computing") >= MANY_OPERATORS:
        return Evidence(
            "Python calls {computing:,} small operators there, one after another, as loops over parameters and metrics "
            "do: one call for all tensors, such as torch._foreach_lerp_ for an EMA, or every 100 steps.",
            {"computing": round(totals.per_step("computing"))},
        )
    return _where(totals.names["operator"], totals.names["calls"])


def _where(operator: str, calls: str) -> Evidence:
    if operator:
        return Evidence("Most of it is the operator {operator}.", {"operator": operator})
    if calls:
        return Evidence("Python works there, mostly in {calls}.", {"calls": calls})
    return Evidence("Python works there, outside operators.")


RULE = Rule(
    code="RL-H25",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=(
        "operators",
        "computing",
        "reads",
        "checks",
        "sampled_ns",
        "site_ns",
        *(f"{kind}_ns" for kind in WorkKind),
    ),
    names=("site", "calls", "operator"),
    least_share=LEAST_SHARE,
)
