"""Times of the steps of a job with and without a change, from pairs of blocks inside of its processes."""

from collections.abc import Callable, Iterable
from statistics import fmean

from redline.capture.block_plan import DROPPED, WARM_UP, BlockPlan
from redline.capture.shared_state import (
    BLOCK_STEPS,
    BLOCK_TURNS,
    ENTRIES,
    FIRST_BLOCK,
    LEVER_FROM,
    LEVER_NUMBER,
    PLANNED_AT,
)
from redline.capture.supervisor.trial_job import TrialJob
from redline.trials.trial_result import TimedPair

BLOCK_S = 0.004  # that the steps of a block which count should last: the sooner both ways meet again, the better
LEAST_KEPT, MOST_KEPT = 2, 32
PAIR_S = 1.0  # that a pair should last, so that one hiccup is not all of it
MOST_TURNS = 100
_MARGIN_S = 0.2  # in which all ranks learn of the plan
_MARGIN_STEPS = 3


def block_size(step_s: float, least: int) -> tuple[int, int]:
    """How many steps of a block count, at least so many, and how many blocks of a pair there are each way."""
    kept = min(max(round(BLOCK_S / step_s), least), MOST_KEPT)
    both_s = 2 * (DROPPED + kept) * step_s
    return kept, min(max(round(PAIR_S / both_s), 1), MOST_TURNS)


class BlockTimer:
    """Plans the blocks of a trial in one process of a job once that has warmed up, and times each pair that is over.

    A process may have one trial after the other: each begins where the one before was over.
    """

    def __init__(
        self,
        job: TrialJob,
        seed: int,
        goes_on: Callable[[], bool],
        timed: Callable[[TimedPair], bool],
        lever_number: int = 0,
    ) -> None:
        self._job = job
        self._seed = seed
        self._begun = self._begin(lever_number)
        self._goes_on = goes_on  # asked once it has warmed up
        self._timed = timed  # whether that was enough
        self._plan: BlockPlan | None = None
        self._next = 0  # pair
        self.is_over = False

    def _begin(self, lever_number: int) -> int:
        """The step with which the trial begins."""
        steps = self._job.steps()
        if not steps or self._job.shared is None:
            begun = 1
        else:
            begun = steps + self._margin(self._seconds(range(max(steps - LEAST_KEPT, 0) + 1, steps + 1)))
        if self._job.shared is not None:
            self._job.shared.job_words[BLOCK_STEPS] = 0
            self._job.shared.job_words[LEVER_FROM] = begun
            self._job.shared.job_words[LEVER_NUMBER] = lever_number  # last: it says that the others are there
        return begun

    @staticmethod
    def _margin(step_s: float) -> int:
        """Steps in which all ranks learn of something."""
        return _MARGIN_STEPS + round(_MARGIN_S / step_s)

    @property
    def kept(self) -> int:
        """Steps of a pair that count, each way; 0 before it is known."""
        return self._plan.kept * self._plan.turns if self._plan else 0

    @property
    def least_steps(self) -> int:
        """That a job must take for one pair, as far as is known."""
        return self._plan.last(0) if self._plan else self._begun + 2 * (WARM_UP + LEAST_KEPT) + _MARGIN_STEPS

    def look(self) -> None:
        """To be called from time to time."""
        steps = self._job.steps()
        if self.is_over or steps < self._begun - 1 + 2 * WARM_UP + LEAST_KEPT:
            return
        if self._plan is None:
            self.is_over = not self._goes_on()
            if not self.is_over:
                self._plan = self._planned(steps)
            return
        is_enough = False
        while not is_enough and self._has_room() and steps >= self._plan.last(self._next):
            is_enough = self._time(self._plan, self._next)
            self._next += 1
        self.is_over = is_enough or not self._has_room()

    def _has_room(self) -> bool:
        """For the next pair: of more steps not every one is kept, and another process has to go on."""
        return self._plan is not None and self._plan.last(self._next) <= ENTRIES

    def _planned(self, steps: int) -> BlockPlan:
        step_s = self._seconds(range(steps - LEAST_KEPT + 1, steps + 1))
        kept, turns = block_size(step_s, LEAST_KEPT)
        first = steps + self._margin(step_s)
        plan = BlockPlan(seed=self._seed, first=first, kept=kept, turns=turns, begun=self._begun)
        if self._job.shared is not None:
            self._job.shared.job_words[FIRST_BLOCK] = plan.first
            self._job.shared.job_words[BLOCK_TURNS] = plan.turns
            self._job.shared.job_words[BLOCK_STEPS] = plan.kept  # last: it says that the others are there
        return plan

    def _time(self, plan: BlockPlan, pair: int) -> bool:
        without, changed = plan.counted(pair)
        known_at = max(slot.words[PLANNED_AT] for slot in self._job.ranks())
        if min(*without, *changed) <= known_at:  # a rank learnt of the plan too late
            return False
        return self._timed(TimedPair(before_s=self._seconds(without), after_s=self._seconds(changed)))

    def _seconds(self, steps: Iterable[int]) -> float:
        """Of a step, over steps and ranks: the average, as rare long steps are paid for too."""
        return fmean(slot.entries[2 * (step - 1)] / 1e9 for step in steps for slot in self._job.ranks())
