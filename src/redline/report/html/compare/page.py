"""A comparison as one HTML file that needs nothing else: two steps on one scale, what differs, and tables that sort."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction

from redline.ledger.accounts import ACCOUNTS
from redline.report.compare.compare_result import CompareResult
from redline.report.compare.sentences import remarks, spread_sentences, verdict_sentence
from redline.report.compare.tables import tables_of, time_difference
from redline.report.diagnose import account_messages
from redline.report.diagnose.screen import screen_of
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _, sentences
from redline.report.text_parts import clipped
from redline.trials.recordings import RecordingDifference
from redline.units import format_ns


@dataclass(frozen=True, kw_only=True)
class AccountBars:
    """One account of both steps; lengths in percent of the longer step."""

    code: str
    name: str
    before: float
    after: float
    difference: str
    grown: bool
    start: float  # of the bar of the difference, in percent of its track; the middle is none
    width: float


@dataclass(frozen=True, kw_only=True)
class StepBar:
    """The step of one recording, on the scale of both."""

    label: str
    name: str
    headline: str
    time: str


def render(result: CompareResult) -> str:
    difference = result.difference
    shown = {f"table{number}": table for number, table in enumerate(tables_of(difference, verbose=True))}
    return template("compare/page.html.j2").render(
        **frame(
            clipped(" / ".join(result.names), 80),
            charts={},
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words=table_text(),
        ),
        titles={name: table.title for name, table in shown.items()},
        headline=sentences([result.about, verdict_sentence(difference)]),
        second=sentences(spread_sentences(result)),
        remarks=list(remarks(result)),
        steps=list(_steps(result)),
        rows=list(_rows(difference)),
        total=time_difference(difference.step.difference_ns),
    )


def _steps(result: CompareResult) -> Iterator[StepBar]:
    step = result.difference.step
    recordings = (
        (_("before"), result.names[0], result.before, step.before_ns),
        (_("after"), result.names[1], result.after, step.after_ns),
    )
    for label, name, diagnosed, time_ns in recordings:
        yield StepBar(
            label=label, name=clipped(name, 80), headline=screen_of(diagnosed).headline, time=format_ns(round(time_ns))
        )


def _rows(difference: RecordingDifference) -> Iterator[AccountBars]:
    """Accounts that take time in either step."""
    longest_ns = max(difference.step.before_ns, difference.step.after_ns, Fraction(1))
    largest_ns = max((abs(row.difference_ns) for row in difference.accounts), default=Fraction()) or Fraction(1)
    for account, row in zip(ACCOUNTS, difference.accounts, strict=True):
        if not row.before_ns and not row.after_ns:
            continue
        half = float(50 * abs(row.difference_ns) / largest_ns)
        yield AccountBars(
            code=account_messages.colour(account),
            name=account_messages.name(account),
            before=float(100 * row.before_ns / longest_ns),
            after=float(100 * row.after_ns / longest_ns),
            difference=time_difference(row.difference_ns),
            grown=row.difference_ns > 0,
            start=50.0 if row.difference_ns > 0 else 50.0 - half,
            width=half,
        )
