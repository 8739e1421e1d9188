"""Answers the questions of a search by trials of the real job, or from its folder where they have been answered."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from redline.capture.levers import parse_lever
from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.check import check_numbers
from redline.trials.numbers.recorded_runs import NumbersReference
from redline.trials.trial_jobs import MemoryTrial, TrialJobs, try_commands, try_memory
from redline.trials.trial_pairs import TrialOptions
from redline.trials.trial_result import Stopped, Timed, TrialResult
from redline.trials.try_levers import try_lever, try_levers
from redline.tuning.trial_folder import Answer, Asked, Question, TrialFolder

_BATCH = "batch-times"
_RESERVED = 0.15  # of the budget, for the trial of all that was kept
NUMBERS = "numbers"  # folder of the runs whose numbers were recorded


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How much may be spent, and what counts."""

    budget_s: float = 1200.0
    worth: float = 0.02  # of the step: what gains less is not kept
    most_pairs: int = 60  # of a lever
    unpromising_pairs: int = 20  # of one that does not look as if it gained anything
    process_pairs: int = 24  # where processes are compared
    unpromising_process_pairs: int = 12
    process_steps: int = 30
    stall_s: float = 180.0  # without a step, after which a job hangs
    trial_s: float = 300.0  # of one trial at most
    allow_writes: bool = False


class BudgetSpentError(Exception):
    """There is no time left for another trial; the search goes on without it."""


class _RaceOverError(Exception):
    """The levers that follow are not tried now."""


def work_of(levers: Sequence[str]) -> int:
    """How many batches of the start a step with these levers takes."""
    known = [parse_lever(lever) for lever in levers if lever]
    return prod(int(lever.value) for lever in known if lever.kind.name == _BATCH)


class TrialMeasurements:
    """Of one job."""

    def __init__(
        self, command: TrialCommand, folder: TrialFolder, options: TuneOptions, asked: Callable[[Question], None]
    ) -> None:
        self._command = command
        self._folder = folder
        self._options = options
        self._asked = asked  # told before something is measured
        self._references: dict[tuple[str, ...], NumbersReference] = {}
        self._started_s = time.perf_counter()
        self._left_processes: int | None = None  # that the job leaves behind as it is

    @property
    def spent_s(self) -> float:
        return time.perf_counter() - self._started_s

    def start(self) -> Answer:
        """Of the job as it is."""
        known = self._peak(Question(asked=Asked.START))
        self._left_processes = known.left_processes
        return known

    def peak(self, stack: tuple[str, ...]) -> Answer:
        """Memory of the job with these levers; one process."""
        return self._peak(Question(asked=Asked.PEAK, kept=stack))

    def race(
        self, kept: tuple[str, ...], levers: Sequence[str], is_enough: Callable[[TrialResult], bool] = lambda _: False
    ) -> dict[str, TrialResult]:
        """Each of these levers, all of which can be switched, on top of those that are kept, in one process.

        Levers for which there was no time are missing, and those after one that was enough.
        """
        questions = {lever: Question(asked=Asked.TIME, kept=kept, levers=(lever,)) for lever in levers}
        results: dict[str, TrialResult] = {}
        for lever, question in questions.items():
            known = self._folder.known(question)
            if known is not None and known.trial is not None:
                results[lever] = known.trial
                if is_enough(known.trial):
                    return results
        new = [lever for lever in levers if lever not in results]
        if new and self._left_s() > 0:
            self._race(kept, new, questions, is_enough)
        answers = {lever: self._folder.known(question) for lever, question in questions.items()}
        return {lever: answer.trial for lever, answer in answers.items() if answer and answer.trial}

    def _race(
        self,
        kept: tuple[str, ...],
        levers: Sequence[str],
        questions: dict[str, Question],
        is_enough: Callable[[TrialResult], bool],
    ) -> None:
        def told(lever: str, result: TrialResult) -> None:
            known = result if result.stopped is not Stopped.TOO_SHORT else self._in_processes(kept, (lever,))
            self._folder.keep(questions[lever], Answer(trial=known))
            if self._left_s() <= 0 or is_enough(known):
                raise _RaceOverError
            following = levers[levers.index(lever) + 1 :]
            if following:
                self._asked(questions[following[0]])

        self._asked(questions[levers[0]])
        try:
            try_levers(replace(self._command, kept=kept, levers=tuple(levers)), self._trial_options(), told)
        except _RaceOverError:
            return

    def timed(self, kept: tuple[str, ...], lever: str, replaced: str = "") -> TrialResult:
        """One lever on top of those that are kept. BudgetSpentError where there is no time for it."""
        if parse_lever(lever).kind.switchable and not replaced:
            results = self.race(kept, [lever])
            if lever not in results:
                raise BudgetSpentError("no time is left")
            return results[lever]
        question = Question(asked=Asked.TIME, kept=kept, levers=(lever,), replaced=replaced)
        answer = self._answer(question, lambda: Answer(trial=self._in_processes(kept, (lever,), replaced)))
        assert answer.trial is not None
        return answer.trial

    def timed_together(self, kept: tuple[str, ...], levers: tuple[str, ...]) -> TrialResult:
        """Several levers at once on top of those that are kept. BudgetSpentError where there is no time for it."""
        question = Question(asked=Asked.TIME, kept=kept, levers=levers)
        answer = self._answer(question, lambda: Answer(trial=self._at_once(kept, levers, self._trial_options())))
        assert answer.trial is not None
        return answer.trial

    def numbers(self, stack: tuple[str, ...], semantic: tuple[str, ...], claimed: Numerics) -> Answer:
        """Of the job with all of the stack against that with its semantic levers only, to which the user agreed."""

        def check() -> Answer:
            try:
                reference = self._reference(semantic)
                candidate = replace(self._command, levers=stack)
                return Answer(numbers=check_numbers(reference, candidate, claimed=claimed))
            except InputError as error:
                return Answer(error=str(error))

        return self._answer(Question(asked=Asked.NUMBERS, kept=semantic, levers=stack), check)

    def memory(self, kept: tuple[str, ...], levers: tuple[str, ...]) -> MemoryTrial:
        """Some processes each way. BudgetSpentError where there is no time for it."""
        return self._memory(kept, levers, is_last=False)

    def whole_memory(self, stack: tuple[str, ...]) -> MemoryTrial:
        """Of all that is kept against the start."""
        return self._memory((), stack, is_last=True)

    def _memory(self, kept: tuple[str, ...], levers: tuple[str, ...], *, is_last: bool) -> MemoryTrial:
        before, after = replace(self._command, kept=kept), replace(self._command, kept=kept, levers=levers)

        def measured() -> Answer:
            try:
                return Answer(memory=try_memory(before, after, self._trial_options(is_last=is_last)))
            except InputError as error:
                failed = MemoryTrial(
                    before_bytes=(), after_bytes=(), before_step_s=(), after_step_s=(), error=str(error)
                )
                return Answer(memory=failed)

        question = Question(asked=Asked.MEMORY, kept=kept, levers=levers)
        answer = self._answer(question, measured, is_last=is_last)
        assert answer.memory is not None
        return answer.memory

    def whole(self, stack: tuple[str, ...]) -> TrialResult:
        """All that is kept against the start, on pairs of their own: a search picks what was lucky, too."""
        options = replace(self._trial_options(is_last=True), unpromising_pairs=None, gains_only=False)
        question = Question(asked=Asked.WHOLE, levers=stack)
        answer = self._answer(question, lambda: Answer(trial=self._at_once((), stack, options)), is_last=True)
        assert answer.trial is not None
        return answer.trial

    def _at_once(self, kept: tuple[str, ...], levers: tuple[str, ...], options: TrialOptions) -> TrialResult:
        """In blocks where all of them can be switched, as blocks tell more than processes do."""
        if all(parse_lever(lever).kind.switchable for lever in levers):
            try:
                return try_lever(replace(self._command, kept=kept, levers=levers), options)
            except InputError:  # such as too few steps for blocks
                pass
        return self._in_processes(kept, levers, options=options)

    def _peak(self, question: Question) -> Answer:
        def measured() -> Answer:
            options = self._trial_options()
            command = replace(self._command, levers=question.kept)
            run = TrialJobs(options).run(command, time.perf_counter() + options.max_time_s)
            if run is None:
                raise InputError(
                    f"{command.with_levers}: it did not take {options.steps} steps in {options.max_time_s:.0f} s"
                )
            return Answer(peak_bytes=run.peak_bytes, step_s=run.step_s or 0.0, left_processes=run.left_processes)

        return self._answer(question, measured)

    def _answer(self, question: Question, measure: Callable[[], Answer], *, is_last: bool = False) -> Answer:
        known = self._folder.known(question)
        if known is not None:
            return known
        if self._left_s() <= 0 and not is_last:
            raise BudgetSpentError("no time is left")
        self._asked(question)
        return self._folder.keep(question, measure())

    def _in_processes(
        self, kept: tuple[str, ...], levers: tuple[str, ...], replaced: str = "", options: TrialOptions | None = None
    ) -> TrialResult:
        before = replace(self._command, kept=kept)
        after = replace(self._command, kept=tuple(lever for lever in kept if lever != replaced), levers=levers)
        chosen = options or replace(
            self._trial_options(),
            pairs=self._options.process_pairs,
            unpromising_pairs=self._options.unpromising_process_pairs,
        )
        chosen = replace(chosen, after_work=work_of(levers) / work_of((replaced,)))
        started_s = time.perf_counter()
        try:
            return try_commands(before, after, chosen)
        except InputError as error:
            is_late = time.perf_counter() - started_s >= chosen.max_time_s
            return TrialResult(
                before=str(before),
                after=after.with_levers,
                timed=Timed.STEP_OF_PROCESS,
                stopped=Stopped.TIME_SPENT if is_late else Stopped.FAILED,
                decision=None,
                pairs=(),
                error=str(error),
            )

    def _reference(self, semantic: tuple[str, ...]) -> NumbersReference:
        if semantic not in self._references:
            folder = self._folder.path / NUMBERS / f"reference-{len(self._references) + 1}"
            shutil.rmtree(folder, ignore_errors=True)  # of a search that was ended
            self._references[semantic] = NumbersReference(
                replace(self._command, levers=semantic), folder, allow_writes=self._options.allow_writes
            )
        return self._references[semantic]

    def _left_s(self) -> float:
        """For all but the last trials."""
        return (1 - _RESERVED) * self._options.budget_s - self.spent_s

    def _trial_options(self, *, is_last: bool = False) -> TrialOptions:
        """The last trial may take what it needs beyond the budget, within a trial's own limit: it is the proof."""
        options = self._options
        left_s = options.trial_s if is_last else max(min(options.trial_s, self._left_s()), 30.0)
        return TrialOptions(
            pairs=options.most_pairs,
            unpromising_pairs=options.unpromising_pairs,
            max_time_s=left_s,
            steps=options.process_steps,
            allow_writes=options.allow_writes,
            negligible=options.worth,
            gains_only=True,
            stall_s=options.stall_s,
            left_processes=self._left_processes,
        )
