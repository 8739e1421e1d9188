"""RL-H01: the host launches small kernels more slowly than the device runs them, the same ones every step."""

from collections.abc import Iterator

import numpy as np

from redline.analysis.accounts import IDLE
from redline.analysis.rank.digest import SHORT_KERNEL_NS
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.timeline.timeline import NONE
from redline.trace.steps import ENGINE_ANCHOR

IDLE_SHARE = 0.15  # of the steps: below this, launching is not what limits
LAUNCH_SHARE = 0.6  # of the idle time
SMALL_KERNEL_NS = 2 * 10_000  # twice what a launch costs at most
FEW_KERNELS = 20  # to a step: so few are launched fast enough whatever is done


def match(scene: RankAnalysis) -> RuleMatch | None:
    return launch_gaps(scene) if is_launch_bound(scene) and repeats(scene) else None


def is_launch_bound(scene: RankAnalysis) -> bool:
    """Idle for a notable part of the steps, mostly because the next kernel had not been launched, and it is small.

    Serving engines have a rule of their own.
    """
    dur_ns = scene.timeline.spans.dur_ns[scene.activity.compute.row]
    engine = scene.timeline.step_anchor == ENGINE_ANCHOR
    few = len(dur_ns) < FEW_KERNELS * max(len(scene.ledger.start_ns), 1)
    if engine or few or not scene.on_gpu or np.median(dur_ns) >= SMALL_KERNEL_NS:
        return False
    idle_ns = ((scene.idle_in(*IDLE) & scene.in_steps) - scene.unowned).length_ns
    host_ns = scene.launch_gaps.length_ns + scene.pauses.length_ns
    return idle_ns > IDLE_SHARE * scene.steps_ns and host_ns >= LAUNCH_SHARE * idle_ns


def repeats(scene: RankAnalysis) -> bool:
    """Whether all steps but the first launch as many kernels: what changes from step to step cannot be replayed."""
    work = scene.timeline.device_work
    launch = work.launch[np.searchsorted(work.row, scene.activity.compute.row)]
    starts = np.sort(scene.timeline.spans.start_ns[launch[launch != NONE]])
    edges = np.searchsorted(starts, np.stack([scene.ledger.start_ns, scene.ledger.end_ns]))
    counts = (edges[1] - edges[0])[1:] if len(edges[0]) > 2 else edges[1] - edges[0]
    return len(counts) > 1 and bool(counts.max() - counts.min() <= 0.01 * counts.max() > 0)


def launch_gaps(scene: RankAnalysis) -> RuleMatch:
    dur_ns = scene.timeline.spans.dur_ns[scene.activity.compute.row]
    figures = {
        "kernels": float(len(dur_ns)),
        "short": float((dur_ns < SHORT_KERNEL_NS).sum()),
        "stacked": float(has_stacks(scene)),
    }
    return RuleMatch(claim=scene.launch_gaps, figures=figures)


def has_stacks(scene: RankAnalysis) -> bool:
    return "stack" in scene.timeline.metadata.recorded or len(scene.timeline.python_calls) > 0


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The device waits {waiting_ns} of each step of {step_ns} for the next launch; {short_share} of its "
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
        "Python stacks were recorded, which slows the host and inflates this bound: measure again without them."
    )


RULE = Rule(
    code="RL-H01",
    claims=ClaimOrder.LAUNCHES,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("short", "kernels"),
    least_share=0.05,
    is_launch_bound=True,
)
