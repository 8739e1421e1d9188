"""A change that was tried, as text for a terminal."""

from collections.abc import Iterator

from redline.report.display import Style, styled
from redline.report.language import _, sentences
from redline.report.terminal import as_text, labelled
from redline.report.trial.numbers_sentences import numbers_sentences
from redline.report.trial.sentences import (
    cpu_sentence,
    doubts,
    effort_sentence,
    stop_sentence,
    times_sentence,
    verdict_sentence,
)
from redline.trials.numbers.check import NumbersResult
from redline.trials.paired_sequence import TrialVerdict
from redline.trials.trial_result import TrialResult

_LABEL_WIDTH = 10
_STYLES = {TrialVerdict.FASTER: Style.GOOD, TrialVerdict.SLOWER: Style.LIMIT}


def render(trial: TrialResult | None, numbers: NumbersResult | None = None) -> str:
    return as_text([[*(_lines(trial) if trial else ()), *(_number_lines(numbers) if numbers else ())]])


def _number_lines(numbers: NumbersResult) -> Iterator[str]:
    verdict, *others = numbers_sentences(numbers)
    style = Style.GOOD if numbers.holds else Style.LIMIT
    yield from labelled(_("numbers"), sentences([styled(verdict, style), *others]), _LABEL_WIDTH)


def _lines(trial: TrialResult) -> Iterator[str]:
    yield from labelled(_("before"), trial.before, _LABEL_WIDTH)
    yield from labelled(_("after"), trial.after, _LABEL_WIDTH)
    verdict = verdict_sentence(trial)
    style = _STYLES.get(trial.decision.verdict) if trial.decision else None
    headed = styled(verdict, style) if style else verdict
    times = [times_sentence(trial)] if trial.pairs else []
    yield from labelled(_("verdict"), sentences([headed, *times]), _LABEL_WIDTH)
    if trial.pairs:
        yield from labelled(_("measured"), sentences([effort_sentence(trial), stop_sentence(trial)]), _LABEL_WIDTH)
    if cpu := cpu_sentence(trial):
        yield from labelled("", cpu, _LABEL_WIDTH)
    for outcome in trial.levers:
        if outcome.took:
            yield from labelled(_("lever"), f"{outcome.lever}: {outcome.what}", _LABEL_WIDTH)
    for doubt in doubts(trial):
        yield from labelled(_("doubt"), doubt, _LABEL_WIDTH)
