"""Remarks: what to know before acting on a finding. They claim no time."""

from collections.abc import Sequence

import numpy as np

from redline.findings.evidence import Bearing, Grade
from redline.findings.finding import Finding
from redline.findings.rule import ClaimOrder, JobMatch, RuleMatch, rule, says, total, value
from redline.findings.rules.host_launches import has_stacks
from redline.findings.usual_steps import is_usual
from redline.ledger.accounts import Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

HOST_SHARE = 0.1  # of the steps


@rule("RL-R06", ClaimOrder.NOTHING, Numerics.BITWISE, Grade.MEASURED)
@says(
    "Python stacks were recorded, {python_calls:,} calls per step: without them the host is faster.",
    when="stacks",
    bearing=Bearing.WEAKENS,
)
@says(
    "Allocations were recorded, {events:,} events per step: without them the host is faster.",
    when="events",
    unless="stacks",
    bearing=Bearing.WEAKENS,
)
@says(
    "Modules were recorded: without them the host is faster.",
    unless=lambda totals: bool(totals.figures["stacks"] or totals.figures["events"]),
    bearing=Bearing.WEAKENS,
)
@says(
    "The device waits for the host {waiting_share} of the step, and recording is part of the host's work.",
    waiting_share=value(lambda totals: totals.per_step("waiting_ns") / totals.step_ns, "waiting_ns"),
)
def recording_overhead(analysis: RankAnalysis) -> RuleMatch | None:
    """Recording slowed the host, so that the idle time in the trace is more than that of the job.

    Stacks cost most; allocator events and modules cost less, and are named where there are no stacks.
    """
    stacks, events = has_stacks(analysis), len(analysis.timeline.memory)
    modules = "modules" in analysis.timeline.metadata.recorded
    waiting_ns = (analysis.idle_in(Account.HOST, Account.SYNC) & analysis.in_steps).length_ns
    if not (stacks or events or modules) or waiting_ns <= HOST_SHARE * analysis.steps_ns:
        return None
    return RuleMatch(
        Intervals.empty(),
        waiting_ns=waiting_ns,
        stacks=stacks,
        python_calls=len(analysis.timeline.python_calls),
        events=events,
    )


FEWEST_STEPS = 3
SPREAD = 0.1  # standard deviation of steps of usual length, as a share of their mean


@rule("RL-R07", ClaimOrder.NOTHING, Numerics.BITWISE, Grade.MEASURED)
@says(
    "Steps in the trace: {steps:,}, too few to tell a change from noise.",
    when=lambda totals: totals.figures["steps"] < FEWEST_STEPS,
    bearing=Bearing.WEAKENS,
    steps=total("steps"),
)
@says(
    "The {steps:,} steps vary by {spread_share} (standard deviation of steps of typical length): a "
    "smaller change is within the noise.",
    unless=lambda totals: totals.figures["steps"] < FEWEST_STEPS,
    bearing=Bearing.WEAKENS,
    steps=total("steps"),
    spread_share=total("spread"),
)
def noisy_steps(diagnosis: Diagnosis) -> JobMatch | None:
    """Too few steps, or too different ones, to tell a change from noise."""
    lengths_ns = [rank.ledger.end_ns - rank.ledger.start_ns for rank in diagnosis.ranks]
    steps = min(map(len, lengths_ns))
    usual_ns = [of_rank[is_usual(of_rank)] for of_rank in lengths_ns]
    spread = float(
        np.mean([of_rank.std() / of_rank.mean() for of_rank in usual_ns if len(of_rank) and of_rank.mean()] or [0.0])
    )
    if not steps or (steps >= FEWEST_STEPS and spread <= SPREAD):
        return None
    return JobMatch(steps=steps, spread=spread)


CHANGING = (Numerics.LOWER_PRECISION, Numerics.SEMANTICS)


@rule("RL-R08", ClaimOrder.NOTHING, Numerics.BITWISE, Grade.MEASURED, applies_to_plans=True)
@says(
    "Fixes that change what is computed: {codes}. Compare the loss with that of the unchanged job before you keep one."
)
def changed_numerics(findings: Sequence[Finding]) -> JobMatch | None:
    """A fix that was found changes the numbers, so its result is to be compared."""
    codes = sorted(finding.code for finding in findings if finding.numerics in CHANGING)
    return JobMatch(codes=", ".join(codes)) if codes else None
