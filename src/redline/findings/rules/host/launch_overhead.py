"""RL-H02: the host launches small kernels more slowly than the device runs them, and no step repeats another."""

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Grade
from redline.findings.rule import Rule, RuleMatch
from redline.findings.rules.host.cuda_graph import explain, is_launch_bound, launch_gaps, repeats
from redline.findings.what_if import launching_gone
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics


def match(analysis: RankAnalysis) -> RuleMatch | None:
    return launch_gaps(analysis) if is_launch_bound(analysis) and not repeats(analysis) else None


RULE = Rule(
    code="RL-H02",
    claims=ClaimOrder.LAUNCHES,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    what_if=launching_gone,
    figures=("short", "kernels"),
    least_share=0.05,
    is_launch_bound=True,
)
