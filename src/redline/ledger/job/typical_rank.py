"""The rank that is most like the job: the one to look at when there is room for one."""

import numpy as np

from redline.ledger.job.combine import Diagnosis


def typical_place(diagnosis: Diagnosis) -> int:
    """Where among the ranks the one is whose average step has accounts nearest to those of the job."""
    usual = np.array(list(diagnosis.per_step.values()))
    averages = [rank.ledger.steps.sum(axis=0) / max(len(rank.ledger.steps), 1) for rank in diagnosis.ranks]
    return int(np.abs(np.array(averages) - usual).sum(axis=1).argmin())
