"""The host launches kernels, or calls operators, more slowly than they run."""

from typing import Any

import numpy as np

from redline.findings.evidence import Bearing, Grade
from redline.findings.rule import ClaimOrder, RuleMatch, alone, ratio, rule, says
from redline.findings.savings import work_that_stays
from redline.findings.what_if import launching_gone
from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.digest import SHORT_KERNEL_NS
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE
from redline.trace.steps import ENGINE_ANCHOR

IDLE_SHARE = 0.15  # of the steps: below this, launching is not what limits
LAUNCH_SHARE = 0.6  # of the idle time
SMALL_KERNEL_NS = 2 * 10_000  # twice what a launch costs at most
LAUNCHING_NS = 1_000_000  # fifty launches in a row: in a longer gap, the host did something else
FEW_KERNELS = 20  # to a step: so few are launched fast enough whatever is done


LAUNCH_BOUND: dict[str, Any] = {"what_if": launching_gone, "least_share": 0.05, "is_launch_bound": True}
waits_for_launches = says(
    "The device waits {waiting_ns} of each {step_ns} step for the next launch; {short_share} of its "
    "{kernels:,} kernels per step are shorter than 10 us.",
    waiting_ns=alone,
    short_share=ratio("short", "kernels"),
)
stacks_inflate = says(
    "Python stacks were recorded, which slows the host and inflates this bound: measure again without them.",
    when=lambda totals: bool(totals.figures.get("stacked")),  # digests of older versions do not say
    bearing=Bearing.WEAKENS,
)


def is_launch_bound(analysis: RankAnalysis) -> bool:
    """Idle for a notable part of the steps, mostly because the next kernel had not been launched, and it is small.

    Serving engines have a rule of their own.
    """
    dur_ns = analysis.timeline.spans.dur_ns[analysis.activity.compute.row]
    engine = analysis.timeline.step_anchor == ENGINE_ANCHOR
    few = len(dur_ns) < FEW_KERNELS * max(len(analysis.ledger.start_ns), 1)
    if engine or few or not analysis.on_gpu or np.median(dur_ns) >= _launch_time_ns(analysis, len(dur_ns)):
        return False
    idle_ns = ((analysis.idle_in(*IDLE) & analysis.in_steps) - analysis.unowned).length_ns
    host_ns = analysis.launch_gaps.length_ns + analysis.pauses.length_ns
    return idle_ns > IDLE_SHARE * analysis.steps_ns and host_ns >= LAUNCH_SHARE * idle_ns


@rule("RL-H01", ClaimOrder.LAUNCHES, Numerics.REASSOCIATION, Grade.MEASURED, **LAUNCH_BOUND)
@waits_for_launches
@stacks_inflate
def cuda_graph(analysis: RankAnalysis) -> RuleMatch | None:
    """The host launches small kernels more slowly than the device runs them, the same ones every step."""
    return launch_gaps(analysis) if is_launch_bound(analysis) and repeats(analysis) else None


def _launch_time_ns(analysis: RankAnalysis, kernels: int) -> float:
    """The time that the host takes longer than the device for each kernel, in gaps that are launching; at least what a
    small kernel takes. Kernels that are shorter on the whole wait for their launch."""
    gaps_ns = analysis.launch_gaps.end - analysis.launch_gaps.start
    return max(float(gaps_ns[gaps_ns < LAUNCHING_NS].sum()) / max(kernels, 1), SMALL_KERNEL_NS)


def repeats(analysis: RankAnalysis) -> bool:
    """All steps but the first launch as many kernels: what changes from step to step cannot be replayed."""
    work = analysis.timeline.device_work
    launch = work.launch[np.searchsorted(work.row, analysis.activity.compute.row)]
    starts = np.sort(analysis.timeline.spans.start_ns[launch[launch != NONE]])
    edges = np.searchsorted(starts, np.stack(analysis.host_steps))
    counts = (edges[1] - edges[0])[1:] if len(edges[0]) > 2 else edges[1] - edges[0]
    return len(counts) > 1 and bool(counts.max() - counts.min() <= 0.01 * counts.max() > 0)


def launch_gaps(analysis: RankAnalysis) -> RuleMatch:
    dur_ns = analysis.timeline.spans.dur_ns[analysis.activity.compute.row]
    return RuleMatch(
        analysis.launch_gaps, kernels=len(dur_ns), short=(dur_ns < SHORT_KERNEL_NS).sum(), stacked=has_stacks(analysis)
    )


def has_stacks(analysis: RankAnalysis) -> bool:
    return "stack" in analysis.timeline.metadata.recorded or len(analysis.timeline.python_calls) > 0


@rule("RL-H02", ClaimOrder.LAUNCHES, Numerics.REASSOCIATION, Grade.MEASURED, **LAUNCH_BOUND)
@waits_for_launches
@stacks_inflate
def launch_overhead(analysis: RankAnalysis) -> RuleMatch | None:
    """The host launches small kernels more slowly than the device runs them, and no step repeats another."""
    return launch_gaps(analysis) if is_launch_bound(analysis) and not repeats(analysis) else None


MANY_OPERATORS = 1000  # to a step: calling fewer takes a few milliseconds
TINY_SHARE = 0.5  # of the steps without pauses, between and in tiny operators: more than computing takes
LONGEST_CALL_NS = 50_000  # of an operator with its gradient; where more lies between operators, Python does other work
SMALL_NS = 200_000  # a fused or batched call may replace these too


# at least 0.25 of the step: operators that compute for less than calling takes are half of TINY_SHARE at most
@rule("RL-C17", ClaimOrder.LAUNCHES, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.25)
@says(
    "{tiny:,} of {operators:,} operators per step compute for less than calling one takes ({call_ns}): "
    "{computing_ns} together, and calling them takes another {calling_ns} of each {step_ns} step.",
    order="call_ns tiny operators computing_ns calling_ns step_ns",
    call_ns=ratio("calling_ns", "operators"),
)
def tiny_operators(analysis: RankAnalysis) -> RuleMatch | None:
    """A CPU spends the step on calling thousands of tiny operators, not on computing.

    On a GPU the same cause is RL-H01 or RL-H02; optimizers and loops between steps have rules of their own.
    """
    if analysis.on_gpu or not len(analysis.ledger.start_ns):
        return None
    elsewhere = analysis.passes.optimizer  # and what a training loop does between its steps
    if len(analysis.passes.backward):
        elsewhere |= analysis.phases.time(Phase.BETWEEN)
    rows, own_ns = _own_time(analysis, elsewhere)
    between = analysis.launch_gaps - elsewhere
    call_ns = between.length_ns / max(len(rows), 1)
    tiny = own_ns < min(call_ns, LONGEST_CALL_NS)
    is_many = tiny.sum() >= MANY_OPERATORS * len(analysis.ledger.start_ns)
    running_ns = analysis.steps_ns - analysis.pauses.length_ns
    if not is_many or between.length_ns + own_ns[tiny].sum() < TINY_SHARE * running_ns:
        return None
    claim = analysis.in_steps - elsewhere - analysis.idle_in(Account.INPUT) - analysis.pauses
    claim -= work_that_stays(analysis)
    return RuleMatch(
        claim - analysis.busy_with(rows[own_ns >= SMALL_NS]),
        operators=len(rows),
        tiny=tiny.sum(),
        calling_ns=between.length_ns,
        computing_ns=own_ns[tiny].sum(),
    )


def _own_time(analysis: RankAnalysis, elsewhere: Intervals) -> tuple[I64, I64]:
    """Operators that compute or copy in steps, but not elsewhere, and how long each does so itself."""
    owned = (analysis.activity.compute, analysis.activity.copies)
    row, dur_ns = (
        np.concatenate([getattr(pieces, name) for pieces in owned]).astype(np.int64) for name in ("row", "dur_ns")
    )
    start_ns = analysis.timeline.spans.start_ns[row]
    chosen = analysis.in_steps.contains(start_ns) & ~elsewhere.contains(start_ns)
    rows, which = np.unique(row[chosen], return_inverse=True)
    own_ns = np.zeros(len(rows), np.int64)
    np.add.at(own_ns, which, dur_ns[chosen])
    return rows, own_ns
