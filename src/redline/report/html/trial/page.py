"""A change that was tried as one HTML file that needs nothing else: the verdict, and every pair as a dot."""

from redline.report.html.frame import frame, template
from redline.report.html.trial.pairs_chart import pairs_chart
from redline.report.language import _
from redline.report.text_parts import clipped
from redline.report.trial.sentences import everything
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    verdict, *said = everything(trial, numbers)
    return template("trial/page.html.j2").render(
        **frame(clipped(trial.after if trial else verdict, 80), charts={}, tables={}, words={}),
        headline=verdict,
        said=said,
        commands=((_("before"), trial.before), (_("after"), trial.after)) if trial else (),
        levers=[(outcome.lever, outcome.what) for outcome in trial.levers] if trial else (),
        chart=pairs_chart(trial) if trial else None,
    )
