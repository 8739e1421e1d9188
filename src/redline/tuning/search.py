"""The search: each lever is kept once it is proven to be faster, right, and within the memory.

Levers that can be switched are tried first, in one process, as they are decided there in seconds. Nothing is dropped by
its rank, but for two levers that exclude each other. A lever that gained nothing alone is tried once more on top of
what was kept, as a step that has become shorter has other bottlenecks. Levers that promise something and stay
undecided are tried together: what they gain adds up, and the noise does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from redline.errors import InputError
from redline.trials.paired_sequence import TrialVerdict
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_result import Stopped, TrialResult
from redline.tuning.candidates import Consent, LeverCandidate
from redline.tuning.measurements import BudgetSpentError, TrialMeasurements
from redline.tuning.trial_folder import Answer
from redline.tuning.tune_result import Ladder, Objective, Rejected, Rejection, Rung, kept_candidates

_MUCH = 0.2  # of the step
_OF_MANY = ("switch",)  # kinds of which several can be on
_TRIED_AGAIN = (Rejection.NO_GAIN, Rejection.SLOWER, Rejection.UNDECIDED)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What the search is for."""

    objective: Objective = Objective.TIME
    memory_limit_bytes: int = 0  # 0 for none


Told = Callable[[Rung | Rejected], None]


def search(
    measure: TrialMeasurements,
    candidates: Mapping[Objective, Sequence[LeverCandidate]],
    consent: Consent,
    goal: Goal,
    told: Told,
) -> Ladder:
    """The candidates for either objective are in the order of their promise."""
    climb = _Climb(measure, consent, goal, told)
    start_bytes = measure.start().peak_bytes
    if goal.objective is Objective.MEMORY or 0 < goal.memory_limit_bytes < start_bytes:
        climb.less_memory(climb.allowed(candidates[Objective.MEMORY]))
    if goal.objective is Objective.TIME:
        climb.less_time(climb.allowed(candidates[Objective.TIME]))
    stack = climb.stack
    return Ladder(
        rungs=tuple(climb.rungs),
        rejected=tuple(climb.rejected.values()),
        whole=measure.whole(stack) if stack else None,
        whole_memory=measure.whole_memory(stack) if stack and goal.objective is Objective.MEMORY else None,
    )


@dataclass
class _Climb:
    """The ladder so far."""

    measure: TrialMeasurements
    consent: Consent
    goal: Goal
    told: Told
    rungs: list[Rung] = field(default_factory=list)
    rejected: dict[str, Rejected] = field(default_factory=dict)
    raced: dict[str, tuple[tuple[str, ...], TrialResult]] = field(default_factory=dict)  # with the rungs it was on

    @property
    def stack(self) -> tuple[str, ...]:
        return tuple(candidate.name for candidate in self._kept())

    def _kept(self) -> list[LeverCandidate]:
        return kept_candidates(self.rungs)

    def reject(self, rejected: Rejected) -> None:
        """What is known of a lever is not replaced by the news that there was no time to try it again."""
        name = rejected.candidate.name
        if rejected.why is Rejection.NO_TIME and name in self.rejected:
            return
        self.rejected[name] = rejected
        self.told(rejected)

    def allowed(self, candidates: Sequence[LeverCandidate]) -> list[LeverCandidate]:
        """Those that may be tried; the others are told."""
        for candidate in candidates:
            if not self.consent.allows(candidate.lever):
                self.reject(Rejected(candidate=candidate, why=Rejection.NO_CONSENT))
        kept = self.stack
        return [one for one in candidates if self.consent.allows(one.lever) and one.name not in kept]

    def less_time(self, candidates: Sequence[LeverCandidate]) -> None:
        """Levers of whole processes that nothing suggests come last: each takes minutes."""
        switchable = [candidate for candidate in candidates if candidate.is_switchable]
        others = [candidate for candidate in candidates if not candidate.is_switchable]
        self._race(switchable)
        for group in (
            [candidate for candidate in others if candidate.is_suggested],
            [candidate for candidate in others if not candidate.is_suggested],
        ):
            for candidate in group:
                self._try(candidate)
            self._race([one for one in switchable if one.name in self.rejected and self._may_gain_now(one)])
            self._try_together()

    def _may_gain_now(self, candidate: LeverCandidate) -> bool:
        """It was tried on other rungs than there are now."""
        known = self.rejected[candidate.name]
        return known.why in _TRIED_AGAIN and known.kept != self.stack

    def _race(self, candidates: Sequence[LeverCandidate]) -> None:
        """All on the same rungs first; then those that won, the best first, each on top of those before.

        A lever that gains much is a rung at once: what the others gain shows better in a step that is shorter.
        """
        waiting, winners = list(candidates), []
        while waiting:
            results = self.measure.race(self.stack, [one.name for one in waiting], _gains_much)
            winners += self._decided(waiting, results)
            waiting = [one for one in waiting if one.name not in results]
            much = [one for change, one in winners if change <= -_MUCH]
            for candidate in much:
                self._try(candidate)
            winners = [known for known in winners if known[1] not in much]
            if not much:
                break
        for candidate in waiting:
            self.reject(Rejected(candidate=candidate, why=Rejection.NO_TIME, kept=self.stack))
        for _, candidate in sorted(winners, key=lambda one: one[0]):
            self._try(candidate)

    def _decided(
        self, candidates: Sequence[LeverCandidate], results: Mapping[str, TrialResult]
    ) -> list[tuple[float, LeverCandidate]]:
        """Those that won, with what they change; the others are rejected."""
        winners = []
        for candidate in candidates:
            trial = results.get(candidate.name)
            if trial is None:
                continue
            self.raced[candidate.name] = self.stack, trial
            why = _why_not(trial)
            if why is not None:
                self.reject(Rejected(candidate=candidate, why=why, kept=self.stack, trial=trial))
            elif trial.decision is not None:
                winners.append((trial.decision.estimate.change, candidate))
        return winners

    def _try(self, candidate: LeverCandidate) -> None:
        """Time, then numbers, then memory."""
        stack, rival = self.stack, self._rival(candidate, self._kept())
        try:
            if rival is not None and self._is_beaten(candidate, rival):
                beaten = self.raced[candidate.name][1]
                rejected = Rejected(
                    candidate=candidate, why=Rejection.CONFLICT, kept=stack, trial=beaten, text=rival.name
                )
                self.reject(rejected)
                return
            replaced = rival.name if rival is not None else ""
            trial = self.measure.timed(stack, candidate.name, replaced)
            why = _why_not(trial)
            if why is not None:
                self.reject(Rejected(candidate=candidate, why=why, kept=stack, trial=trial))
                return
            self._prove(candidate, trial, replaced)
        except BudgetSpentError:
            self.reject(Rejected(candidate=candidate, why=Rejection.NO_TIME, kept=stack))

    def _try_together(self) -> None:
        """Those that promise something and are undecided, at once; first the numbers of each, so that it is named."""
        try:
            group = [one for one in self._promising() if self._is_right(one)]
            if len(group) < 2:
                return
            trial = self.measure.timed_together(self.stack, tuple(one.name for one in group))
            if _why_not(trial) is None:
                self._prove(group[0], trial, "", others=group[1:])
        except BudgetSpentError:
            return

    def _promising(self) -> list[LeverCandidate]:
        """Undecided, the best first; of two that exclude each other, the better one."""
        promised = [
            (rejected.trial.decision.estimate.change, rejected.candidate)
            for rejected in self.rejected.values()
            if rejected.why is Rejection.UNDECIDED and rejected.trial and rejected.trial.decision
            if not self.consent.is_semantic(rejected.candidate.lever)
            if rejected.trial.decision.estimate.change <= -rejected.trial.negligible
        ]
        group: list[LeverCandidate] = []
        for _, candidate in sorted(promised, key=lambda one: one[0]):
            if self._rival(candidate, (*self._kept(), *group)) is None:
                group.append(candidate)
        return group

    def _is_right(self, candidate: LeverCandidate) -> bool:
        """By its numbers; otherwise it is rejected for them."""
        rejected = self._wrong_numbers([candidate], self.rejected[candidate.name].trial, self._kept())
        if rejected is not None:
            self.reject(rejected)
        return rejected is None

    def _rival(self, candidate: LeverCandidate, others: Sequence[LeverCandidate]) -> LeverCandidate | None:
        """That cannot be together with it: of the same kind with another value, or in conflict."""
        kind = candidate.lever.kind
        for other in others:
            is_other_value = other.lever.kind.name == kind.name and kind.name not in _OF_MANY
            if is_other_value or other.lever.kind.name in kind.conflicts:
                return other
        return None

    def _is_beaten(self, candidate: LeverCandidate, rival: LeverCandidate) -> bool:
        """By what both gain on the same rungs, as far as blocks tell: processes would tell less."""
        nothing = (), None
        (my_rungs, mine), (other_rungs, other) = (self.raced.get(one.name, nothing) for one in (candidate, rival))
        if mine is None or other is None or mine.decision is None or other.decision is None:
            return False
        return my_rungs == other_rungs and other.decision.estimate.change <= mine.decision.estimate.change

    def _prove(
        self,
        candidate: LeverCandidate,
        trial: TrialResult | None,
        replaced: str,
        *,
        memory: MemoryTrial | None = None,
        others: Sequence[LeverCandidate] = (),
    ) -> None:
        """It is a rung, with the others, if its numbers are right and its memory is within the limit."""
        kept, added = [one for one in self._kept() if one.name != replaced], [candidate, *others]
        stack = tuple(one.name for one in (*kept, *added))
        peak_bytes, rejected = 0, self._wrong_numbers(added, trial, kept)
        if rejected is None:
            peak_bytes, rejected = self._peak_with(stack, candidate, trial)
        if rejected is not None:
            if not others:  # of several it is not known which one it is: each stays undecided
                self.reject(rejected)
            return
        numbers = None
        if not all(self.consent.is_semantic(one.lever) for one in added):
            numbers = self._numbers([*kept, *added]).numbers
        for one in added:
            self.rejected.pop(one.name, None)
        rung = Rung(
            candidate=candidate,
            trial=trial,
            numbers=numbers,
            peak_bytes=peak_bytes,
            replaced=replaced,
            alone=self._alone(candidate) if not others else None,
            memory=memory,
            others=tuple(others),
        )
        self.rungs.append(rung)
        self.told(rung)

    def _peak_with(
        self, stack: tuple[str, ...], candidate: LeverCandidate, trial: TrialResult | None
    ) -> tuple[int, Rejected | None]:
        """The memory of a process with this stack, and why the candidate is not kept for it."""
        rejected = Rejected(candidate=candidate, why=Rejection.MORE_MEMORY, kept=self.stack, trial=trial)
        peak_bytes = trial.after_peak_bytes if trial is not None else 0
        try:
            peak_bytes = peak_bytes or self.measure.peak(stack).peak_bytes
        except InputError as error:  # as whole processes do, what is switched on and off may leave some behind
            return 0, replace(rejected, why=Rejection.FAILED, text=str(error))
        limit = self.goal.memory_limit_bytes
        if limit and peak_bytes > limit and peak_bytes > self._peak_before():
            return peak_bytes, replace(rejected, text=str(peak_bytes))
        return peak_bytes, None

    def _alone(self, candidate: LeverCandidate) -> TrialResult | None:
        """What it changed without any rung; None where it is the first, or was not tried so."""
        rungs, trial = self.raced.get(candidate.name, ((), None))
        return trial if self.rungs and not rungs else None

    def _peak_before(self) -> int:
        return self.rungs[-1].peak_bytes if self.rungs else self.measure.start().peak_bytes

    def _wrong_numbers(
        self, added: Sequence[LeverCandidate], trial: TrialResult | None, kept: Sequence[LeverCandidate]
    ) -> Rejected | None:
        """Of these on all rungs; and alone, where a rung has lower precision, in which a mistake would not be seen."""
        if all(self.consent.is_semantic(one.lever) for one in added):
            return None
        looks = [[*kept, *added]]
        own, of_all = self.consent.claim(one.lever for one in added), self.consent.claim(one.lever for one in looks[0])
        if own != of_all:
            looks.insert(0, [*(one for one in kept if self.consent.is_semantic(one.lever)), *added])
        for stack in looks:
            answer = self._numbers(stack)
            if answer.numbers is None or not answer.numbers.holds:
                why = Rejection.UNCHECKED_NUMBERS if answer.numbers is None else Rejection.WRONG_NUMBERS
                return Rejected(
                    candidate=added[0],
                    why=why,
                    kept=self.stack,
                    trial=trial,
                    numbers=answer.numbers,
                    text=answer.error,
                )
        return None

    def _numbers(self, stack: Sequence[LeverCandidate]) -> Answer:
        semantic = tuple(one.name for one in stack if self.consent.is_semantic(one.lever))
        claimed = self.consent.claim(one.lever for one in stack)
        return self.measure.numbers(tuple(one.name for one in stack), semantic, claimed)

    def less_memory(self, candidates: Sequence[LeverCandidate]) -> None:
        for candidate in candidates:
            self._try_memory(candidate)
            if self.goal.memory_limit_bytes and self._peak_before() <= self.goal.memory_limit_bytes:
                return

    def _try_memory(self, candidate: LeverCandidate) -> None:
        """Memory, then numbers; what it costs in time is told."""
        stack = self.stack
        rival = self._rival(candidate, self._kept())
        if rival is not None:
            self.reject(Rejected(candidate=candidate, why=Rejection.CONFLICT, kept=stack, text=rival.name))
            return
        try:
            known = self.measure.memory(stack, (candidate.name,))
            if known.error:
                self.reject(
                    Rejected(candidate=candidate, why=Rejection.FAILED, kept=stack, memory=known, text=known.error)
                )
            elif not known.is_less:
                self.reject(Rejected(candidate=candidate, why=Rejection.NO_GAIN, kept=stack, memory=known))
            else:
                self._prove(candidate, None, "", memory=known)
        except BudgetSpentError:
            self.reject(Rejected(candidate=candidate, why=Rejection.NO_TIME, kept=stack))


def _gains_much(trial: TrialResult) -> bool:
    return _why_not(trial) is None and trial.decision is not None and trial.decision.estimate.change <= -_MUCH


def _why_not(trial: TrialResult) -> Rejection | None:
    """None where it is faster for certain."""
    by_stop = {
        Stopped.FAILED: Rejection.FAILED,
        Stopped.NOTHING_CHANGED: Rejection.NOTHING_CHANGED,
        Stopped.NO_GAIN: Rejection.NO_GAIN,
    }
    by_verdict = {TrialVerdict.SLOWER: Rejection.SLOWER, TrialVerdict.SAME: Rejection.NO_GAIN}
    if trial.stopped in by_stop:
        return by_stop[trial.stopped]
    if trial.decision is None:
        return Rejection.UNDECIDED
    if trial.decision.verdict is TrialVerdict.FASTER:
        return None if trial.decision.estimate.change <= -trial.negligible else Rejection.NO_GAIN
    return by_verdict.get(trial.decision.verdict, Rejection.UNDECIDED)
