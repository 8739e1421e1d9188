"""RL-S01, a remark: how the steps of a serving engine divide into prefill and decode."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.engine_steps import PHASES, phases_of, steps_in
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import NONE
from redline.trace import schema

BUSY_SHARE = 0.7  # of the steps of a phase: the device, and not launching, limits it
UNKNOWN_SHARE = 0.5  # of the compute of a phase
_FIGURES = (  # of each phase
    "steps",
    "time_ns",
    "busy_ns",
    "computing_ns",
    "unknown_ns",
    "requests",
    "tokens",
    "rated_steps",
    "read_bytes",
    "roof_ns",
    "rated_ns",
)


def match(analysis: RankAnalysis) -> RuleMatch | None:
    phases = phases_of(analysis)
    figures: dict[str, float] = {}
    for phase in PHASES:
        chosen = phases == phase
        if not chosen.any():
            continue
        time = steps_in(analysis, phase) - analysis.unowned
        labels = analysis.timeline.steps.label[chosen].tolist()
        loads = np.array([schema.load_of(analysis.timeline.text(label)) for label in labels])
        by_steps = analysis.kernels.by_steps
        unknown = analysis.activity.compute.where((analysis.kernels.call_of == NONE) & ~by_steps.rated)
        rated = [step for step in by_steps.steps if schema.phase_of(analysis.timeline.text(step.label)) == phase]
        told = {
            "steps": float(chosen.sum()),
            "time_ns": time.length_ns,
            "busy_ns": (analysis.activity.busy & time).length_ns,
            "computing_ns": (analysis.activity.computing & time).length_ns,
            "unknown_ns": (unknown & time).length_ns,
            "requests": loads[:, 0].sum(),
            "tokens": loads[:, 1].sum(),
            "rated_steps": len(rated),
            "read_bytes": sum(step.work.bytes for step in rated),
            "roof_ns": sum(step.roof.roof_ns for step in rated),
            "rated_ns": sum(step.time_ns for step in rated),
        }
        figures |= {f"{phase}_{name}": float(value) for name, value in told.items()}
    return RuleMatch(claim=Intervals.empty(), figures=figures) if figures else None


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    for phase in PHASES:
        if totals.figures.get(f"{phase}_steps"):
            yield from _of_phase(phase, totals)


def _of_phase(phase: str, totals: MatchTotals) -> Iterator[Evidence]:
    figures = {name: totals.figures.get(f"{phase}_{name}", 0.0) for name in _FIGURES}
    steps, busy_share = figures["steps"], figures["busy_ns"] / max(figures["time_ns"], 1)
    all_steps, all_ns = (
        sum(totals.figures.get(f"{each_phase}_{of}", 0) for each_phase in PHASES) for of in ("steps", "time_ns")
    )
    yield Evidence(
        "Steps with {phase}: {steps:,} of {all_steps:,}, {time_share} of the time; the device is busy "
        "{busy_share} of that.",
        {
            "phase": phase,
            "steps": steps,
            "all_steps": all_steps,
            "time_share": figures["time_ns"] / max(all_ns, 1),
            "busy_share": busy_share,
        },
    )
    if figures["requests"]:
        yield Evidence(
            "On average {requests:,} requests and {tokens:,} tokens per step.",
            {name: round(figures[name] / max(steps, 1)) for name in ("requests", "tokens")},
        )
    if figures["rated_steps"]:
        yield Evidence(
            "By their labels and the model, such a step must read {read_bytes} of weights and of a cache in 16 bits, "
            "and needs {roof_ns} at least; kernels without a recorded operator take {rated_ns}.",
            {name: figures[name] / figures["rated_steps"] for name in ("read_bytes", "roof_ns", "rated_ns")},
        )
    if busy_share >= BUSY_SHARE and figures["unknown_ns"] > UNKNOWN_SHARE * figures["computing_ns"]:
        yield Evidence("FLOPs and bytes are unknown for most of their kernels, so their efficiency is unknown too.")


RULE = Rule(
    code="RL-S01",
    claims=ClaimOrder.NOTHING,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
)
