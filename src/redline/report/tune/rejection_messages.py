"""Why levers were not kept, in a few words, and what shows it."""

from collections.abc import Iterable

from redline.numerics import Numerics
from redline.report.compare.sentences import signed
from redline.report.language import _, clauses, listed, marked
from redline.report.trial.sentences import class_name, signed_or_open, tensor_name
from redline.report.tune.ladder import measured, measured_memory
from redline.tuning.tune_result import Rejected, Rejection, Rung
from redline.units import format_bytes

_NAMES = {
    Rejection.NOTHING_CHANGED: marked("changed nothing"),
    Rejection.NO_GAIN: marked("no gain"),
    Rejection.SLOWER: marked("slower"),
    Rejection.UNDECIDED: marked("undecided"),
    Rejection.FAILED: marked("the job failed"),
    Rejection.WRONG_NUMBERS: marked("wrong numbers"),
    Rejection.UNCHECKED_NUMBERS: marked("numbers not proven"),
    Rejection.MORE_MEMORY: marked("too much memory"),
    Rejection.CONFLICT: marked("conflict"),
    Rejection.NO_CONSENT: marked("not allowed"),
    Rejection.NO_TIME: marked("no time left"),
}
_UNTRIED = (Rejection.NO_CONSENT, Rejection.NO_TIME)
# First what would have been faster, then what is broken, then what is not worth it.
_ORDER = (
    Rejection.WRONG_NUMBERS,
    Rejection.UNCHECKED_NUMBERS,
    Rejection.FAILED,
    Rejection.MORE_MEMORY,
    Rejection.UNDECIDED,
    Rejection.CONFLICT,
    Rejection.SLOWER,
    Rejection.NO_GAIN,
    Rejection.NOTHING_CHANGED,
    *_UNTRIED,
)


def why(rejection: Rejection) -> str:
    return _(_NAMES[rejection])


def was_tried(rejected: Rejected) -> bool:
    return rejected.why not in _UNTRIED and (rejected.why is not Rejection.CONFLICT or rejected.trial is not None)


def with_reasons(rejected: Iterable[Rejected]) -> list[Rejected]:
    """All but those that wait for consent or time, grouped by why."""
    return sorted((lever for lever in rejected if lever.why not in _UNTRIED), key=lambda lever: _ORDER.index(lever.why))


def evidence(rejected: Rejected) -> str:
    """What shows it: an interval, the first wrong tensor, an error; "" where there is nothing."""
    if rejected.why is Rejection.NOTHING_CHANGED:
        return _what_it_says(rejected) or rejected.text
    if rejected.why is Rejection.FAILED:
        return error_of(rejected)
    if rejected.why is Rejection.CONFLICT:
        rival = _("cannot be on together with {lever}").format(lever=rejected.text) if rejected.text else ""
        return clauses(filter(None, (rival, changes_text(rejected))))
    if rejected.why in (Rejection.WRONG_NUMBERS, Rejection.UNCHECKED_NUMBERS):
        return clauses(filter(None, (_numbers_text(rejected), changes_text(rejected))))
    if rejected.why is Rejection.MORE_MEMORY:
        return clauses(filter(None, (_peaks(rejected), changes_text(rejected))))
    return changes_text(rejected) or rejected.text


def error_of(rejected: Rejected) -> str:
    """The line that says it, without the command: the reader knows it."""
    trial, memory = rejected.trial, rejected.memory
    text = rejected.text or (trial.error if trial else "") or (memory.error if memory else "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[-1] if len(lines) > 2 else " ".join(lines)
    return said.removeprefix(f"{trial.after}: ") if trial else said


def _what_it_says(rejected: Rejected) -> str:
    outcomes = rejected.trial.levers if rejected.trial else ()
    return listed(outcome.what for outcome in outcomes if outcome.lever == rejected.candidate.name and not outcome.took)


def _numbers_text(rejected: Rejected) -> str:
    numbers = rejected.numbers
    if numbers is None or rejected.text:
        return rejected.text
    if numbers.first is not None:
        return _("first wrong in step {step}: {what}").format(
            step=numbers.first.key.step + 1, what=tensor_name(numbers.first)
        )
    return listed(numbers.notes) or class_name(numbers.verdict)


def changes_text(outcome: Rejected | Rung) -> str:
    """How time and memory changed, as far as they were measured."""
    parts = []
    if time := measured(outcome.trial):
        values = {"change": signed(time.change), "low": signed_or_open(time.low), "high": signed_or_open(time.high)}
        parts.append(_("time {change} (95 %: {low} to {high})").format(**values))
    if memory := measured_memory(outcome.memory):
        values = {"change": signed(memory.change), "low": signed(memory.low), "high": signed(memory.high)}
        parts.append(_("peak memory {change} (all runs: {low} to {high})").format(**values))
    return clauses(parts)


def _peaks(rejected: Rejected) -> str:
    """Of both ways, or of the one that is known; the search hands it on as a number of bytes."""
    trial = rejected.trial
    if rejected.text.isdecimal():
        return " ".join([_("peak memory"), format_bytes(int(rejected.text))])
    if trial is None or not trial.before_peak_bytes or not trial.after_peak_bytes:
        return rejected.text
    peaks = f"{format_bytes(trial.before_peak_bytes)} -> {format_bytes(trial.after_peak_bytes)}"
    return " ".join([_("peak memory"), peaks])


# --- what was not tried -----------------------------------------------------------------------------------------------


def untried_sentences(rejected: Iterable[Rejected]) -> list[str]:
    """Levers that were left out, each group in a sentence that says what would bring it in."""
    levers = list(rejected)
    lower: list[str] = []
    named: list[str] = []
    for lever in _of(levers, Rejection.NO_CONSENT):
        is_lower = lever.candidate.lever.kind.numerics is Numerics.LOWER_PRECISION
        (lower if is_lower else named).append(lever.candidate.name)
    late = [lever.candidate.name for lever in _of(levers, Rejection.NO_TIME)]
    said = []
    if lower:
        said.append(_("Lower precision: {levers}; `--allow lower-precision` tries them.").format(levers=listed(lower)))
    if named:
        said.append(
            _("Something else is computed: {levers}; `--allow NAME` tries one by its name.").format(
                levers=listed(named)
            )
        )
    if late:
        said.append(_("The time was spent: {levers}; a longer `--budget` tries them.").format(levers=listed(late)))
    return said


def _of(rejected: Iterable[Rejected], rejection: Rejection) -> list[Rejected]:
    return [lever for lever in rejected if lever.why is rejection]
