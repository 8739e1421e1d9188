"""The verdict: what a job is limited by, how far it is from its redline, and whether anything is worth doing."""

from collections import Counter
from collections.abc import Sequence

from redline.analysis.accounts import IDLE, Account
from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.first_screen import Outline, Unseen
from redline.findings.finding import Finding, Limit, Verdict

WORTHWHILE = 0.05  # of the step: a finding of this bound is worth acting on
_MUCH_IDLE = 0.15  # of the step: a job that idles more is not healthy, even where no rule knows why
_MOSTLY_RATED = 0.5  # of the kernel time: below this, how far the redline is cannot be said

_GROUPS = {
    Limit.COMPUTE: (Account.MATH, Account.KERNEL_LOSS, Account.UNRATED),
    Limit.MEMORY: (Account.MEMORY,),
    Limit.COMMUNICATION: (Account.TRANSFER, Account.PEER_WAIT),
    Limit.OVERHEAD: (Account.COPY, *IDLE),
}


def verdict_of(diagnosis: Diagnosis, outline: Outline, findings: Sequence[Finding]) -> Verdict:
    amounts = dict(diagnosis.per_step)
    amounts[Account.QUEUE] -= _unowned_queue_ns(diagnosis, outline, amounts[Account.QUEUE])
    step_ns = sum(amounts.values()) or 1.0
    groups = {limit: sum(amounts[account] for account in accounts) / step_ns for limit, accounts in _GROUPS.items()}
    limit = max(groups, key=lambda group: groups[group])
    facts = [rank.facts for rank in diagnosis.ranks]
    rated = sum(of_rank.rated_ns for of_rank in facts) / max(sum(of_rank.kernel_ns for of_rank in facts), 1)
    idle_share = sum(amounts[account] for account in IDLE) / step_ns
    worthwhile = any(finding.share >= WORTHWHILE for finding in findings)
    return Verdict(
        limit=limit,
        limit_share=groups[limit],
        idle_share=idle_share,
        math_share=amounts[Account.MATH] / step_ns if rated >= _MOSTLY_RATED else None,
        worthwhile=worthwhile,
        healthy=not worthwhile and limit in (Limit.COMPUTE, Limit.MEMORY) and idle_share < _MUCH_IDLE,
        first=findings[0].code if findings else "",
        phases=dict(Counter(phase for rank in diagnosis.ranks for phase in rank.origin.phases if phase)),
    )


def _unowned_queue_ns(diagnosis: Diagnosis, outline: Outline, queue_ns: float) -> float:
    """Queue time before the first recorded work, per step: the device may have been busy with what came before."""
    if not any(remark.what == Unseen.FIRST_QUEUE for remark in outline.unseen):
        return 0.0
    first_ns = sum(rank.facts.first_queue_ns for rank in diagnosis.ranks) / max(diagnosis.rank_steps, 1)
    return min(first_ns, queue_ns)
