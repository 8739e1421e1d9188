"""Smallest fixes filled with what was seen: this optimizer, this loader, these cores."""

from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.evidence import Evidence
from redline.findings.rule import MatchTotals
from redline.timeline.timeline import Kind
from redline.trace import schema

# Of torch.optim, version 2.13.
HAVE_FUSED = frozenset({"Adagrad", "Adam", "AdamW", "SGD"})
HAVE_FOREACH = frozenset({"ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"})


def optimizer_fix(totals: MatchTotals) -> Evidence:
    """For an optimizer that works on one parameter after the other."""
    kind = totals.names["optimizer"].removesuffix(".step")
    if kind in HAVE_FUSED:
        return Evidence(
            "Add fused=True where {optimizer} is created, and keep its other arguments: {optimizer}(..., fused=True).",
            {"optimizer": kind},
        )
    if kind in HAVE_FOREACH:
        return Evidence(
            "Add foreach=True where {optimizer} is created, and keep its other arguments: "
            "{optimizer}(..., foreach=True).",
            {"optimizer": kind},
        )
    return Evidence(
        "Write the update of {optimizer} with torch._foreach_* operators, or compile it: "
        "step = torch.compile(optimizer.step).",
        {"optimizer": kind},
    )


def is_training(analysis: RankAnalysis) -> bool:
    """Whether a backward pass or an optimizer was recorded."""
    has_backward = bool((analysis.timeline.operators.forward_thread > 0).any())
    return has_backward or len(analysis.rows_named(schema.is_optimizer_step, Kind.ANNOTATION)) > 0
