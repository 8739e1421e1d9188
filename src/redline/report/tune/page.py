"""A search for better settings as one HTML file that needs nothing else: the ladder, what was rejected, the proof."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from redline.report.html.frame import frame, template
from redline.report.html.prose import prose
from redline.report.language import _, listed, sentences, spoken
from redline.report.text_parts import clipped
from redline.report.trial.pairs_chart import pairs_about, pairs_chart
from redline.report.trial.sentences import everything, verdict_sentence
from redline.report.tune.ladder import ladder_rows
from redline.report.tune.ladder_chart import ladder_chart
from redline.report.tune.next_steps import PastedLever, is_worth_keeping, next_steps, pasted_levers, pasted_sentence
from redline.report.tune.rejection_messages import untried_sentences, why, with_reasons
from redline.report.tune.sentences import beside, doubts, headline, limiting_sentences
from redline.report.tune.tables import ladder_table, rejected_table
from redline.trials.lever_pages import lever_page_of
from redline.tuning.candidates import LeverCandidate
from redline.tuning.tune_result import Rejected, Rung, TuneResult


@dataclass(frozen=True, kw_only=True)
class LeverDetails:
    """All that is known of one lever in this search, folded on the page."""

    name: str
    title: str  # of its page
    said: tuple[str, ...]


def render(result: TuneResult) -> str:
    rows = ladder_rows(result)
    whole = result.ladder.whole
    return template("tune.html.j2").render(
        **frame(clipped(result.command, 80), charts={}, tables={}, words={"copy": _("Copy"), "copied": _("Copied")}),
        headline=headline(result, rows),
        second=sentences(beside(result, rows)),
        doubts=list(doubts(result, rows)),
        limiting=limiting_sentences(result),
        command=result.command,
        next_steps=list(next_steps(result)),
        pasted=[(pasted_sentence(lever), _lines(lever), lever.is_line) for lever in pasted_levers(result)],
        patch=result.diff.patch.expandtabs(4) if result.diff and is_worth_keeping(result) else "",
        ladder=ladder_chart(rows, result.objective),
        ladder_table=ladder_table(result, rows),
        rejected_table=rejected_table(result, whole_text=True),
        untried=untried_sentences(result.ladder.rejected),
        whole=sentences(everything(whole, None)) if whole and rows.rungs else "",
        chart=pairs_chart(whole) if whole and rows.rungs else None,
        pairs_about=pairs_about(),
        kept=[_rung_details(rung) for rung in result.ladder.rungs],
        rejected=[_rejected_details(lever) for lever in with_reasons(result.ladder.rejected)],
    )


def _lines(lever: PastedLever) -> Markup | str:
    """The prose of a page is ours; a line is what precedes the command, and may hold anything."""
    return lever.lines if lever.is_line else prose(lever.lines)


def _rung_details(rung: Rung) -> LeverDetails:
    return LeverDetails(
        name=rung.name,
        title=listed(_page_title(candidate) for candidate in rung.candidates),
        said=tuple(filter(None, _rung_said(rung))),
    )


def _rung_said(rung: Rung) -> Iterator[str]:
    yield from map(_suggested, rung.candidates)
    if rung.others:
        yield _("Each of them was undecided by itself; which of them it is that gains is not known.")
    if rung.trial:
        yield from (f"{outcome.lever}: {outcome.what}" for outcome in rung.trial.levers if outcome.took)
    yield from everything(rung.trial, rung.numbers)
    if rung.alone:
        yield _("Without the rungs before it: {verdict}").format(verdict=verdict_sentence(rung.alone))


def _rejected_details(rejected: Rejected) -> LeverDetails:
    return LeverDetails(
        name=f"{rejected.candidate.name}: {why(rejected.why)}",
        title=_page_title(rejected.candidate),
        said=tuple(filter(None, _rejected_said(rejected))),
    )


def _rejected_said(rejected: Rejected) -> Iterator[str]:
    yield _suggested(rejected.candidate)
    if rejected.kept:
        yield _("Tried on top of {levers}.").format(levers=listed(rejected.kept))
    yield from everything(rejected.trial, rejected.numbers)
    if rejected.memory:
        yield rejected.memory.error
    yield rejected.text


def _suggested(candidate: LeverCandidate) -> str:
    if not candidate.finding:
        return ""
    return _("Suggested by {finding}.").format(finding=candidate.finding)


def _page_title(candidate: LeverCandidate) -> str:
    return lever_page_of(candidate.lever.kind.name, spoken()).title
