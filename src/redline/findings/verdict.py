"""The verdict: what a job is limited by, how far it is from its redline, and whether anything is worth doing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from redline.findings.evidence import Evidence
from redline.findings.finding import OF_KERNELS, Finding, Limit, Verdict
from redline.ledger.accounts import COMMUNICATION, COMPUTE, IDLE, Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline, Unseen

WORTHWHILE = 0.05  # of the step: a finding of this bound is worth acting on
MUCH_LOST = 0.10  # of the step, outside kernels: twice what one finding must be worth, so more than what is no matter
MOSTLY_RATED = 0.8  # of the kernel time: the rest could hide no more than a fifth of it
NEAR_ROOF = 0.6  # of the rated kernel time: tuned matrix products reach 60 to 80 % of the dense peak
_KNOWN_ENOUGH = 0.5  # of the kernel time: below this, how far the redline is cannot be said

_STARVED = "RL-H20"  # the finding that claims time in which the job had no core

_GROUPS = {
    Limit.COMPUTE: (Account.MATH,),
    Limit.MEMORY: (Account.MEMORY,),
    Limit.KERNELS: (Account.KERNEL_LOSS,),
    Limit.UNRATED: (Account.UNRATED,),
    Limit.COMMUNICATION: COMMUNICATION,
    Limit.OVERHEAD: (Account.COPY, *IDLE),
}


def verdict_of(diagnosis: Diagnosis, outline: Outline, findings: Sequence[Finding]) -> Verdict:
    whole = diagnosis.per_step
    whole_ns = sum(whole.values()) or 1.0
    unjudged_ns = _unjudged_ns(diagnosis, outline, whole[Account.QUEUE])
    judged = whole | {Account.QUEUE: whole[Account.QUEUE] - unjudged_ns}
    step_ns = sum(judged.values()) or 1.0
    shares = {account: amount / step_ns for account, amount in judged.items()}
    limit, limit_share = _limit(shares)
    kernels = sum(shares[account] for account in COMPUTE)
    idle = sum(shares[account] for account in IDLE)
    exposed = sum(shares[account] for account in COMMUNICATION)
    unjudged_share = unjudged_ns / whole_ns
    lost = max(idle + exposed + shares[Account.COPY], unjudged_share)
    facts = [rank.facts for rank in diagnosis.ranks]
    rated = sum(fact.rated_ns for fact in facts) / max(sum(fact.kernel_ns for fact in facts), 1)
    needed = shares[Account.MATH] + shares[Account.MEMORY]
    rated_by_roof = needed + shares[Account.KERNEL_LOSS]
    roof = needed / rated_by_roof if rated_by_roof else None
    first = next(filter(_is_worthwhile, findings), None)
    sound = rated >= MOSTLY_RATED and (roof or 0.0) >= NEAR_ROOF
    return Verdict(
        limit=limit,
        limit_share=limit_share,
        kernel_share=kernels,
        judged_idle_share=idle,
        copy_share=shares[Account.COPY],
        exposed_share=exposed,
        idle_share=sum(whole[account] for account in IDLE) / whole_ns,
        unjudged_share=unjudged_share,
        math_share=shares[Account.MATH] if rated >= _KNOWN_ENOUGH else None,
        rated_share=rated,
        roof_share=roof,
        worthwhile=first is not None,
        healthy=first is None and lost < MUCH_LOST and sound and has_steps(outline),
        first=first.code if first is not None else "",
        phases=dict(Counter(phase for rank in diagnosis.ranks for phase in rank.origin.phases if phase)),
        starved_share=first.expected_share if first is not None and first.code == _STARVED else 0.0,
    )


def _is_worthwhile(finding: Finding) -> bool:
    """By what it gains as the only fix: what is beside the critical path gains nothing."""
    return finding.expected_share >= WORTHWHILE and not finding.is_void


def has_steps(outline: Outline) -> bool:
    """Steps were recognised: else what is called a step is all that was recorded."""
    return not any(remark.what == Unseen.NO_STEPS for remark in outline.unseen)


def _limit(shares: Mapping[Account, float]) -> tuple[Limit, float]:
    """Kernels only where they take more than all waiting, copying and communicating together."""
    groups = {limit: sum(shares[account] for account in accounts) for limit, accounts in _GROUPS.items()}
    kernels = sum(groups[limit] for limit in OF_KERNELS)
    of_kernels = kernels >= groups[Limit.COMMUNICATION] + groups[Limit.OVERHEAD]
    candidates = OF_KERNELS if of_kernels else (Limit.COMMUNICATION, Limit.OVERHEAD)
    limit = max(candidates, key=lambda group: groups[group])
    return limit, groups[limit]


def _unjudged_ns(diagnosis: Diagnosis, outline: Outline, queue_ns: float) -> float:
    """Queue time before the first recorded work, per step: the device may have been busy with what came before."""
    if not any(remark.what == Unseen.FIRST_QUEUE for remark in outline.unseen):
        return 0.0
    first_ns = sum(rank.facts.first_queue_ns for rank in diagnosis.ranks) / max(diagnosis.rank_steps, 1)
    return min(first_ns, queue_ns)


_HIDDEN = 0.9  # of the communication
_MUCH = 0.1  # of the window: less communication is no feat to hide
_BUSY = 0.95  # of the time from first to last work
_LOST = 0.1  # of the step: a device that waits, copies or only communicates for longer is not praised
_LOADING = 0.02  # of the step


def praise_of(diagnosis: Diagnosis, outline: Outline, verdict: Verdict) -> Iterator[Evidence]:
    window_ns = sum(rank.ledger.window_ns for rank in diagnosis.ranks)
    communicating_ns = sum(rank.facts.communicating_ns for rank in diagnosis.ranks)
    hidden = 1 - diagnosis.exposed_ns / communicating_ns if communicating_ns else 0.0
    if hidden >= _HIDDEN and communicating_ns >= _MUCH * window_ns:
        values: dict[str, float | str] = {
            "hidden_share": hidden,
            "communicating_ns": communicating_ns / len(diagnosis.ranks),
            "exposed_ns": diagnosis.exposed_ns / len(diagnosis.ranks),
        }
        yield Evidence(
            "Communication overlaps with compute: {hidden_share} of {communicating_ns} is hidden, "
            "{exposed_ns} is exposed.",
            values,
        )
    steps = outline.steps
    step_ns = sum(diagnosis.per_step.values())
    is_busy = steps.busy_ns >= _BUSY * steps.device_window_ns and verdict.lost_share < _LOST
    if steps.device_window_ns and is_busy:
        busy: dict[str, float | str] = {
            "busy_share": steps.busy_ns / steps.device_window_ns,
            "window_ns": steps.device_window_ns,
        }
        yield Evidence("The device is busy {busy_share} of the {window_ns} between its first and last work.", busy)
    loading_ns = sum(rank.facts.loading_ns for rank in diagnosis.ranks) / max(diagnosis.rank_steps, 1)
    if loading_ns and diagnosis.per_step[Account.INPUT] < _LOADING * step_ns:
        waited: dict[str, float | str] = {"input_share": diagnosis.per_step[Account.INPUT] / step_ns}
        yield Evidence("The data loader keeps up: waiting for it takes {input_share} of the step.", waited)
