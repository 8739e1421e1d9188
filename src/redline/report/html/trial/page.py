"""A change that was tried as one HTML file that needs nothing else: the verdict, and every pair as a dot."""

from dataclasses import dataclass

from redline.report.html.frame import frame, template
from redline.report.language import _
from redline.report.text_parts import clipped
from redline.report.trial.sentences import everything, signed_or_open
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult

_WIDTH, _HEIGHT, _MARGIN = 1000.0, 260.0, 12.0
_LEAST_SPAN = 0.02  # of the time: a chart of less would make noise look like much


@dataclass(frozen=True, kw_only=True)
class PairsChart:
    """Every pair by its order, and how far it changed; with the estimate and its interval. In units of the drawing."""

    width: float
    height: float
    dots: tuple[tuple[float, float, str], ...]  # across, down, what it is
    zero: float
    estimate: float
    low: float
    high: float
    top_label: str
    bottom_label: str


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    verdict, *said = everything(trial, numbers)
    return template("trial/page.html.j2").render(
        **frame(clipped(trial.after if trial else verdict, 80), charts={}, tables={}, words={}),
        headline=verdict,
        said=said,
        commands=((_("before"), trial.before), (_("after"), trial.after)) if trial else (),
        levers=[(outcome.lever, outcome.what) for outcome in trial.levers] if trial else (),
        chart=_chart(trial) if trial else None,
    )


def _chart(trial: TrialResult) -> PairsChart | None:
    if trial.decision is None:
        return None
    changes = [pair.after_s / pair.before_s - 1 for pair in trial.pairs]
    known = trial.decision.estimate
    bounds = [bound for bound in (known.low, known.high) if abs(bound) < 1]
    span = max(_LEAST_SPAN, *map(abs, [*_without_extremes(changes), *bounds, known.change]))

    def down(change: float) -> float:
        return _HEIGHT / 2 - max(-1.0, min(1.0, change / span)) * (_HEIGHT / 2 - _MARGIN)

    across = (_WIDTH - 2 * _MARGIN) / max(len(changes) - 1, 1)
    return PairsChart(
        width=_WIDTH,
        height=_HEIGHT,
        dots=tuple(
            (round(_MARGIN + number * across, 1), round(down(change), 1), signed_or_open(change))
            for number, change in enumerate(changes)
        ),
        zero=round(down(0.0), 1),
        estimate=round(down(known.change), 1),
        low=round(down(known.low), 1),
        high=round(down(known.high), 1),
        top_label=signed_or_open(span),
        bottom_label=f"{-100 * span:+.1f} %",
    )


def _without_extremes(changes: list[float]) -> list[float]:
    """The middle nine tenths: one disturbed pair must not flatten all others. It is drawn at the edge."""
    ordered = sorted(changes)
    cut = len(ordered) // 20
    return ordered[cut : len(ordered) - cut]
