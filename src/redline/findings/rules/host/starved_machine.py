"""RL-H20: the training thread waits for a core, because others use them or because it may use few."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.host_counters import Floats, spread
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.host_evidence import HostEvidence

LEAST_SHARE = 0.1  # of the step; on a quiet machine a thread waits for less than 1 %, on a desktop for some percent
BUSY_THREAD = 0.1  # of the training thread's CPU time: a thread of the process that works along with it
THROTTLED_SHARE = 0.01  # of the window


def match(analysis: RankAnalysis) -> RuleMatch | None:
    evidence = analysis.timeline.evidence
    steps, ledger = evidence.steps, analysis.ledger
    if not len(steps) or not steps.within("run_queue_ns", 0, 1 << 62):
        return None
    length_ns = (ledger.end_ns - ledger.start_ns).astype(np.float64)
    cpu_ns, waited_ns = analysis.counted(steps.cpu_ns), analysis.counted(steps.run_queue_ns)
    starved_ns = np.maximum(waited_ns - cpu_ns * (_crowd(evidence) - 1), 0)
    if starved_ns.sum() < LEAST_SHARE * length_ns.sum():
        return None
    asleep_ns = np.maximum(length_ns - cpu_ns - waited_ns, 0)
    starved_ns += np.minimum(asleep_ns, _helpers_share(evidence, float(waited_ns.sum())) * starved_ns)
    within = analysis.in_steps - analysis.activity.communicating
    return RuleMatch(claim=spread(analysis, starved_ns, within), figures=_figures(evidence, starved_ns, length_ns))


def _crowd(evidence: HostEvidence) -> float:
    """How many threads of the job want each core of the machine while the training thread wants one; at least 1.

    What the job's own threads take from each other, it would still lose if it had the machine for itself.
    """
    machine = evidence.machine
    training_ns = sum(thread.cpu_ns + thread.run_queue_ns for thread in evidence.threads if thread.training)
    all_ns = sum(thread.cpu_ns + thread.run_queue_ns for thread in evidence.threads)
    threads = max(all_ns / training_ns, 1.0) if training_ns else 1.0
    return max(threads * (machine.ranks or 1) / (machine.cores or machine.cores_allowed or 1), 1.0)


def _helpers_share(evidence: HostEvidence, waited_ns: float) -> float:
    """How long the thread that works along with the training thread waited for a core, as a share of that one's own.

    The training thread sleeps until such a thread has done its part of an operator.
    """
    training_ns = sum(thread.cpu_ns for thread in evidence.threads if thread.training)
    helpers = [
        thread.run_queue_ns
        for thread in evidence.threads
        if not thread.training and not thread.python and thread.cpu_ns >= BUSY_THREAD * training_ns
    ]
    return max(helpers, default=0) / max(waited_ns, 1.0)


def _figures(evidence: HostEvidence, starved_ns: Floats, length_ns: Floats) -> dict[str, float]:
    machine, window_ns = evidence.machine, float((evidence.steps.end_ns - evidence.steps.begin_ns).sum())
    return {
        "observed": 1.0,
        "starved_ns": float(starved_ns.sum()),
        "starved_share": float(starved_ns.sum() / max(length_ns.sum(), 1.0)),
        "used_cores": float(evidence.steps.process_cpu_ns.sum()) / max(window_ns, 1.0),
        "allowed": float(machine.cores_allowed or 0),
        "cores": float(machine.cores or 0),
        "running": machine.running or 0.0,
        "quota": machine.quota_cores or 0.0,
        "throttled_share": (machine.throttled_ns or 0) / max(window_ns, 1.0),
    }


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    observed = max(totals.figures["observed"], 1.0)
    mean = {name: amount / observed for name, amount in totals.figures.items()}
    yield Evidence(
        "The training thread is ready to run and waits for a core for {starved_ns} of each {step_ns} step. The process "
        "gets {used_cores:.1f} of the {allowed:,} cores that it may use.",
        {
            "starved_ns": totals.per_step("starved_ns"),
            "step_ns": totals.step_ns,
            "used_cores": mean["used_cores"],
            "allowed": round(mean["allowed"]),
        },
    )
    if mean["running"] > mean["cores"] > 0:
        yield Evidence(
            "On average {running:.1f} threads want to run on the {cores:,} cores of the machine: other processes take "
            "the rest. Times of operators include the waiting; they are not compute time.",
            {"running": mean["running"], "cores": round(mean["cores"])},
        )
    if mean["throttled_share"] > THROTTLED_SHARE:
        yield Evidence(
            "The CPU quota of its control group, {quota:.1f} cores, stops the process for up to {throttled_share} of "
            "the time.",
            {"quota": mean["quota"], "throttled_share": mean["throttled_share"]},
        )
    if mean["allowed"] < mean["cores"]:
        yield Evidence(
            "Its CPU affinity allows {allowed:,} of the {cores:,} cores of the machine.",
            {"allowed": round(mean["allowed"]), "cores": round(mean["cores"])},
        )


RULE = Rule(
    code="RL-H20",
    claims=ClaimOrder.STARVED,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=(
        "observed",
        "starved_ns",
        "starved_share",
        "used_cores",
        "allowed",
        "cores",
        "running",
        "quota",
        "throttled_share",
    ),
    least_share=LEAST_SHARE,
)
