"""A change that was tried, as Markdown: a comment on a pull request."""

from redline.report.diagnose.md import escaped
from redline.report.language import _, sentences
from redline.report.terminal import as_text
from redline.report.trial.sentences import all_sentences, verdict_sentence
from redline.trials.trial_result import TrialResult


def render(trial: TrialResult) -> str:
    commands = ((_("before"), trial.before), (_("after"), trial.after))
    return as_text(
        [
            [f"## {escaped(verdict_sentence(trial))}"],
            [escaped(sentences(all_sentences(trial)))],
            [f"- {label}: `{command.replace('`', chr(39))}`" for label, command in commands],
        ]
    )
