"""RL-N03: DDP copies every gradient into a bucket and back."""

from collections.abc import Iterator

import numpy as np

from redline.analysis.rank.names import matching
from redline.analysis.rank.scene import Scene
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import Look, Rule, Seen
from redline.timeline.timeline import Kind
from redline.trace import schema


def look(scene: Scene) -> Look | None:
    """Copies back into gradients can all be saved; of those into buckets most, but only where there are both."""
    spans = scene.timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    back, into = np.zeros(len(spans), bool), np.zeros(len(spans), bool)
    back[operators[matching(scene.timeline, operators, schema.copies_from_bucket)]] = True
    into[operators[matching(scene.timeline, operators, schema.copies_into_bucket)]] = True
    if not scene.on_gpu or not back.any():
        return None
    copies = scene.launched_under(back | into)
    figures = {
        "back": float(len(scene.launched_under(back))),
        "into": float(len(scene.launched_under(into))),
        "copying_ns": float(scene.busy_with(copies).length_ns),
    }
    return Look(claim=scene.busy_with(copies) | scene.gaps_before(copies), figures=figures)


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "DDP copies gradients one by one: {into:,} times per step into a bucket and {back:,} times back. That and the "
        "gaps in which it is launched take {copying_ns} of each step of {step_ns}.",
        {
            "into": round(seen.per_step("into")),
            "back": round(seen.per_step("back")),
            "copying_ns": seen.alone_ns,
            "step_ns": seen.step_ns,
        },
    )


RULE = Rule(
    code="RL-N03",
    claims=ClaimOrder.DDP_COPIES,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    look=look,
    explain=explain,
    figures=("into", "back"),
)
