"""The chart of a trial: every pair as a dot, and what they say together."""

from math import ceil, floor, log10
from typing import Any

from redline.report.document import PageBlock, Paragraph, Section, TemplateDrawing
from redline.report.language import _
from redline.report.trial.sentences import signed_or_open
from redline.trials.trial_result import TrialResult

_LEAST_SPAN = 0.02  # of the time: a chart of less would make noise look like much
_MARGIN = 0.06  # of the chart, above and below
_MOST_TICKS = 6


def pairs_section(trial: TrialResult, *said: str) -> Section:
    """Of a page; without a block where there is no pair."""
    chart = pairs_chart(trial)
    about = _(
        "Change of the time in the order in which the pairs ran; above 0: more time with the change. Dashed: the "
        "estimate; the band is its 95 % interval."
    )
    blocks: list[PageBlock] = []
    if chart is not None:
        blocks += [Paragraph(text=text) for text in (*said, about)]
        blocks.append(TemplateDrawing(template="pairs_chart.html.j2", values={"chart": chart}))
    link = _("Pairs") if blocks else ""
    return Section(name="pairs", link=link, title=_("Every pair"), blocks=tuple(blocks), style="panel")


def pairs_chart(trial: TrialResult) -> dict[str, Any] | None:
    """Every pair by its order (across), its change (down) and what it is; the estimate with its interval. In percent of
    the drawing; None without a pair."""
    if trial.decision is None:
        return None
    changes = [pair.after_s / pair.before_s - 1 for pair in trial.pairs]
    known = trial.decision.estimate
    bounds = [bound for bound in (known.low, known.high) if abs(bound) < 1]
    shown = [0.0, known.change, *bounds, *_without_extremes(changes)]
    middle, span = (max(shown) + min(shown)) / 2, max(max(shown) - min(shown), _LEAST_SPAN)

    def down(change: float) -> float:
        share = max(-0.5, min(0.5, (change - middle) / span))
        return round(100 * (0.5 - share * (1 - 2 * _MARGIN)), 2)

    across = 100 / len(changes)
    return {
        "dots": [
            (round((number + 0.5) * across, 2), down(change), signed_or_open(change))
            for number, change in enumerate(changes)
        ],
        "ticks": [(down(tick), signed_or_open(tick)) for tick in _ticks(middle - span / 2, middle + span / 2)],
        "zero": down(0.0),
        "estimate": down(known.change),
        "low": down(known.low),
        "high": down(known.high),
    }


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two."""
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [number * step for number in range(ceil(low / step), floor(high / step) + 1)]


def _without_extremes(changes: list[float]) -> list[float]:
    """The middle nine tenths: one disturbed pair must not flatten all others. It is drawn at the edge."""
    ordered = sorted(changes)
    cut = len(ordered) // 20
    return ordered[cut : len(ordered) - cut]
