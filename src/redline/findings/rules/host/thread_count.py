"""RL-H21: operators on the CPU run in more threads than there are cores, or in fewer while cores are free."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.host_counters import Floats, spread
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.host_evidence import HostEvidence, MachineShare

LEAST_SHARE = 0.05  # of the step
HELPERS_SHARE = 0.1  # of the process's CPU time: below this its operators do not work in several threads
USEFUL = 0.5  # of the CPU time of too many threads, at least: the rest may be switching and refilling caches
LARGE_NS = 5_000_000  # an operator that long is sure to gain from another thread; waking one takes some 10 us
LARGE_SHARE = 2 / 3  # of the step, in such operators
FREE_CORES = 0.5  # on average, so that another thread has a core to run on
SETTLED_SHARE = 0.1  # of the step: a thread that waits longer for its core has no use for another one


def match(analysis: RankAnalysis) -> RuleMatch | None:
    machine, steps = analysis.timeline.evidence.machine, analysis.timeline.evidence.steps
    cores = _usable_cores(machine)
    if analysis.on_gpu or not len(steps) or not cores or not machine.torch_threads:
        return None
    threads = machine.torch_threads * (machine.ranks or 1)
    if machine.torch_threads > 1 and threads > cores:
        amounts_ns = _lost_to_switching(analysis, cores)
    elif threads < cores:
        amounts_ns = _gained_by_more(analysis, threads / cores)
    else:
        return None
    if not amounts_ns.any():
        return None
    figures = {"observed": 1.0, "threads": float(machine.torch_threads), "ranks": float(machine.ranks or 1)}
    claim = spread(analysis, amounts_ns, analysis.activity.computing)
    return RuleMatch(claim=claim, figures={**figures, "cores": cores})


def _usable_cores(machine: MachineShare) -> float:
    """By affinity and by quota; 0 where neither is known."""
    allowed = float(machine.cores_allowed or 0)
    return min(allowed, machine.quota_cores) if machine.quota_cores else allowed


def _lost_to_switching(analysis: RankAnalysis, cores: float) -> Floats:
    """Beyond the time that the useful part of their CPU time takes on all cores; nothing where they do little."""
    evidence, ledger = analysis.timeline.evidence, analysis.ledger
    ranks = evidence.machine.ranks or 1
    length_ns = (ledger.end_ns - ledger.start_ns).astype(np.float64)
    if _helpers_ns(evidence) < HELPERS_SHARE * float(evidence.steps.process_cpu_ns.sum()):
        return np.zeros(len(length_ns))
    cpu_ns, process_ns = analysis.counted(evidence.steps.cpu_ns), analysis.counted(evidence.steps.process_cpu_ns)
    lost_ns: Floats = np.maximum(length_ns - np.maximum(cpu_ns, USEFUL * process_ns * ranks / cores), 0)
    return lost_ns


def _helpers_ns(evidence: HostEvidence) -> int:
    return sum(thread.cpu_ns for thread in evidence.threads if not thread.training and not thread.python)


def _gained_by_more(analysis: RankAnalysis, used: float) -> Floats:
    """What all compute would take less if it were spread over all cores; nothing where operators are short."""
    evidence, ledger = analysis.timeline.evidence, analysis.ledger
    machine, steps, compute = evidence.machine, evidence.steps, analysis.activity.compute
    nothing = np.zeros(len(ledger.start_ns))
    busy_ns, waited_ns = float(steps.cpu_ns.sum()), float(steps.run_queue_ns.sum())
    length_ns = float((steps.end_ns - steps.begin_ns).sum())
    is_settled = 0 <= waited_ns < SETTLED_SHARE * length_ns and busy_ns > LARGE_SHARE * length_ns
    free = (machine.cores or 0) - machine.running if machine.running is not None else 0.0
    large_ns = int(compute.dur_ns[compute.dur_ns >= LARGE_NS].sum())
    if not is_settled or free < FREE_CORES or large_ns < LARGE_SHARE * analysis.steps_ns:
        return nothing
    compute_ns = analysis.activity.computing.overlap_with(ledger.start_ns, ledger.end_ns)
    return compute_ns.astype(np.float64) * (1 - used)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    observed = max(totals.figures["observed"], 1.0)
    mean = {name: amount / observed for name, amount in totals.figures.items()}
    values: dict[str, float | str] = {
        "threads": round(mean["threads"]),
        "ranks": round(mean["ranks"]),
        "cores": round(mean["cores"], 1),
        "fitting": max(round(mean["cores"] / max(mean["ranks"], 1)), 1),
    }
    if mean["threads"] * mean["ranks"] > mean["cores"]:
        yield Evidence(
            "Operators run in {threads:,} threads per process (ranks on this machine: {ranks:,}), on {cores} cores "
            "that the job may use: threads wait for each other's cores. Set torch.set_num_threads({fitting}).",
            values,
        )
    else:
        yield Evidence(
            "Operators run in {threads:,} threads per process (ranks on this machine: {ranks:,}), on {cores} cores "
            "that the job may use. Cores are free, and most of the step is in operators of 5 ms and more. Set "
            "torch.set_num_threads({fitting}).",
            values,
        )


RULE = Rule(
    code="RL-H21",
    claims=ClaimOrder.THREADS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("observed", "threads", "ranks", "cores"),
    least_share=LEAST_SHARE,
)
