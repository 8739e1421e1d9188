"""RL-H11: torch.compile compiles again while the job is running."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Compilation in the first recorded step alone may be the warm-up; where later ones compile too, it counts."""
    ledger = analysis.ledger
    compiling = analysis.compiling & analysis.in_steps
    later = compiling & Intervals.union_of(ledger.start_ns[1:], ledger.end_ns[1:])
    if not len(later):
        return None
    figures = {"compilations": float(len(later)), "compiling_ns": float(compiling.length_ns)}
    compiled = analysis.timeline.evidence.facts.compile
    names = {"reason": compiled.recompiles[0][0] if compiled is not None and compiled.recompiles else ""}
    return RuleMatch(claim=analysis.idle_after(compiling), figures=figures, names=names)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "torch.compile recompiles {compilations:,} x after the first of {steps:,} recorded steps, which "
        "takes {compiling_ns} per step; the device loses {lost_ns}.",
        {
            "compilations": round(totals.figures["compilations"]),
            "steps": totals.steps,
            "compiling_ns": totals.per_step("compiling_ns"),
            "lost_ns": totals.alone_ns,
        },
    )
    if totals.names["reason"]:
        yield Evidence(
            "The guard that fails most often, with its function: {reason}", {"reason": totals.names["reason"]}
        )


def fix(totals: MatchTotals) -> Evidence | None:
    """By the commonest guard: a size of a tensor is marked as dynamic, a number is passed as a tensor."""
    function, _, guard = totals.names["reason"].partition(": ")
    if "size mismatch at index" in guard:
        return Evidence(
            "Mark the size that varies in {function} before the call: torch._dynamo.mark_dynamic(tensor, dimension). "
            "This one: {guard}",
            {"function": function, "guard": guard},
        )
    if " == " in guard:
        return Evidence(
            "Keep the number that {function} is compiled for out of it, or pass it as a tensor. This one: {guard}",
            {"function": function, "guard": guard},
        )
    return None


RULE = Rule(
    code="RL-H11",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("compilations", "compiling_ns"),
    names=("reason",),
)
