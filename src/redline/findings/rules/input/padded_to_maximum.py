"""RL-C15: batches are padded to one maximum, or hold rows of very different lengths: the model computes padding."""

from collections.abc import Iterator

import numpy as np

from redline.analysis.rank.disjoint_work import Owned
from redline.analysis.rank.name_matching import matching
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, operators_in_steps
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind
from redline.trace import schema
from redline.work.sizes import list_shapes_of, padded_length

LEAST_LENGTHS = 2  # that batches had before padding: one length alone may be what the model needs
SHIFT = 1  # labels are padded by one position where a loss moves them by one
LEAST_PADDING = 0.1  # of the padded length
LEAST_ROW_PADDING = 0.5  # of a batch that is padded to its own longest row: rows of any data differ
STEP_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Only padding that is an operator is seen: not that of tokenizers, nor of workers."""
    before, after = _padded(analysis)
    to_maximum = len(np.unique(before)) >= LEAST_LENGTHS and len(np.unique(after)) == 1
    if not to_maximum:
        before, after = _padded_rows(analysis)
    used = float(before.sum() / max(int(after.sum()), 1))
    if not len(after) or 1 - used < (LEAST_PADDING if to_maximum else LEAST_ROW_PADDING):
        return None
    claim = _without_padding(analysis, analysis.activity.compute, used)
    claim |= _without_padding(analysis, analysis.activity.copies, used)
    figures = {
        "batches": float(len(before)),
        "length": float(before.sum()),
        "padded": float(after.sum()),
        "by_rows": float(not to_maximum),
    }
    return RuleMatch(claim=claim, figures=figures)


def _padded_rows(analysis: RankAnalysis) -> tuple[I64, I64]:
    """Of each batch that pad_sequence made the average length of its rows, and the longest; in order of time."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = rows[matching(timeline, rows, schema.pads_rows)]
    texts, _, _ = argument_texts(timeline, rows)
    lengths = [[shape[0] for shape in list_shapes_of(timeline.text(text)) if shape] for text in texts.tolist()]
    batches = [(round(sum(batch) / len(batch)), max(batch)) for batch in lengths if batch]
    before, after = np.array(batches, np.int64).reshape(-1, 2).T
    return before, after


def _padded(analysis: RankAnalysis) -> tuple[I64, I64]:
    """Lengths of batches before and after padding, in order of time."""
    timeline, operators = analysis.timeline, analysis.timeline.operators
    rows = timeline.spans.rows_of(Kind.OPERATOR)
    rows = rows[matching(timeline, rows, schema.is_padding)]
    chosen = operators.take(np.isin(operators.row, rows))
    texts = zip(chosen.shapes.tolist(), chosen.values.tolist(), strict=True)
    lengths = [padded_length(timeline.text(shapes), timeline.text(values)) for shapes, values in texts]
    before, after = np.array(lengths, np.int64).reshape(-1, 2).T
    is_padding = after - before > SHIFT
    return before[is_padding], after[is_padding]


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
