"""RL-C20: torch.cat makes a cache or another tensor longer again and again, and copies all of it each time."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import list_shapes_of
from redline.timeline.table import I64
from redline.trace import schema

LEAST_LENGTHS = 3  # that the cache had in the window
LONG = 8  # tokens in the cache for each new one: appending to a short one costs little
STEP_SHARE = 0.03  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    rows, length, new = _appended(analysis)
    lengths = np.unique(length)
    if len(lengths) < LEAST_LENGTHS or (np.diff(lengths) != new.min()).any():
        return None
    figures = {"copies": float(len(rows)), "copying_ns": float(analysis.timeline.spans.dur_ns[rows].sum())}
    return RuleMatch(claim=cost_of(analysis, rows), figures=figures, names={"length": f"{int(lengths[-1]):,}"})


def _appended(analysis: RankAnalysis) -> tuple[I64, I64, I64]:
    """Calls of torch.cat that put few positions behind many, how many there were before, and how many were added."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = rows[matching(timeline, rows, schema.is_cat)]
    texts, _, _ = argument_texts(timeline, rows)
    length, new = np.array([_lengths(timeline.text(text)) for text in texts.tolist()], np.int64).reshape(-1, 2).T
    return rows[length > 0], length[length > 0], new[length > 0]


def _lengths(text: str) -> tuple[int, int]:
    """Positions of two tensors that differ in one dimension; 0 where the second is not far shorter."""
    shapes = list_shapes_of(text)
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2:
        return 0, 0
    differing = [(cached, new) for cached, new in zip(*shapes, strict=True) if cached != new]
    if len(differing) != 1 or differing[0][0] < LONG * differing[0][1]:
        return 0, 0
    return differing[0]


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{copies:,} calls of torch.cat per step append to tensors of up to {length} positions, and copy all of them: "
        "{copying_ns} of each {step_ns} step.",
        {
            "copies": round(totals.per_step("copies")),
            "length": totals.names["length"],
            "copying_ns": totals.per_step("copying_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C20",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("copies", "copying_ns"),
    names=("length",),
    least_share=STEP_SHARE,
)
