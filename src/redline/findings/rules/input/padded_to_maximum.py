"""RL-C15: batches are padded to one maximum, or hold rows of very different lengths: the model computes padding."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.padding import padding_of
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

STEP_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    padding = padding_of(analysis.timeline)
    if padding is None:
        return None
    claim = _without_padding(analysis, analysis.activity.compute, padding.used)
    claim |= _without_padding(analysis, analysis.activity.copies, padding.used)
    figures = {
        "batches": float(padding.batches),
        "length": float(padding.length),
        "padded": float(padding.padded),
        "by_rows": float(padding.by_rows),
    }
    return RuleMatch(claim=claim, figures=figures)


def _without_padding(analysis: RankAnalysis, pieces: Owned, used: float) -> Intervals:
    """The last part of each piece of device work: attention grows with the square of the length, nothing faster."""
    kept_ns = np.ceil(pieces.dur_ns * used**2).astype(np.int64)
    time = Intervals.union_of(pieces.start_ns + kept_ns, pieces.end_ns)
    return (time & analysis.in_steps) - analysis.passes.optimizer


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    batches = max(totals.figures["batches"], 1)
    values = {
        "length": round(totals.figures["length"] / batches),
        "padded": round(totals.figures["padded"] / batches),
        "padding_share": 1 - totals.figures["length"] / max(totals.figures["padded"], 1),
    }
    if totals.figures["by_rows"]:
        yield Evidence(
            "Rows of {length:,} positions on average are padded to {padded:,}, the longest of their batch: "
            "{padding_share} of what the model computes is padding.",
            values,
        )
    else:
        yield Evidence(
            "Batches whose longest row has {length:,} positions on average are padded to {padded:,}: {padding_share} "
            "of what the model computes is padding.",
            values,
        )


def fix(totals: MatchTotals) -> Evidence | None:
    if not totals.figures["by_rows"]:
        return None
    return Evidence("Put rows of similar length into one batch: sort by length, cut into batches, shuffle the batches.")


RULE = Rule(
    code="RL-C15",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("batches", "length", "padded", "by_rows"),
    least_share=STEP_SHARE,
)
