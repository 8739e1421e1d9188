"""Threads that wait for a core or for the interpreter lock, and too many or too few of them."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, rule, says
from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.host_evidence import HostEvidence, MachineShare, ThreadTime
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

Floats = npt.NDArray[np.float64]
_SLICES = 1000  # of a step: an account's part of the claim is known to a thousandth


def spread(analysis: RankAnalysis, amounts_ns: Floats, within: Intervals) -> Intervals:
    """Spread the amount of each step evenly over the time `within`, and no more than there is."""
    borders = zip(analysis.ledger.start_ns.tolist(), analysis.ledger.end_ns.tolist(), strict=True)
    steps = [within.clip(start_ns, end_ns) for start_ns, end_ns in borders]
    pieces = [Intervals.empty(), *map(_even_part, steps, amounts_ns.tolist())]
    return Intervals.union_of(
        np.concatenate([piece.start for piece in pieces]), np.concatenate([piece.end for piece in pieces])
    )


def _even_part(time: Intervals, amount_ns: float) -> Intervals:
    """The end of each of many equal slices of the time."""
    total_ns = time.length_ns
    share = min(amount_ns / total_ns, 1.0) if total_ns else 0.0
    if share <= 0:
        return Intervals.empty()
    borders = np.linspace(0, total_ns, min(_SLICES, total_ns) + 1)
    ends = np.round(borders[1:]).astype(np.int64)
    starts = np.round(borders[1:] - share * np.diff(borders)).astype(np.int64)
    return Intervals.union_of(_moment(time, starts, "right"), _moment(time, ends, "left")) & time


def _moment(time: Intervals, places: I64, side: Literal["left", "right"]) -> I64:
    """When so much of the time has passed; `side` says on which side of a gap."""
    reached = np.cumsum(time.end - time.start)
    at = np.minimum(np.searchsorted(reached, places, side=side), len(reached) - 1)
    return np.asarray(time.end[at] - (reached[at] - places), np.int64)


LEAST_SHARE = 0.1  # of the step; on a quiet machine a thread waits for less than 1 %, on a desktop for some percent
BUSY_THREAD = 0.1  # of the training thread's CPU time: a thread of the process that works along with it
THROTTLED_SHARE = 0.01  # of the window


def _explain_starved_machine(totals: MatchTotals) -> Iterator[Evidence]:
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


@rule(
    "RL-H20",
    ClaimOrder.STARVED,
    Numerics.BITWISE,
    Grade.DOCUMENTED,
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
@adds(_explain_starved_machine)
def starved_machine(analysis: RankAnalysis) -> RuleMatch | None:
    """The training thread waits for a core, because others use them or because it may use few."""
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
    return RuleMatch(spread(analysis, starved_ns, within), **_figures(evidence, starved_ns, length_ns))


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


HELPERS_SHARE = 0.1  # of the process's CPU time: below this its operators do not work in several threads
USEFUL = 0.5  # of the CPU time of too many threads, at least: the rest may be switching and refilling caches
LARGE_NS = 5_000_000  # an operator that long is sure to gain from another thread; waking one takes some 10 us
LARGE_SHARE = 2 / 3  # of the step, in such operators
FREE_CORES = 0.5  # on average, so that another thread has a core to run on
SETTLED_SHARE = 0.1  # of the step: a thread that waits longer for its core has no use for another one


def _explain_thread_count(totals: MatchTotals) -> Iterator[Evidence]:
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


@rule(
    "RL-H21",
    ClaimOrder.THREADS,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    figures=("observed", "threads", "ranks", "cores"),
    least_share=0.05,
)
@adds(_explain_thread_count)
def thread_count(analysis: RankAnalysis) -> RuleMatch | None:
    """Operators on the CPU run in more threads than there are cores, or in fewer while cores are free."""
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
    return RuleMatch(claim, **figures, cores=cores)


def _usable_cores(machine: MachineShare) -> float:
    """By affinity and by quota; 0 where neither is known."""
    allowed = float(machine.cores_allowed or 0)
    return min(allowed, machine.quota_cores) if machine.quota_cores else allowed


def _lost_to_switching(analysis: RankAnalysis, cores: float) -> Floats:
    """Beyond the time that the useful part of their CPU time takes on all cores; nothing where they do little."""
    evidence, ledger = analysis.timeline.evidence, analysis.ledger
    ranks = evidence.machine.ranks or 1
    length_ns = (ledger.end_ns - ledger.start_ns).astype(np.float64)
    helpers_ns = sum(thread.cpu_ns for thread in evidence.threads if not thread.training and not thread.python)
    if helpers_ns < HELPERS_SHARE * float(evidence.steps.process_cpu_ns.sum()):
        return np.zeros(len(length_ns))
    cpu_ns, process_ns = analysis.counted(evidence.steps.cpu_ns), analysis.counted(evidence.steps.process_cpu_ns)
    lost_ns: Floats = np.maximum(length_ns - np.maximum(cpu_ns, USEFUL * process_ns * ranks / cores), 0)
    return lost_ns


def _gained_by_more(analysis: RankAnalysis, used: float) -> Floats:
    """The time that compute would save spread over all cores; nothing where operators are short."""
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


# Whoever waits for the lock wakes up every 5 ms (sys.getswitchinterval) to ask for it; on a busy machine it is back at
# work a little later. A thread that waits for something else, such as a queue, sleeps until it is there.
LONGEST_SLEEP_NS = 10_000_000
BUSY_SHARE = 0.5  # of the time that the training thread slept: less cannot have kept it waiting


@rule("RL-H22", ClaimOrder.THREADS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.05)
@says(
    "The training thread sleeps {asleep_ns} of each {step_ns} step, {sleeps:,} times, though it waits neither for "
    "a core nor for data, while the Python thread {thread} runs for {other_cpu_ns} per step."
)
def interpreter_lock(analysis: RankAnalysis) -> RuleMatch | None:
    """Another Python thread of the process holds the interpreter lock while the training thread waits for it."""
    evidence, ledger = analysis.timeline.evidence, analysis.ledger
    steps, other = evidence.steps, _busiest_other(evidence)
    if other is None or not len(steps) or not steps.within("run_queue_ns", 0, 1 << 62):
        return None
    length_ns = (ledger.end_ns - ledger.start_ns).astype(np.float64)
    explained_ns = _waits(analysis).overlap_with(ledger.start_ns, ledger.end_ns)
    ran_ns = analysis.counted(steps.cpu_ns) + analysis.counted(steps.run_queue_ns)
    asleep_ns: Floats = np.maximum(length_ns - ran_ns - explained_ns, 0)
    sleeps = analysis.counted(steps.voluntary).sum()
    is_short = 0 < asleep_ns.sum() <= LONGEST_SLEEP_NS * sleeps
    if not is_short or other.cpu_ns < BUSY_SHARE * asleep_ns.sum():
        return None
    return RuleMatch(
        _placed(analysis, asleep_ns),
        asleep_ns=asleep_ns.sum(),
        other_cpu_ns=other.cpu_ns,
        sleeps=sleeps,
        thread=other.name,
    )


def _busiest_other(evidence: HostEvidence) -> ThreadTime | None:
    """The Python thread that ran longest beside the training thread, which must be known."""
    if not any(thread.training for thread in evidence.threads):
        return None
    others = [thread for thread in evidence.threads if thread.python and not thread.training]
    return max(others, key=lambda thread: thread.cpu_ns, default=None)


def _waits(analysis: RankAnalysis) -> Intervals:
    """Time in which the thread may well sleep for another reason: for data, for the device, for other ranks."""
    return analysis.activity.communicating | analysis.idle_in(Account.INPUT, Account.SYNC)


def _placed(analysis: RankAnalysis, amounts_ns: Floats) -> Intervals:
    """In time of the host without an operator, where Python runs; what does not fit there, in operators."""
    host, ledger = analysis.idle_in(Account.HOST, Account.OTHER), analysis.ledger
    room_ns = host.overlap_with(ledger.start_ns, ledger.end_ns).astype(np.float64)
    rest = analysis.in_steps - _waits(analysis) - host
    beyond_ns: Floats = np.maximum(amounts_ns - room_ns, 0)
    return spread(analysis, amounts_ns, host) | spread(analysis, beyond_ns, rest)
