"""RL-H22: another Python thread of the process holds the interpreter lock while the training thread waits for it."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.host_counters import Floats, spread
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.host_evidence import HostEvidence, ThreadTime
from redline.timeline.intervals import Intervals

LEAST_SHARE = 0.05  # of the step
# Whoever waits for the lock wakes up every 5 ms (sys.getswitchinterval) to ask for it; on a busy machine it is back at
# work a little later. A thread that waits for something else, such as a queue, sleeps until it is there.
LONGEST_SLEEP_NS = 10_000_000
BUSY_SHARE = 0.5  # of the time that the training thread slept: less cannot have kept it waiting


def match(analysis: RankAnalysis) -> RuleMatch | None:
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
        claim=_placed(analysis, asleep_ns),
        figures={"asleep_ns": float(asleep_ns.sum()), "other_cpu_ns": float(other.cpu_ns), "sleeps": float(sleeps)},
        names={"thread": other.name},
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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The training thread sleeps {asleep_ns} of each {step_ns} step, {sleeps:,} times, though it waits neither for "
        "a core nor for data, while the Python thread {thread} runs for {other_cpu_ns} per step.",
        {
            "asleep_ns": totals.per_step("asleep_ns"),
            "step_ns": totals.step_ns,
            "sleeps": round(totals.per_step("sleeps")),
            "thread": totals.names["thread"],
            "other_cpu_ns": totals.per_step("other_cpu_ns"),
        },
    )


RULE = Rule(
    code="RL-H22",
    claims=ClaimOrder.THREADS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("asleep_ns", "other_cpu_ns", "sleeps"),
    names=("thread",),
    least_share=LEAST_SHARE,
)
