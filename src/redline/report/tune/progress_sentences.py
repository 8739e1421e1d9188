"""What is said while a search goes on: its plan, what is being measured, and each lever as soon as it is decided."""

from collections.abc import Iterator, Sequence

from redline.report.language import _, clauses, listed
from redline.report.text_parts import percent
from redline.report.trial.sentences import numbers_sentence
from redline.report.tune.rejection_messages import changes_text, evidence, why
from redline.report.tune.sentences import seconds_text
from redline.tuning.candidates import LeverCandidate
from redline.tuning.trial_folder import Asked, Question
from redline.tuning.tune_result import Rejected, Rejection, Rung


def plan_lines(step_s: float, candidates: Sequence[LeverCandidate], budget_s: float) -> Iterator[str]:
    if step_s:
        yield _("a step takes {time} as it is").format(time=seconds_text(step_s))
    for label, group in (
        (_("in one process, switched on and off"), [one for one in candidates if one.is_switchable]),
        (_("in processes of their own"), [one for one in candidates if not one.is_switchable]),
    ):
        if group:
            yield _("{what}: {why}").format(what=label, why=listed(map(_candidate, group)))
    yield _("then all that is kept against the start; {minutes:.0f} minutes at most").format(minutes=budget_s / 60)


def _candidate(candidate: LeverCandidate) -> str:
    if not candidate.finding:
        return candidate.name
    return _("{lever} ({finding}: at most {share})").format(
        lever=candidate.name, finding=candidate.finding, share=percent(candidate.share)
    )


def asked_line(question: Question) -> str:
    levers = listed(question.levers)
    texts = {
        Asked.START: _("the job as it is"),
        Asked.TIME: _("{what} with {levers}").format(what=_("time"), levers=levers),
        Asked.NUMBERS: _("{what} with {levers}").format(what=_("numbers"), levers=levers),
        Asked.MEMORY: _("{what} with {levers}").format(what=_("memory"), levers=levers),
        Asked.PEAK: _("{what} with {levers}").format(what=_("memory"), levers=listed(question.kept)),
        Asked.WHOLE: _("all of it against the start: {levers}").format(levers=levers),
    }
    return texts[question.asked]


def told_line(outcome: Rung | Rejected) -> str:
    """What was decided; "" for what a user need not hear while the search goes on."""
    if isinstance(outcome, Rejected):
        if outcome.why is Rejection.NO_CONSENT:
            return ""
        said = clauses(filter(None, (why(outcome.why), evidence(outcome))))
        return _("not {lever}: {said}").format(lever=outcome.candidate.name, said=said)
    numbers = numbers_sentence(outcome.numbers).rstrip(".") if outcome.numbers else ""
    said = clauses(filter(None, (changes_text(outcome), numbers)))
    return _("kept {lever}: {said}").format(lever=outcome.name, said=said)
