"""What is said while a search goes on: its plan, what is being measured, and each lever as soon as it is decided."""

from collections.abc import Iterator, Sequence

from redline.report.language import _, clauses, listed, ngettext
from redline.report.text_parts import percent
from redline.report.trial.sentences import numbers_sentence
from redline.report.tune.ladder import measured, measured_memory
from redline.report.tune.rejection_messages import evidence, why
from redline.report.tune.sentences import gain_interval, seconds_text
from redline.tuning.candidates import LeverCandidate
from redline.tuning.trial_folder import Asked, Question
from redline.tuning.tune_result import Rejected, Rejection, Rung


def plan_lines(step_s: float, candidates: Sequence[LeverCandidate], budget_s: float) -> Iterator[str]:
    """The trials, in the order in which they come."""
    if step_s:
        yield _("a step takes {time} as it is").format(time=seconds_text(step_s))
    for label, group in (
        (_("in one process, switched on and off"), [one for one in candidates if one.is_switchable]),
        (_("in processes of their own"), [one for one in candidates if not one.is_switchable]),
    ):
        if group:
            count = ngettext("{count} lever", "{count} levers", len(group)).format(count=len(group))
            names = listed(_candidate(one) for one in group)
            yield _("{count} {how}: {names}").format(count=count, how=label, names=names)
    yield _("then all that is kept against the start; {minutes:.0f} minutes at most").format(minutes=budget_s / 60)


def _candidate(candidate: LeverCandidate) -> str:
    if not candidate.finding:
        return candidate.name
    return _("{lever} ({finding}: at most {share})").format(
        lever=candidate.name, finding=candidate.finding, share=percent(candidate.share)
    )


def asked_line(question: Question) -> str:
    """What is being measured."""
    levers = listed(question.levers)
    texts = {
        Asked.START: _("the job as it is"),
        Asked.TIME: _("the time with {levers}").format(levers=levers),
        Asked.NUMBERS: _("the numbers with {levers}").format(levers=levers),
        Asked.MEMORY: _("the memory with {levers}").format(levers=levers),
        Asked.PEAK: _("the memory with {levers}").format(levers=listed(question.kept)),
        Asked.WHOLE: _("all of it against the start: {levers}").format(levers=levers),
    }
    return texts[question.asked]


def _gains(rung: Rung) -> Iterator[str]:
    if time := measured(rung.trial):
        yield _("{change} less time (95 %: {interval})").format(
            change=percent(-time.change), interval=gain_interval(time)
        )
    if memory := measured_memory(rung.memory):
        yield _("{change} less memory (all runs: {interval})").format(
            change=percent(-memory.change), interval=gain_interval(memory)
        )


def told_line(outcome: Rung | Rejected) -> str:
    """What was decided; "" for what a user need not hear while the search goes on."""
    if isinstance(outcome, Rejected):
        if outcome.why is Rejection.NO_CONSENT:
            return ""
        said = clauses(filter(None, (why(outcome.why), evidence(outcome))))
        return _("not {lever}: {said}").format(lever=outcome.candidate.name, said=said)
    parts = list(_gains(outcome))
    parts += [numbers_sentence(outcome.numbers).rstrip(".")] if outcome.numbers else []
    return _("kept {lever}: {said}").format(lever=outcome.name, said=clauses(parts))
