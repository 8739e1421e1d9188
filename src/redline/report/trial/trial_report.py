"""A change that was tried: what `redline compare` of programs and the assertions for tests return, in every form."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redline.report.data import csv_text
from redline.report.display import Style, styled
from redline.report.document import (
    Commands,
    Document,
    Heading,
    LabelledLines,
    PageDocument,
    Paragraph,
    Section,
)
from redline.report.language import _, sentences, speaking
from redline.report.shown_result import ShownResult
from redline.report.text_parts import clipped
from redline.report.trial.pairs_chart import pairs_section
from redline.report.trial.sentences import (
    cpu_sentence,
    doubts,
    effort_sentence,
    everything,
    headline,
    numbers_sentences,
    stop_sentence,
    times_sentence,
    verdict_sentence,
)
from redline.trials.numbers.check import NumbersResult
from redline.trials.paired_sequence import TrialVerdict
from redline.trials.trial_record import to_record
from redline.trials.trial_result import TrialResult

_STYLES = {TrialVerdict.FASTER: Style.GOOD, TrialVerdict.SLOWER: Style.LIMIT}


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialReport(ShownResult):
    """What was measured of a change, for people and programs."""

    WHAT = "a comparison"

    trial: TrialResult | None  # None where only the numbers were checked
    numbers: NumbersResult | None = None  # None where they were not

    def document(self, *, verbose: bool = False) -> Document:
        lines = [*(_lines(self.trial) if self.trial else ())]
        if self.numbers:
            verdict, *others = numbers_sentences(self.numbers)
            style = Style.GOOD if self.numbers.holds else Style.LIMIT
            lines.append((_("numbers"), sentences([styled(verdict, style), *others])))
        return Document(blocks=(LabelledLines(lines=tuple(lines)),))

    def comment(self, *, verbose: bool = False) -> Document:
        first = headline(self.trial, self.numbers)
        rest = [sentence for sentence in everything(self.trial, self.numbers) if sentence not in first]
        return Document(
            blocks=(Heading(text=first), Paragraph(text=sentences(rest)), Commands(lines=tuple(self._programs())))
        )

    def _programs(self) -> Iterator[tuple[str, str]]:
        if self.trial:
            yield _("before"), self.trial.before
            yield _("after"), self.trial.after

    def page(self) -> PageDocument:
        verdict, *said = everything(self.trial, self.numbers)
        levers = self.trial.levers if self.trial else ()
        tried = (
            *(f"{label}: `{command}`" for label, command in self._programs()),
            *(f"{outcome.lever}: {outcome.what}" for outcome in levers),
        )
        return PageDocument(
            title=clipped(self.trial.after if self.trial else verdict, 80),
            headline=verdict,
            said=tuple(said),
            sections=(
                Section(name="verdict", link=_("Verdict"), blocks=()),
                Section(blocks=tuple(Paragraph(text=text) for text in tried), style="panel"),
                *([pairs_section(self.trial)] if self.trial else []),
            ),
        )

    def csv(self) -> str:
        pairs = enumerate(self.trial.pairs if self.trial else (), 1)
        return csv_text(("pair", "before_s", "after_s"), ((n, pair.before_s, pair.after_s) for n, pair in pairs))

    def record(self) -> dict[str, Any]:
        """In English, whatever language is spoken: programs read it."""
        with speaking("en"):
            said = " ".join(everything(self.trial, self.numbers))
        return {**to_record(self.trial, self.numbers), "text": said}

    def __repr__(self) -> str:
        return f"<redline comparison: {headline(self.trial, self.numbers)}>"


def _lines(trial: TrialResult) -> Iterator[tuple[str, str]]:
    yield _("before"), trial.before
    yield _("after"), trial.after
    verdict = verdict_sentence(trial)
    style = _STYLES.get(trial.decision.verdict) if trial.decision else None
    times = [times_sentence(trial)] if trial.pairs else []
    yield _("verdict"), sentences([styled(verdict, style) if style else verdict, *times])
    if trial.pairs:
        yield _("measured"), sentences([effort_sentence(trial), stop_sentence(trial)])
    yield "", cpu_sentence(trial)
    for outcome in trial.levers:
        if outcome.took:
            yield _("lever"), f"{outcome.lever}: {outcome.what}"
    for doubt in doubts(trial):
        yield _("doubt"), doubt
