"""Ranks whose raw traces are worth keeping: those that are late, or slower than ranks that do the same work."""

from collections.abc import Mapping
from statistics import median

from redline.analysis.accounts import Account, place
from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.digest import Digest

LATE, SLOW = "late", "slow"
_MOST_OF_EACH = 4
_CAUSED = 0.02  # of the time of all ranks, that others waited for it,
_MOSTLY, _TIMES_ITS_PART = 0.5, 4  # and so much of all waiting, or so many times what each causes in a job of many
_SLOWER = 1.1  # times the median of the others, without waiting


def ranks_that_stand_out(diagnosis: Diagnosis) -> Mapping[int, str]:
    """Rank by rank why, those that cost most; none in a job whose ranks are all alike."""
    late = dict.fromkeys(_late(diagnosis), LATE)
    return {**dict.fromkeys(_slow(diagnosis), SLOW), **late}


def _late(diagnosis: Diagnosis) -> list[int]:
    if diagnosis.lateness is None:
        return []
    least_ns = _CAUSED * sum(rank.ledger.window_ns for rank in diagnosis.ranks)
    least_share = min(_MOSTLY, _TIMES_ITS_PART / len(diagnosis.ranks))
    late = (late for late in diagnosis.lateness.ranks if late.caused_ns >= least_ns and late.share >= least_share)
    return [late_rank.rank for late_rank in late][:_MOST_OF_EACH]


def _slow(diagnosis: Diagnosis) -> list[int]:
    """By the step without waiting for others, against others of the same kind."""
    own_ns = [_own_step_ns(rank) for rank in diagnosis.ranks]
    excess: dict[int, float] = {}
    for at, (rank, kind) in enumerate(zip(diagnosis.ranks, diagnosis.kinds, strict=True)):
        others = [
            own_ns[other]
            for other, other_kind in enumerate(diagnosis.kinds)
            if other_kind == kind and other != at and own_ns[other]
        ]
        usual_ns = median(others) if others else 0.0
        if usual_ns and own_ns[at] > _SLOWER * usual_ns:
            excess[rank.origin.rank] = own_ns[at] / usual_ns
    return sorted(excess, key=lambda rank: -excess[rank])[:_MOST_OF_EACH]


def _own_step_ns(rank: Digest) -> float:
    steps = rank.ledger.steps
    return float(steps.sum() - steps[:, place(Account.PEER_WAIT)].sum()) / len(steps) if len(steps) else 0.0
