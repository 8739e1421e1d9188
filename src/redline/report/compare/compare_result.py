"""What `redline.compare` returns, as text, a comment, a page, JSON and CSV; see docs/reference/compare.md."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from redline.ledger.accounts import ACCOUNTS
from redline.report.compare.sentences import Sides, doubts, spread_sentences, verdict_sentence
from redline.report.compare.tables import tables_of, time_difference
from redline.report.data import csv_text, enveloped, picked, plain
from redline.report.diagnose import account_messages
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.screen import screen_of
from redline.report.display import Style, styled
from redline.report.document import (
    Document,
    Folded,
    Heading,
    LabelledLines,
    PageDocument,
    Paragraph,
    Section,
    TemplateDrawing,
)
from redline.report.language import _, sentences, speaking
from redline.report.redaction.redactor import redacted_text
from redline.report.shown_result import ShownResult
from redline.report.text_parts import clipped
from redline.trials.recordings import AmountChange, CountedChange, Judgement, RecordingDifference
from redline.units import format_ns

if TYPE_CHECKING:
    from redline.report.redaction.redactor import Redactor, Removed

_STYLES = {Judgement.FASTER: Style.GOOD, Judgement.SLOWER: Style.LIMIT}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompareResult(ShownResult):
    """Two recordings, each diagnosed, and what differs between them."""

    WHAT = "a comparison"

    names: tuple[str, str]  # as they were given
    before: DiagnoseResult
    after: DiagnoseResult
    difference: RecordingDifference
    removed: "tuple[Removed, ...] | None" = None  # by redaction; None where nothing was looked for

    @property
    def about(self) -> str:
        """Which ranks each is about, where files could not be read; "" where all could."""
        said = [(_("before"), self.before.about), (_("after"), self.after.about)]
        return sentences(f"{side}: {about}" for side, about in said if about)

    @property
    def sides(self) -> Sides:
        return self.before, self.after

    def redacted(self, redactor: "Redactor | None" = None) -> "CompareResult":
        """Without hosts, users, folders, names of traces and secrets; `removed` says what was taken out."""
        from redline.report.redaction.redactor import Redactor

        redactor = redactor or Redactor()
        redactor.learn(self)
        names = (redactor.file(self.names[0]), redactor.file(self.names[1]))
        clean = redactor.redacted(replace(self, names=names, difference=_without_private(self.difference, redactor)))
        return replace(clean, difference=_with_own_names(clean.difference, self.difference), removed=redactor.removed)

    def document(self, *, verbose: bool = False) -> Document:
        verdict = verdict_sentence(self.difference)
        style = _STYLES.get(self.difference.judgement)
        said = [self.about, styled(verdict, style) if style else verdict, *self._spread()]
        sides = zip((_("before"), _("after")), self.names, self.sides, strict=True)
        lines = [
            *((label, f"{name}: {screen_of(side).headline}") for label, name, side in sides),
            (_("verdict"), sentences(said)),
            *(("", remark) for remark in self._remarks()),
        ]
        return Document(blocks=(LabelledLines(lines=tuple(lines)), *tables_of(self.difference, verbose=verbose)))

    def comment(self, *, verbose: bool = False) -> Document:
        first, *others = tables_of(self.difference, verbose=verbose)
        return Document(
            blocks=(
                Heading(text=sentences([self.about, verdict_sentence(self.difference)])),
                Paragraph(text=sentences([*self._spread(), *self._remarks()])),
                replace(first, title=""),
                *(Folded(title=table.title, content=table) for table in others),
            )
        )

    def _spread(self) -> list[str]:
        return spread_sentences(self.difference, self.sides)

    def _remarks(self) -> Iterator[str]:
        """What weakens any conclusion, and what was taken out of the report."""
        yield from doubts(self.difference, self.sides)
        if self.removed is not None:
            yield redacted_text(self.removed)

    def page(self) -> PageDocument:
        difference = self.difference
        drawing = {
            "steps": list(_steps(self)),
            "rows": list(_account_bars(difference)),
            "total": time_difference(difference.step.difference_ns),
        }
        return PageDocument(
            title=clipped(" / ".join(self.names), 80),
            headline=sentences([self.about, verdict_sentence(difference)]),
            said=(sentences(self._spread()), *self._remarks()),
            sections=(
                Section(
                    name="steps",
                    link=_("Steps"),
                    title=_("Both steps on one scale"),
                    blocks=(TemplateDrawing(template="compared_steps.html.j2", values=drawing),),
                    style="panel waterfall",
                ),
                Section(
                    name="tables",
                    link=_("Tables"),
                    title=_("Tables"),
                    blocks=tuple(tables_of(difference, verbose=True)),
                ),
            ),
        )

    def csv(self) -> str:
        """The accounts: numbers as they are, in ns."""
        rows = (*self.difference.accounts, self.difference.step)
        names = ("before_ns", "after_ns", "difference_ns")
        return csv_text(
            ("account", *names), ((row.name, *(float(getattr(row, name)) for name in names)) for row in rows)
        )

    def record(self) -> dict[str, Any]:
        """In English, whatever language is spoken: programs read it."""
        difference = self.difference
        with speaking("en"):
            first = [self.about] if self.about else []
            said = [*first, verdict_sentence(difference), *self._spread(), *doubts(difference, self.sides)]
        interval = difference.interval
        record = {
            "before": self.names[0],
            "after": self.names[1],
            "altered": {"before": difference.altered[0], "after": difference.altered[1]},
            "verdict": {"judgement": str(difference.judgement), "interleaved": False, "text": " ".join(said)},
            "change": difference.change,
            "medians_ns": list(difference.medians_ns),
            "interval": None if interval is None else [interval.low, interval.high],
            "rank_steps": list(difference.steps),
            "work": plain(difference.work),
            "step": _change(difference.step),
            "accounts": list(map(_change, difference.accounts)),
            "phases": list(map(_change, difference.phases)),
            "ranks": list(map(_change, difference.ranks)),
            "operators": list(map(_counted, difference.operators)),
            "collectives": list(map(_counted, difference.collectives)),
            "memory": plain(difference.memory),
            "findings": [
                {"code": row.code, "before_share": row.before, "after_share": row.after} for row in difference.findings
            ],
            "context": plain(difference.context),
            "redacted": plain(self.removed),
        }
        ranks = (*self.before.diagnosis.ranks, *self.after.diagnosis.ranks)
        synthetic = any(bool(rank.origin.synthetic) for rank in ranks)
        return enveloped("comparison", 1, "redline compare", record, synthetic=synthetic)

    def __repr__(self) -> str:
        return f"<redline comparison: {verdict_sentence(self.difference)}>"


def _change(row: AmountChange) -> dict[str, Any]:
    """Fractions as text too: floats do not add up exactly."""
    amounts = picked(row, "name before_ns after_ns difference_ns")
    return {**amounts, "exact_difference_ns": str(row.difference_ns)}


def _counted(row: CountedChange) -> dict[str, Any]:
    return picked(row, "name detail before_calls after_calls before_ns after_ns difference_ns")


# --- redaction --------------------------------------------------------------------------------------------------------


def _without_private(difference: RecordingDifference, redactor: "Redactor") -> RecordingDifference:
    """A short name of a host does not look private where it stands alone."""

    def hosts(text: str) -> str:
        return "; ".join(map(redactor.host, text.split("; ")))

    context = [
        replace(row, before=hosts(row.before), after=hosts(row.after)) if row.what == "hosts" else row
        for row in difference.context
    ]
    return replace(difference, context=tuple(context))


def _with_own_names(clean: RecordingDifference, original: RecordingDifference) -> RecordingDifference:
    """Names that Redline gives are no secret, even where a host is named like one of them, such as `math`."""
    rows = zip(clean.context, original.context, strict=True)
    return replace(
        original,
        operators=clean.operators,
        collectives=clean.collectives,
        context=tuple(replace(row, what=own.what) for row, own in rows),
    )


# --- the drawing of a page --------------------------------------------------------------------------------------------


def _steps(result: CompareResult) -> Iterator[dict[str, str]]:
    step = result.difference.step
    sides = zip((_("before"), _("after")), result.names, result.sides, (step.before_ns, step.after_ns), strict=True)
    for label, name, diagnosed, time_ns in sides:
        headline = screen_of(diagnosed).headline
        yield {"label": label, "name": clipped(name, 80), "headline": headline, "time": format_ns(round(time_ns))}


def _account_bars(difference: RecordingDifference) -> Iterator[dict[str, str | float]]:
    """Accounts that take time in either step: lengths in percent of the longer step, and of a difference its place in
    percent of a track whose middle is none."""
    longest_ns = max(difference.step.before_ns, difference.step.after_ns, Fraction(1))
    largest_ns = max((abs(row.difference_ns) for row in difference.accounts), default=Fraction()) or Fraction(1)
    for account, row in zip(ACCOUNTS, difference.accounts, strict=True):
        if not row.before_ns and not row.after_ns:
            continue
        half = float(50 * abs(row.difference_ns) / largest_ns)
        yield {
            "code": account_messages.colour(account),
            "name": account_messages.name(account),
            "before": float(100 * row.before_ns / longest_ns),
            "after": float(100 * row.after_ns / longest_ns),
            "difference": time_difference(row.difference_ns),
            "start": 50.0 if row.difference_ns > 0 else 50.0 - half,
            "width": half,
        }
