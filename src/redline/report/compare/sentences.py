"""What a comparison says in words: its verdict, and what a reader has to know before believing it."""

from collections.abc import Iterator

from redline.report.compare.compare_result import CompareResult
from redline.report.language import _, listed
from redline.report.text_parts import percent
from redline.trials.recordings import BETWEEN_PROCESSES, LEAST_WORTH, Judgement, RecordingDifference
from redline.units import format_ns


def verdict_sentence(difference: RecordingDifference) -> str:
    values = {
        "before": format_ns(round(difference.step.before_ns)),
        "after": format_ns(round(difference.step.after_ns)),
        "change": percent(abs(difference.change)),
    }
    if difference.judgement is Judgement.PREDICTED:
        return _("A plan against a run: the average step is {before} before and {after} after.").format(**values)
    if difference.judgement is Judgement.FASTER:
        return _("Faster: the average step takes {after} instead of {before}, {change} less.").format(**values)
    if difference.judgement is Judgement.SLOWER:
        return _("Slower: the average step takes {after} instead of {before}, {change} more.").format(**values)
    if difference.change < 0:
        return _("Undecided: the average step takes {after} instead of {before}, {change} less.").format(**values)
    return _("Undecided: the average step takes {after} instead of {before}, {change} more.").format(**values)


def median_sentence(difference: RecordingDifference) -> str:
    """A few long steps move the average, and not the median."""
    before_ns, after_ns = difference.medians_ns
    return _("The median step takes {after} instead of {before}, {change}.").format(
        before=format_ns(round(before_ns)),
        after=format_ns(round(after_ns)),
        change=signed(after_ns / before_ns - 1 if before_ns else 0.0),
    )


def interval_sentence(difference: RecordingDifference) -> str:
    if difference.interval is None:
        return _("There are too few steps to say how much they spread.")
    low, high = difference.interval.low, difference.interval.high
    return _("By the spread of their own steps the change of the average is {low} to {high} (95 %).").format(
        low=signed(low), high=signed(high)
    )


def signed(ratio: float) -> str:
    return f"{100 * ratio:+.1f} %"


def doubts(result: CompareResult) -> Iterator[str]:
    """What weakens any conclusion, each once."""
    if result.difference.judgement is not Judgement.PREDICTED:
        yield _(
            "The recordings were not interleaved: two processes of one program differed by up to {most}, so a "
            "difference below {least} is no proof."
        ).format(most=percent(BETWEEN_PROCESSES), least=percent(float(LEAST_WORTH)))
    slowdowns = [found.captured.slowdown if found.captured else None for found in (result.before, result.after)]
    known = [slowdown for slowdown in slowdowns if slowdown is not None]
    if known and max(known) > 1.1:
        yield _("Recording made steps up to {times:.2f} x as long, and not each account alike.").format(
            times=max(known)
        )
    if result.difference.context:
        names = listed(row.what for row in result.difference.context)
        yield _("The change is not all that differs: {names}.").format(names=names)
