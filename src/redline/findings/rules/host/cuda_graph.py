"""RL-H01: the host launches small kernels more slowly than the device runs them, the same ones every step."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.what_if import launching_gone
from redline.ledger.accounts import IDLE
from redline.ledger.rank.digest import SHORT_KERNEL_NS
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.timeline import NONE
from redline.trace.steps import ENGINE_ANCHOR

IDLE_SHARE = 0.15  # of the steps: below this, launching is not what limits
LAUNCH_SHARE = 0.6  # of the idle time
SMALL_KERNEL_NS = 2 * 10_000  # twice what a launch costs at most
LAUNCHING_NS = 1_000_000  # fifty launches in a row: in a longer gap, the host did something else
FEW_KERNELS = 20  # to a step: so few are launched fast enough whatever is done


def match(analysis: RankAnalysis) -> RuleMatch | None:
    return launch_gaps(analysis) if is_launch_bound(analysis) and repeats(analysis) else None


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


def _launch_time_ns(analysis: RankAnalysis, kernels: int) -> float:
    """What the host took longer than the device for each kernel, in gaps that are launching; at least what a small
    kernel takes. Kernels that are shorter on the whole wait for their launch."""
    gaps_ns = analysis.launch_gaps.end - analysis.launch_gaps.start
    return max(float(gaps_ns[gaps_ns < LAUNCHING_NS].sum()) / max(kernels, 1), SMALL_KERNEL_NS)


def repeats(analysis: RankAnalysis) -> bool:
    """Whether all steps but the first launch as many kernels: what changes from step to step cannot be replayed."""
    work = analysis.timeline.device_work
    launch = work.launch[np.searchsorted(work.row, analysis.activity.compute.row)]
    starts = np.sort(analysis.timeline.spans.start_ns[launch[launch != NONE]])
    edges = np.searchsorted(starts, np.stack(analysis.host_steps))
    counts = (edges[1] - edges[0])[1:] if len(edges[0]) > 2 else edges[1] - edges[0]
    return len(counts) > 1 and bool(counts.max() - counts.min() <= 0.01 * counts.max() > 0)


def launch_gaps(analysis: RankAnalysis) -> RuleMatch:
    dur_ns = analysis.timeline.spans.dur_ns[analysis.activity.compute.row]
    figures = {
        "kernels": float(len(dur_ns)),
        "short": float((dur_ns < SHORT_KERNEL_NS).sum()),
        "stacked": float(has_stacks(analysis)),
    }
    return RuleMatch(claim=analysis.launch_gaps, figures=figures)


def has_stacks(analysis: RankAnalysis) -> bool:
    return "stack" in analysis.timeline.metadata.recorded or len(analysis.timeline.python_calls) > 0


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The device waits {waiting_ns} of each {step_ns} step for the next launch; {short_share} of its "
        "{kernels:,} kernels per step are shorter than 10 us.",
        {
            "waiting_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
            "short_share": totals.figures["short"] / max(totals.figures["kernels"], 1),
            "kernels": round(totals.per_step("kernels")),
        },
    )
    if totals.figures.get("stacked"):
        yield stacks_inflate()


def stacks_inflate() -> Evidence:
    return Evidence(
        "Python stacks were recorded, which slows the host and inflates this bound: measure again without them.",
        bearing=Bearing.WEAKENS,
    )


RULE = Rule(
    code="RL-H01",
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
