"""A change that was tried, as Markdown: a comment on a pull request."""

from redline.report.language import _, sentences
from redline.report.markdown import escaped
from redline.report.terminal import as_text
from redline.report.trial.sentences import everything, headline
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    commands = ((_("before"), trial.before), (_("after"), trial.after)) if trial else ()
    first = headline(trial, numbers)
    rest = [sentence for sentence in everything(trial, numbers) if sentence not in first]
    return as_text(
        [
            [f"## {escaped(first)}"],
            [escaped(sentences(rest))],
            [f"- {label}: `{command.replace('`', chr(39))}`" for label, command in commands],
        ]
    )
