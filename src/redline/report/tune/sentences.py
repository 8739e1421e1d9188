"""What a search says in words: its verdict, what weakens it, and what limits the job now."""

from collections import Counter
from collections.abc import Iterator

from redline.report.compare.sentences import signed
from redline.report.language import _, clauses, listed, ngettext, sentences
from redline.report.text_parts import percent
from redline.report.trial.sentences import doubts as trial_doubts
from redline.report.trial.sentences import extent_sentence, instead, numbers_sentence, verdict_sentence
from redline.report.tune.ladder import LadderRows, LadderTime, MeasuredChange
from redline.report.tune.rejection_messages import was_tried, why, with_reasons
from redline.tuning.tune_result import Objective, TuneResult
from redline.units import format_bytes, format_ns


def headline(result: TuneResult, rows: LadderRows) -> str:
    if not rows.rungs:
        return _("No lever was proven better with correct numbers.")
    if rows.is_proven:
        return sentences([_gain_sentence(result, rows), numbers_verdict(result)])
    return sentences([_unproven_sentence(result, rows), numbers_verdict(result)])


def _gain_sentence(result: TuneResult, rows: LadderRows) -> str:
    by_memory = result.objective is Objective.MEMORY
    whole = rows.whole or rows.start
    after, before = (amount_text(result.objective, row.amount) for row in (whole, rows.start))
    name = _("peak memory") if by_memory else time_name(rows.timed)
    return sentences([_whole_verdict(result, rows), instead(name, after, before, _("medians"))])


def _unproven_sentence(result: TuneResult, rows: LadderRows) -> str:
    count = len(result.ladder.levers)
    kept = ngettext(
        "Not proven: {count} lever was kept, but the whole against the start is not certain to be better.",
        "Not proven: {count} levers were kept, but the whole against the start is not certain to be better.",
        count,
    ).format(count=count)
    return sentences([kept, _whole_verdict(result, rows)])


def _whole_verdict(result: TuneResult, rows: LadderRows) -> str:
    if rows.whole and rows.whole.change and result.objective is Objective.MEMORY:
        change = rows.whole.change
        return _("The peak memory changes by {change} (all runs: {low} to {high}).").format(
            change=signed(change.change), low=signed(change.low), high=signed(change.high)
        )
    if result.objective is Objective.MEMORY or result.ladder.whole is None:
        return _("It was not measured: the search ended before.")
    return verdict_sentence(result.ladder.whole)


def numbers_verdict(result: TuneResult) -> str:
    """On all rungs together; "" without a rung."""
    if not result.ladder.rungs:
        return ""
    agreed = [rung.candidate.name for rung in result.ladder.rungs if rung.numbers is None]
    checked = [numbers_sentence(rung.numbers) for rung in result.ladder.rungs if rung.numbers is not None]
    if not agreed:
        return checked[-1]
    others = _("With {levers} the numbers are others, as you allowed.").format(levers=listed(agreed))
    return sentences([others, *checked[-1:]])


def numbers_extent(result: TuneResult) -> str:
    """How much was compared; "" where nothing was."""
    numbers = next((rung.numbers for rung in reversed(result.ladder.rungs) if rung.numbers), None)
    judged = (numbers.structure or numbers.precision) if numbers else None
    return extent_sentence(judged, numbers.steps) if judged and numbers else ""


# --- beside the verdict -----------------------------------------------------------------------------------------------


def doubts(result: TuneResult, rows: LadderRows) -> Iterator[str]:
    """What weakens the verdict, each once."""
    if rows.disagrees and rows.promised and rows.whole and rows.whole.change:
        yield _(
            "The rungs do not add up: one by one they promise {promised}, all together measured afresh give {whole}. "
            "The fresh figure counts."
        ).format(promised=signed(rows.promised.change), whole=signed(rows.whole.change.change))
    if rows.drift:
        first = result.start_peak_bytes if result.objective is Objective.MEMORY else result.start_step_s
        yield _(
            "The start was {first} when the search began and {last} at its end. "
            "Gains are of neighbours in time; the ladder is drawn from the later figure."
        ).format(first=amount_text(result.objective, first), last=amount_text(result.objective, rows.start.amount))
    if result.ladder.whole:
        yield from trial_doubts(result.ladder.whole)


def beside(result: TuneResult, rows: LadderRows) -> list[str]:
    return [memory_sentence(result, rows), numbers_extent(result), effort_sentence(result)]


def memory_sentence(result: TuneResult, rows: LadderRows) -> str:
    """What the levers do to the other thing: memory where time was the objective, and the reverse; "" if unknown."""
    if rows.whole is None:
        return ""
    start, whole = rows.start, rows.whole
    if result.objective is Objective.MEMORY:
        if not start.step_s or not whole.step_s:
            return ""
        change = signed(whole.step_s / start.step_s - 1)
        return instead(_("step"), seconds_text(whole.step_s), seconds_text(start.step_s), change)
    if not whole.peak_bytes or not start.peak_bytes:
        return ""
    told = [signed(whole.peak_bytes / start.peak_bytes - 1)]
    if result.memory_limit_bytes:
        told.append(_("limit {limit}").format(limit=format_bytes(result.memory_limit_bytes)))
    return instead(_("peak memory"), format_bytes(whole.peak_bytes), format_bytes(start.peak_bytes), clauses(told))


def limiting_sentences(result: TuneResult) -> list[tuple[str, str]]:
    if not result.ladder.rungs:
        limiting = result.limiting_now or result.limiting_before
        return [(_("limit"), limiting)] if limiting else []
    labels = ((_("limit now"), result.limiting_now), (_("before"), result.limiting_before))
    return [(label, text) for label, text in labels if text]


def effort_sentence(result: TuneResult) -> str:
    tested = [lever for lever in with_reasons(result.ladder.rejected) if was_tried(lever)]
    count = len(tested) + len(result.ladder.rungs)
    text = ngettext("{count} lever was tried in {spent}.", "{count} levers were tried in {spent}.", count)
    spent = text.format(count=count, spent=_spent(result))
    if result.ladder.rungs or not tested:
        return spent
    counted = Counter(lever.why for lever in tested)
    groups = listed(
        _("{title} ({count})").format(title=why(rejection), count=number) for rejection, number in counted.items()
    )
    return sentences([spent, _("Why none was kept: {groups}.").format(groups=groups)])


def _spent(result: TuneResult) -> str:
    return _("{spent:.1f} of {budget:.1f} minutes").format(spent=result.spent_s / 60, budget=result.budget_s / 60)


# --- amounts ----------------------------------------------------------------------------------------------------------


def gain_interval(change: MeasuredChange) -> str:
    """58.0 % to 62.0 %: how much less."""
    return _("{low} to {high}").format(
        low=percent(-change.high) if change.high != float("inf") else _("any"),
        high=percent(-change.low) if change.low > -1 else _("any"),
    )


def amount_text(objective: Objective, amount: float) -> str:
    return format_bytes(round(amount)) if objective is Objective.MEMORY else seconds_text(amount)


def time_name(timed: LadderTime) -> str:
    names = {
        LadderTime.STEP: _("step"),
        LadderTime.BATCH: _("batch of the start"),
        LadderTime.COMMAND: _("whole command"),
    }
    return names[timed]


def seconds_text(time_s: float) -> str:
    return format_ns(round(1e9 * time_s))
