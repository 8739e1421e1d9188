"""What a job gains when each rank gains its part: ranks wait for each other, so the slowest decides."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from redline.findings.usual_steps import is_usual
from redline.ledger.job.combine import Diagnosis
from redline.timeline.intervals import Intervals
from redline.timeline.side_by_side import SideBySide
from redline.timeline.table import I64


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Stretches of time inside steps, of one rank after the other, on one clock."""

    step: I64
    start_ns: I64
    end_ns: I64

    @classmethod
    def joined(cls, parts: Sequence["Pieces"]) -> "Pieces":
        none = np.empty(0, np.int64)
        return cls(
            step=np.concatenate([none, *(part.step for part in parts)]),
            start_ns=np.concatenate([none, *(part.start_ns for part in parts)]),
            end_ns=np.concatenate([none, *(part.end_ns for part in parts)]),
        )

    def united(self) -> "Pieces":
        """The same time in the fewest pieces: what several ranks have, once."""
        if not len(self.step):
            return self
        union, first_ns, apart_ns = self._union()
        step = union.start // apart_ns
        shift_ns = first_ns - step * apart_ns
        return Pieces(step=step, start_ns=union.start + shift_ns, end_ns=union.end + shift_ns)

    def union_by_step(self, steps: int) -> I64:
        """Of each step how long any rank has a piece."""
        if not len(self.step):
            return np.zeros(steps, np.int64)
        union, _, apart_ns = self._union()
        begin_ns = np.arange(steps, dtype=np.int64) * apart_ns
        return union.overlap_with(begin_ns, begin_ns + apart_ns)

    def _union(self) -> tuple[Intervals, int, int]:
        """On a line on which each step has a stretch of time to itself; the time of its beginning, and their length."""
        first_ns = int(self.start_ns.min())
        apart_ns = int(self.end_ns.max()) - first_ns + 1
        shift_ns = self.step * apart_ns - first_ns
        return Intervals.union_of(self.start_ns + shift_ns, self.end_ns + shift_ns), first_ns, apart_ns


@dataclass(kw_only=True)
class JobGain:
    """Gains by step of the job. What one fix gains beyond those before it never adds up to more than the steps."""

    diagnosis: Diagnosis
    steps: int = field(init=False)
    lengths_ns: I64 = field(init=False)  # of each step, the average of the ranks
    _claimed_ns: I64 = field(init=False)  # for each rank and step, by all fixes so far
    _exchanged: list[Pieces] = field(init=False, default_factory=list)  # exposed communication that they claim
    _reached_ns: I64 = field(init=False)  # for each step, what all fixes so far gain together

    def __post_init__(self) -> None:
        lengths = [rank.ledger.end_ns - rank.ledger.start_ns for rank in self.diagnosis.ranks]
        self.steps = max(map(len, lengths), default=0)
        sums, counts = np.zeros(self.steps, np.int64), np.zeros(self.steps, np.int64)
        for of_rank in lengths:
            sums[: len(of_rank)] += of_rank
            counts[: len(of_rank)] += 1
        self.lengths_ns = sums // np.maximum(counts, 1)
        self._claimed_ns = np.zeros((len(lengths), self.steps), np.int64)
        self._reached_ns = np.zeros(self.steps, np.int64)

    def alone(self, by_rank: Iterable[I64], exchanged: Pieces) -> I64:
        """By step, as the only fix: the most of any rank; of exposed communication, the time that any rank has.

        Which rank the others wait for changes at collectives, so that of these more than the most of one can go.
        """
        most = np.zeros(self.steps, np.int64)
        for of_rank in by_rank:
            np.maximum(most[: len(of_rank)], of_rank, out=most[: len(of_rank)])
        return self._within_steps(np.maximum(most, exchanged.union_by_step(self.steps)))

    def beyond(self, places: Sequence[int], claimed: Sequence[I64], exchanged: Pieces) -> I64:
        """By step, what these claims of the ranks at these places add to what was claimed before."""
        for place, of_rank in zip(places, claimed, strict=True):
            self._claimed_ns[place, : len(of_rank)] += of_rank
        self._exchanged.append(exchanged)
        reached = self._claimed_ns.max(axis=0, initial=0)
        reached = np.maximum(reached, Pieces.joined(self._exchanged).union_by_step(self.steps))
        reached = np.maximum(self._within_steps(reached), self._reached_ns)
        gained: I64 = reached - self._reached_ns
        self._reached_ns = reached
        return gained

    def _within_steps(self, lost_ns: I64) -> I64:
        """At most the average step: the slowest rank may take longer."""
        lost: I64 = np.minimum(lost_ns, self.lengths_ns)
        return lost

    def share(self, by_step: I64) -> float:
        return float(by_step.sum()) / max(float(self.lengths_ns.sum()), 1.0)

    def steady_share(self, by_step: I64) -> float:
        """Of steps of usual length only."""
        usual = is_usual(self.lengths_ns)
        return float(by_step[usual].sum()) / max(float(self.lengths_ns[usual].sum()), 1.0)

    def pieces_of(self, places: slice, side_by_side: SideBySide, inside: Intervals) -> Pieces:
        """Time inside steps of the ranks at these places, side by side, on the clock that all ranks share."""
        ranks = self.diagnosis.ranks[places]
        begin_ns = side_by_side.moments([rank.ledger.start_ns for rank in ranks])
        borders = begin_ns[inside.contains(begin_ns)]
        starts, ends = (np.sort(np.concatenate((edges, borders))) for edges in (inside.start, inside.end))
        rank = side_by_side.border_ns.searchsorted(starts, side="right") - 1
        first_step = np.cumsum([0, *(len(rank.ledger.start_ns) for rank in ranks)])
        step: I64 = begin_ns.searchsorted(starts, side="right") - 1 - first_step[rank]
        zero_ns = np.array([rank.zero_ns for rank in ranks], np.int64)
        offset_ns = np.array(self.diagnosis.clocks.offset_ns[places], np.int64)
        shift_ns = (zero_ns - offset_ns - side_by_side.shift_ns)[rank]
        return Pieces(step=step, start_ns=starts + shift_ns, end_ns=ends + shift_ns).united()
