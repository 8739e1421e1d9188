"""Steps of a serving engine by what they do."""

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.trace import schema

PHASES = ("prefill", "decode", "mixed")


def phases_of(analysis: RankAnalysis) -> npt.NDArray[np.str_]:
    """Of each step; "" where it is not told, as in training."""
    timeline = analysis.timeline
    labels, which = np.unique(timeline.steps.label, return_inverse=True)
    phases: npt.NDArray[np.str_] = np.array(
        [schema.phase_of(timeline.text(label)) for label in labels.tolist()], np.str_
    )
    return phases[which]


def steps_in(analysis: RankAnalysis, *phases: str) -> Intervals:
    """The time of all steps of these phases."""
    chosen = np.isin(phases_of(analysis), phases)
    return Intervals.union_of(analysis.ledger.start_ns[chosen], analysis.ledger.end_ns[chosen])
