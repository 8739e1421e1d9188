"""Ranks to look at: those that are late or slower than others that do the same work, and the most typical one."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from redline.ledger.accounts import Account, place
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.digest import Digest

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
    of_kind: defaultdict[int, list[float]] = defaultdict(list)
    for kind, time_ns in zip(diagnosis.kinds, own_ns, strict=True):
        if time_ns:
            of_kind[kind].append(time_ns)
    for times_ns in of_kind.values():
        times_ns.sort()
    excess: dict[int, float] = {}
    for rank, kind, time_ns in zip(diagnosis.ranks, diagnosis.kinds, own_ns, strict=True):
        usual_ns = _median_of_others(of_kind[kind], time_ns) if time_ns else 0.0
        if usual_ns and time_ns > _SLOWER * usual_ns:
            excess[rank.origin.rank] = time_ns / usual_ns
    return sorted(excess, key=lambda rank: -excess[rank])[:_MOST_OF_EACH]


def _median_of_others(ordered: Sequence[float], own: float) -> float:
    """Of ordered numbers without one of them; 0 where there is no other."""
    place, others = bisect_left(ordered, own), len(ordered) - 1
    if not others:
        return 0.0
    lower, upper = ((others - 1) // 2, others // 2)
    return (ordered[lower + (lower >= place)] + ordered[upper + (upper >= place)]) / 2


def _own_step_ns(rank: Digest) -> float:
    steps = rank.ledger.steps
    return float(steps.sum() - steps[:, place(Account.PEER_WAIT)].sum()) / len(steps) if len(steps) else 0.0


def typical_place(diagnosis: Diagnosis) -> int:
    """Where among the ranks the one is whose average step has accounts nearest to those of the job."""
    usual = np.array(list(diagnosis.per_step.values()))
    averages = [rank.ledger.steps.sum(axis=0) / max(len(rank.ledger.steps), 1) for rank in diagnosis.ranks]
    return int(np.abs(np.array(averages) - usual).sum(axis=1).argmin())
