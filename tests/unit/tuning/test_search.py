"""The search for levers: what is kept, in which order, and why the rest is not; by a job whose gains are known."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from redline.capture.levers import parse_lever
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.judgement import CurveDifference
from redline.trials.paired_sequence import decide
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_result import Stopped, Timed, TimedPair, TrialResult
from redline.tuning.candidates import Consent, LeverCandidate
from redline.tuning.measurements import BudgetSpentError
from redline.tuning.search import Goal, search
from redline.tuning.trial_folder import Answer
from redline.tuning.tune_result import Ladder, Objective, Rejected, Rejection, Rung

WORTH = 0.02


def trial(change: float, *, pairs: int = 10, stopped: Stopped = Stopped.DECIDED, noise: float = 0.001) -> TrialResult:
    """Pairs that differ by this much, all alike but for the noise."""
    known = tuple(
        TimedPair(before_s=1.0, after_s=(1 + change) * (1 + noise * (-1) ** number)) for number in range(pairs)
    )
    decision = decide([pair.before_s for pair in known], [pair.after_s for pair in known], WORTH)
    return TrialResult(
        before="job",
        after="job with it",
        timed=Timed.STEP_IN_BLOCKS,
        stopped=stopped,
        decision=decision,
        pairs=known,
        negligible=WORTH,
    )


@dataclass
class KnownJob:
    """A job whose levers gain what is said here, each on top of what is kept."""

    gains: dict[str, float]
    together: dict[frozenset[str], float] = field(default_factory=dict)  # the last one on top of the others
    wrong: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    peaks: dict[str, int] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()  # undecided by itself
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def start(self) -> Answer:
        return Answer(peak_bytes=1000, step_s=1.0)

    def peak(self, stack: tuple[str, ...]) -> Answer:
        return Answer(peak_bytes=1000 + sum(self.peaks.get(lever, 0) for lever in stack))

    def _of(self, kept: tuple[str, ...], lever: str) -> TrialResult:
        self.asked.append((*kept, lever))
        if lever in self.failing:
            return TrialResult(
                before="job",
                after="job",
                timed=Timed.STEP_IN_BLOCKS,
                stopped=Stopped.FAILED,
                decision=None,
                pairs=(),
                error="it ended with 1",
            )
        change = self.together.get(frozenset((*kept, lever)), self.gains[lever])
        if lever in self.unclear:
            return trial(change, stopped=Stopped.PAIRS_SPENT, noise=0.2)
        return trial(change)

    def race(
        self, kept: tuple[str, ...], levers: list[str], is_enough: Callable[[TrialResult], bool]
    ) -> dict[str, TrialResult]:
        results = {}
        for lever in levers:
            if lever not in self.late:
                results[lever] = self._of(kept, lever)
                if is_enough(results[lever]):
                    break
        return results

    def timed(self, kept: tuple[str, ...], lever: str, replaced: str = "") -> TrialResult:
        if lever in self.late:
            raise BudgetSpentError
        return self._of(tuple(one for one in kept if one != replaced), lever)

    def timed_together(self, kept: tuple[str, ...], levers: tuple[str, ...]) -> TrialResult:
        self.asked.append((*kept, *levers))
        change = self.together.get(frozenset((*kept, *levers)), sum(self.gains[lever] for lever in levers))
        return trial(change, noise=0.2 if change > -0.1 else 0.001)

    def numbers(self, stack: tuple[str, ...], semantic: tuple[str, ...], claimed: Numerics) -> Answer:
        verdict = Numerics.SEMANTICS if set(stack) & set(self.wrong) else Numerics.REASSOCIATION
        return Answer(
            numbers=NumbersResult(
                claimed=claimed,
                verdict=verdict,
                structure=None,
                precision=None,
                curves=CurveDifference(loss=0.0, gradient_norm=0.0),
                steps=4,
                by_optimizer=True,
            )
        )

    def memory(self, kept: tuple[str, ...], levers: tuple[str, ...]) -> MemoryTrial:
        before, after = self.peak(kept).peak_bytes, self.peak((*kept, *levers)).peak_bytes
        return MemoryTrial(
            before_bytes=(before,) * 3, after_bytes=(after,) * 3, before_step_s=(1.0,), after_step_s=(1.0,)
        )

    def whole_memory(self, stack: tuple[str, ...]) -> MemoryTrial:
        return self.memory((), stack)

    def whole(self, stack: tuple[str, ...]) -> TrialResult:
        return trial(-0.5)


def climbed(job: KnownJob, *levers: str, consent: Consent | None = None, goal: Goal | None = None) -> Ladder:
    candidates = [LeverCandidate(lever=parse_lever(lever)) for lever in levers]
    told: list[Rung | Rejected] = []
    by_objective = dict.fromkeys(Objective, candidates)
    return search(job, by_objective, consent or Consent(), goal or Goal(), told.append)  # type: ignore[arg-type]


def reasons(ladder: Ladder) -> dict[str, Rejection]:
    return {rejected.candidate.name: rejected.why for rejected in ladder.rejected}


def test_the_best_lever_is_the_first_rung_and_others_are_tried_on_top_of_it() -> None:
    job = KnownJob({"fused": -0.1, "gc-freeze": -0.3, "workers=2": -0.2})
    ladder = climbed(job, "fused", "gc-freeze", "workers=2")
    assert ladder.levers == ("gc-freeze", "fused", "workers=2")
    assert ladder.whole is not None
    assert ("gc-freeze", "fused", "workers=2") in job.asked


def test_what_gains_much_is_kept_before_the_others_are_tried_on_the_shorter_step() -> None:
    job = KnownJob({"gc-freeze": -0.5, "fused": 0.0}, together={frozenset(("gc-freeze", "fused")): -0.1})
    assert climbed(job, "gc-freeze", "fused").levers == ("gc-freeze", "fused")
    assert ("fused",) not in job.asked


def test_a_lever_is_dropped_only_where_no_gain_is_possible_and_says_so() -> None:
    ladder = climbed(KnownJob({"fused": 0.0, "gc-freeze": 0.2}), "fused", "gc-freeze")
    assert ladder.levers == ()
    assert ladder.whole is None
    assert reasons(ladder) == {"fused": Rejection.NO_GAIN, "gc-freeze": Rejection.SLOWER}


def test_less_than_what_is_worth_it_is_no_gain_though_it_is_certain() -> None:
    assert reasons(climbed(KnownJob({"fused": -0.01}), "fused")) == {"fused": Rejection.NO_GAIN}


def test_wrong_numbers_are_never_kept_however_fast() -> None:
    ladder = climbed(KnownJob({"switch=fast": -0.9}, wrong=("switch=fast",)), "switch=fast",
                     consent=Consent(tried=("switch=fast",)))  # fmt: skip
    assert ladder.levers == ()
    assert reasons(ladder) == {"switch=fast": Rejection.WRONG_NUMBERS}


def test_a_lever_that_gains_nothing_alone_gets_another_chance_on_top() -> None:
    job = KnownJob({"fused": 0.0, "workers=2": -0.5}, together={frozenset(("workers=2", "fused")): -0.1})
    assert climbed(job, "fused", "workers=2").levers == ("workers=2", "fused")


def test_a_lever_that_gains_alone_and_nothing_on_top_is_not_kept() -> None:
    job = KnownJob(
        {"gc-freeze": -0.3, "zero-grad-none": -0.2}, together={frozenset(("gc-freeze", "zero-grad-none")): 0}
    )
    ladder = climbed(job, "gc-freeze", "zero-grad-none")
    assert ladder.levers == ("gc-freeze",)
    (rejected,) = ladder.rejected
    assert (rejected.why, rejected.kept) == (Rejection.NO_GAIN, ("gc-freeze",))


def test_of_two_that_exclude_each_other_the_better_one_is_kept() -> None:
    ladder = climbed(KnownJob({"fused": -0.3, "foreach": -0.1}), "foreach", "fused")
    assert ladder.levers == ("fused",)
    assert reasons(ladder) == {"foreach": Rejection.CONFLICT}


def test_another_value_of_a_kind_replaces_the_first_where_it_is_faster() -> None:
    job = KnownJob({"workers=2": -0.2, "workers=1": -0.1})
    ladder = climbed(job, "workers=2", "workers=1")
    assert ladder.rungs[1].replaced == "workers=2"
    assert ladder.levers == ("workers=1",)


@pytest.mark.parametrize("lever", ["fused", "workers=2"])
def test_a_job_that_fails_with_a_lever_names_it(lever: str) -> None:
    ladder = climbed(KnownJob({lever: -0.5}, failing=(lever,)), lever)
    assert reasons(ladder) == {lever: Rejection.FAILED}


@pytest.mark.parametrize("lever", ["fused", "workers=2"])
def test_what_there_was_no_time_for_is_named(lever: str) -> None:
    assert reasons(climbed(KnownJob({lever: -0.5}, late=(lever,)), lever)) == {lever: Rejection.NO_TIME}


def test_a_verdict_stays_where_there_is_no_time_to_try_again() -> None:
    class RacesOnce(KnownJob):
        def race(
            self, kept: tuple[str, ...], levers: list[str], is_enough: Callable[[TrialResult], bool]
        ) -> dict[str, TrialResult]:
            return {} if kept else super().race(kept, levers, is_enough)

    ladder = climbed(RacesOnce({"foreach": 0.3, "workers=2": -0.3}), "foreach", "workers=2")
    assert ladder.levers == ("workers=2",)
    assert reasons(ladder) == {"foreach": Rejection.SLOWER}


def test_levers_that_are_undecided_alone_are_proven_together() -> None:
    job = KnownJob({"fused": -0.05, "malloc-keep": -0.06, "gc-freeze": -0.3}, unclear=("fused", "malloc-keep"))
    ladder = climbed(job, "fused", "malloc-keep", "gc-freeze")
    assert ladder.levers == ("gc-freeze", "malloc-keep", "fused")
    assert [rung.name for rung in ladder.rungs] == ["gc-freeze", "malloc-keep + fused"]
    assert not ladder.rejected
    assert job.asked[-1] == ("gc-freeze", "malloc-keep", "fused")


def test_what_stays_undecided_together_is_not_kept() -> None:
    job = KnownJob({"fused": -0.04, "malloc-keep": -0.05}, unclear=("fused", "malloc-keep"))
    ladder = climbed(job, "fused", "malloc-keep")
    assert reasons(ladder) == {"fused": Rejection.UNDECIDED, "malloc-keep": Rejection.UNDECIDED}
    assert ("malloc-keep", "fused") in job.asked


def test_of_values_that_exclude_each_other_the_better_one_is_tried_with_the_rest() -> None:
    unclear = ("threads=1", "threads=2", "malloc-keep")
    job = KnownJob({"threads=1": -0.08, "threads=2": -0.04, "malloc-keep": -0.06}, unclear=unclear)
    ladder = climbed(job, *unclear)
    assert ladder.levers == ("threads=1", "malloc-keep")
    assert reasons(ladder) == {"threads=2": Rejection.UNDECIDED}


def test_a_wrong_one_among_the_undecided_is_named_and_not_tried_with_the_rest() -> None:
    job = KnownJob(
        {"fused": -0.07, "switch=wrong": -0.08, "malloc-keep": -0.06},
        wrong=("switch=wrong",),
        unclear=("fused", "switch=wrong", "malloc-keep"),
    )
    ladder = climbed(job, "fused", "switch=wrong", "malloc-keep", consent=Consent(tried=("switch=wrong",)))
    assert ladder.levers == ("fused", "malloc-keep")
    assert reasons(ladder) == {"switch=wrong": Rejection.WRONG_NUMBERS}


def test_what_is_wrong_together_alone_leaves_each_undecided() -> None:
    class WrongTogether(KnownJob):
        def numbers(self, stack: tuple[str, ...], semantic: tuple[str, ...], claimed: Numerics) -> Answer:
            self.wrong = stack if len(stack) > 1 else ()
            return super().numbers(stack, semantic, claimed)

    ladder = climbed(
        WrongTogether({"fused": -0.07, "malloc-keep": -0.06}, unclear=("fused", "malloc-keep")), "fused", "malloc-keep"
    )
    assert ladder.levers == ()
    assert reasons(ladder) == {"fused": Rejection.UNDECIDED, "malloc-keep": Rejection.UNDECIDED}


def test_lower_precision_waits_for_consent_and_other_semantics_for_their_name() -> None:
    job = KnownJob({"autocast=bf16": -0.5, "switch=fast": -0.5})
    asked = ("autocast=bf16", "switch=fast")
    assert set(reasons(climbed(job, *asked)).values()) == {Rejection.NO_CONSENT}
    consent = Consent(lower_precision=True, semantics=("switch=fast",))
    assert set(climbed(job, *asked, consent=consent).levers) == set(asked)


def test_a_lever_that_needs_more_memory_than_the_limit_is_not_kept() -> None:
    job = KnownJob({"fused": -0.5, "gc-freeze": -0.2}, peaks={"fused": 500})
    ladder = climbed(job, "fused", "gc-freeze", goal=Goal(memory_limit_bytes=1200))
    assert ladder.levers == ("gc-freeze",)
    assert reasons(ladder) == {"fused": Rejection.MORE_MEMORY}


def test_memory_is_brought_below_its_limit_before_time_is_looked_for() -> None:
    job = KnownJob({"checkpoint=blocks": 0.3, "fused": -0.5}, peaks={"checkpoint=blocks": -300})
    ladder = climbed(job, "checkpoint=blocks", "fused", goal=Goal(memory_limit_bytes=800))
    assert ladder.levers == ("checkpoint=blocks", "fused")
    assert ladder.rungs[0].memory is not None


def test_the_least_memory_is_looked_for_where_that_is_the_objective() -> None:
    job = KnownJob({"checkpoint=blocks": 0.3, "fused": -0.5}, peaks={"checkpoint=blocks": -300})
    ladder = climbed(job, "checkpoint=blocks", "fused", goal=Goal(objective=Objective.MEMORY))
    assert ladder.levers == ("checkpoint=blocks",)
    assert ladder.whole_memory is not None
    assert reasons(ladder) == {"fused": Rejection.NO_GAIN}
