"""What a trial says in words: its verdict, how it was measured, what to know before believing it, and its numbers."""

from collections.abc import Iterator
from math import isfinite
from statistics import median

from redline.numerics import Numerics
from redline.report.compare.sentences import signed
from redline.report.language import _, marked, ngettext, sentences
from redline.report.text_parts import capital, percent
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.judgement import LIMIT, NumbersJudgement, TensorDeviation
from redline.trials.paired_sequence import USUAL_PAIRS, PairedEstimate, TrialVerdict
from redline.trials.trial_pairs import BUSY
from redline.trials.trial_result import Stopped, Timed, TrialResult
from redline.units import format_ns

_SOME_MINUTES_S = 120


def verdict_sentence(trial: TrialResult) -> str:
    if trial.decision is None or trial.stopped in (Stopped.NOTHING_CHANGED, Stopped.FAILED):
        return _unmeasured_sentence(trial)
    known = trial.decision.estimate
    values = {"change": percent(abs(known.change)), "interval": interval_of(known)}
    if trial.decision.verdict is TrialVerdict.FASTER:
        return _("Faster: {change} less time ({interval}).").format(**values)
    if trial.decision.verdict is TrialVerdict.SLOWER:
        return _("Slower: {change} more time ({interval}).").format(**values)
    if trial.decision.verdict is TrialVerdict.SAME:
        return _("No measurable change: less than {limit} either way ({interval}).").format(
            limit=percent(trial.negligible), **values
        )
    if known.high == float("inf"):
        return _not_yet(trial)
    return _("Undecided: the change of the time is between {low} and {high}.").format(
        low=signed_or_open(known.low), high=signed(known.high)
    )


def _not_yet(trial: TrialResult) -> str:
    """So few pairs bound nothing: how long it takes, by those that were timed."""
    pairs = len(trial.pairs)
    text = ngettext(
        "Not yet measurable: {pairs} pair in {spent}; allow about {needed}.",
        "Not yet measurable: {pairs} pairs in {spent}; allow about {needed}.",
        pairs,
    )
    needed_s = trial.wall_s * USUAL_PAIRS / max(pairs, 1)
    return text.format(pairs=pairs, spent=_roughly(trial.wall_s), needed=_roughly(needed_s))


def _roughly(seconds: float) -> str:
    if seconds < _SOME_MINUTES_S:
        return _("{seconds:,} s").format(seconds=max(round(seconds), 1))
    return _("{minutes:,} minutes").format(minutes=round(seconds / 60))


def _unmeasured_sentence(trial: TrialResult) -> str:
    if trial.stopped is Stopped.NOTHING_CHANGED:
        return sentences(_untaken(trial))
    if trial.stopped is Stopped.FAILED:
        return _("The job failed with it: {error}").format(error=trial.error)
    return _not_yet(trial)


def interval_of(known: PairedEstimate) -> str:
    return _("95 %: {low} to {high}").format(low=signed_or_open(known.low), high=signed_or_open(known.high))


def signed_or_open(ratio: float) -> str:
    """A bound of the interval, as far as there is one."""
    return _("any") if ratio in (float("inf"), float("-inf")) or ratio <= -1 else signed(ratio)


def _untaken(trial: TrialResult) -> Iterator[str]:
    for outcome in trial.levers:
        if not outcome.took:
            yield _("{lever} changed nothing: {why}.").format(lever=outcome.lever, why=outcome.what)


def instead(what: str, after: str, before: str, how: str) -> str:
    """An amount before and after, with what there is to say of it."""
    text = _("{what}: {after} instead of {before} ({how}).")
    return text.format(what=capital(what), after=after, before=before, how=how)


def times_sentence(trial: TrialResult) -> str:
    before_ns, after_ns = (
        round(1e9 * median(times))
        for times in zip(*((pair.before_s, pair.after_s) for pair in trial.pairs), strict=True)
    )
    names = {Timed.WHOLE_PROCESS: _("whole command"), Timed.CALLS: _("call")}
    return instead(names.get(trial.timed, _("step")), format_ns(after_ns), format_ns(before_ns), _("medians"))


def effort_sentence(trial: TrialResult) -> str:
    pairs = len(trial.pairs)
    if trial.timed in (Timed.STEP_IN_BLOCKS, Timed.CALLS):
        text = ngettext(
            "{pairs} pair of {count} each way, in short turns and random order.",
            "{pairs} pairs of {count} each way, in short turns and random order.",
            pairs,
        )
        return text.format(pairs=pairs, count=trial.block_steps)
    text = ngettext(
        "{pairs} pair of processes in random order.", "{pairs} pairs of processes in random order.", pairs
    ).format(pairs=pairs)
    counted = _("{steps} steps of each counted.").format(steps=trial.block_steps) if trial.block_steps else ""
    return sentences([text, counted])


def stop_sentence(trial: TrialResult) -> str:
    spent = {Stopped.PAIRS_SPENT: "--pairs", Stopped.TIME_SPENT: "--max-time"}
    if trial.stopped in spent:
        text = _("It ended as all that it was given was spent; more (`{option}`) narrows the interval.")
        return text.format(option=spent[trial.stopped])
    if trial.stopped is Stopped.NO_GAIN:
        return _("It ended as soon as the interval had no gain of {limit} in it.").format(
            limit=percent(trial.negligible)
        )
    return _("It ended as soon as the interval had decided.")


def cpu_sentence(trial: TrialResult) -> str:
    """The second witness; "" where there is none."""
    if trial.cpu is None:
        return ""
    known = trial.cpu.estimate
    return _("By CPU time of whole processes the change is {change} ({interval}).").format(
        change=signed(known.change), interval=interval_of(known)
    )


def doubts(trial: TrialResult) -> Iterator[str]:
    """What weakens any conclusion, each once."""
    if trial.others_share is not None and trial.others_share > BUSY:
        yield _("The machine was not quiet: other processes used {share} of its CPUs meanwhile.").format(
            share=percent(trial.others_share)
        )
    if trial.stopped is not Stopped.NOTHING_CHANGED:
        yield from _untaken(trial)


def headline(trial: TrialResult | None, numbers: NumbersResult | None) -> str:
    said = [verdict_sentence(trial)] if trial else []
    return sentences([*said, *([numbers_sentence(numbers)] if numbers else [])])


def everything(trial: TrialResult | None, numbers: NumbersResult | None) -> list[str]:
    """All sentences, the verdict on the time first."""
    timed = [verdict_sentence(trial), *all_sentences(trial)] if trial else []
    return [*timed, *(numbers_sentences(numbers) if numbers else ())]


def all_sentences(trial: TrialResult) -> Iterator[str]:
    """All about the time but its verdict, in order."""
    if trial.pairs:
        yield times_sentence(trial)
        yield effort_sentence(trial)
        yield stop_sentence(trial)
        if cpu := cpu_sentence(trial):
            yield cpu
    yield from doubts(trial)


# --- numbers ----------------------------------------------------------------------------------------------------------

_HOLDS = {
    Numerics.BITWISE: marked("The numbers are the same, bit for bit."),
    Numerics.REASSOCIATION: marked("The numbers are right: they differ by no more than sums in another order."),
    Numerics.LOWER_PRECISION: marked("The numbers are right for lower precision."),
}
_KINDS = {
    "loss": marked("the loss"),
    "activation": marked("the output of {name}"),
    "gradient": marked("the gradient of {name}"),
    "unclipped gradient": marked("the gradient of {name} before clipping"),
    "start": marked("the initial value of {name}"),
    "dropout": marked("the dropout of {name}"),
    "movement": marked("the updates of {name}"),
}


def numbers_sentence(result: NumbersResult) -> str:
    if result.verdict is Numerics.SEMANTICS:
        return _("The numbers are wrong: the change computes something else.")
    if not result.holds:
        return _("The numbers are not as claimed: {verdict} instead of {claimed}.").format(
            verdict=class_name(result.verdict), claimed=class_name(result.claimed)
        )
    return _(_HOLDS[result.verdict])


def class_name(numerics: Numerics) -> str:
    names = {
        Numerics.BITWISE: _("the same bits"),
        Numerics.REASSOCIATION: _("sums in another order"),
        Numerics.LOWER_PRECISION: _("lower precision"),
        Numerics.SEMANTICS: _("something else"),
    }
    return names[numerics]


def first_sentence(first: TensorDeviation) -> str:
    values = {
        "what": tensor_name(first),
        "step": first.key.step + 1,
        "deviating": first.deviating,
        "compared": first.compared,
    }
    text = _("First seen in step {step}: {what} ({deviating} of {compared} such tensors deviate).").format(**values)
    return f"{text} {_how(first)}".rstrip()


def tensor_name(first: TensorDeviation) -> str:
    name = f"`{first.key.name}`" if first.key.name else _("the model")
    return _(_KINDS.get(first.key.kind, "{name}")).format(name=name)


def _how(first: TensorDeviation) -> str:
    difference = first.difference
    if not isfinite(difference.gain):
        return ""
    values = {"gain": f"{difference.gain:.3f}", "score": f"{first.score:.3g}"}
    if first.same_direction:
        return _("It is {gain} x as large, in the same direction; {score} x its floor.").format(**values)
    return _("{score} x its floor, in another direction.").format(**values)


def extent_sentence(judged: NumbersJudgement, steps: int) -> str:
    return _(
        "{compared} tensors of {steps} steps were compared; the largest is {score} x its floor (limit {limit})."
    ).format(compared=judged.compared, steps=steps, score=f"{judged.score:.2g}", limit=f"{LIMIT:g}")


def numbers_sentences(result: NumbersResult) -> Iterator[str]:
    yield numbers_sentence(result)
    if result.first is not None:
        yield first_sentence(result.first)
    judged = result.structure or result.precision
    if judged is not None and result.first is None:
        yield extent_sentence(judged, result.steps)
    yield from result.notes
