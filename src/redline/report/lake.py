"""Answers of the lake, what was added to it and what was removed; docs/reference/lake.md describes the JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from redline.findings.pages import codes, page_of
from redline.job.read_failures import Failure
from redline.lake.questions import MOST_FALSE, AnswerColumn, Cell, LakeAnswer
from redline.lake.sandbox import MOST_ROWS
from redline.ledger.accounts import Account
from redline.report.data import csv_text, enveloped, picked
from redline.report.diagnose import account_messages
from redline.report.document import Code, Document, Items, PageDocument, ReportTable, Section
from redline.report.language import _, marked, ngettext, spoken
from redline.report.shown_result import ShownResult
from redline.report.text_parts import capital, clipped, percent, plural
from redline.report.written import document_of_lines, unread
from redline.units import format_ns

_LEAST_CHANCE = 1e-9
_LONGEST = 120  # letters of a cell
TITLES: Mapping[str, str] = {
    "accounts": marked("GPU hours by account"),
    **dict.fromkeys(("teams", "models", "clusters", "devices"), marked("GPU hours lost, by {group}")),
    "jobs": marked("jobs that lose most GPU hours"),
    "nodes": marked("nodes that are late across jobs"),
    "waits": marked("GPU hours spent waiting for late ranks, by cause"),
    "changes": marked("what changed since last week"),
    "like": marked("jobs like this one"),
    "findings": marked("findings by what fixing them can gain at most"),
    "operators": marked("operators by GPU hours above their roof"),
}
HEADINGS: Mapping[str, str] = {
    "account": marked("account"),
    "gpu_hours": marked("GPU hours"),
    "share": marked("share"),
    "lost": marked("lost"),
    "team": marked("team"),
    "model": marked("model"),
    "cluster": marked("cluster"),
    "device": marked("device"),
    "job": marked("job"),
    "jobs": marked("jobs"),
    "lost_hours": marked("lost hours"),
    "lost_share": marked("lost share"),
    "largest_loss": marked("largest loss"),
    "world_size": marked("ranks"),
    "ranks": marked("ranks"),
    "node": marked("node"),
    "latest_in": marked("latest in"),
    "expected": marked("by chance"),
    "caused_hours": marked("hours waited for it"),
    "cause": marked("cause"),
    "chance": marked("chance"),
    "jobs_before": marked("jobs before"),
    "lost_share_before": marked("lost share before"),
    "change": marked("change"),
    "grew_most": marked("grew most"),
    "step_change": marked("step time"),
    "similarity": marked("similarity"),
    "step_ns": marked("step"),
    "code": marked("code"),
    "title": marked("title"),
    "gain_hours": marked("hours gained alone"),
    "gain_beside_others": marked("beside the others"),
    "money": marked("money"),
    "operator": marked("operator"),
    "dtype": marked("type"),
    "kernel_hours": marked("kernel hours"),
    "above_roof_hours": marked("above the roof"),
    "roof_share": marked("roof share"),
}
CAUSES: Mapping[str, str] = {
    "before the window": marked("behind when the window began"),
    "compute": marked("computed longer"),
    "communication": marked("communicated or copied longer"),
    "input": marked("loaded data longer"),
    "host": marked("waited longer for the host"),
    "other": marked("idle longer"),
}
_LOST = marked("lost: all accounts but math, memory and unrated compute")
_NOTES: Mapping[str, tuple[str, ...]] = {
    "accounts": (_LOST,),
    **dict.fromkeys(("teams", "models", "clusters", "devices", "jobs"), (_LOST,)),
    "nodes": (
        marked(
            "latest in: jobs in which no other node made the others wait longer; by chance: how many would be expected"
        ),
        marked("the node of rank 0 is not judged in that job: logging and checkpoints make it late in any job"),
    ),
    "waits": (marked("hours waited: of all other ranks together"),),
    "changes": (
        marked("the last 7 days of the lake beside the 7 days before, for each team and model that ran in both"),
        _LOST,
    ),
    "like": (marked("similarity: of the time spent in each operator (cosine); the first row is the job itself"),),
    "findings": (
        marked("alone: as the only fix; beside the others: the part that no other finding claims, so these add up"),
    ),
    "operators": (
        marked("above the roof: kernel time beyond what FLOPs and bytes need; - where the work or the peak is unknown"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class LakeAddResult:
    """What was added."""

    lake: str
    job: str
    windows: int
    digests: int
    failures: tuple[Failure, ...]

    def document(self) -> Document:
        added = f"{plural(self.digests, 'digest')} of the job {clipped(self.job)}, {plural(self.windows, 'window')}"
        return document_of_lines([f"added to {clipped(self.lake, 500)}: {added}", *unread(self.failures)])


@dataclass(frozen=True, kw_only=True)
class LakePruneResult:
    """What was removed."""

    lake: str
    first_kept: str
    days: int
    digests: int
    merged: int  # parts that went into others

    def document(self) -> Document:
        merged = f"; merged {plural(self.merged, 'file')} of the others" if self.merged else ""
        removed = f"{plural(self.digests, 'digest')} of {plural(self.days, 'day')} before {self.first_kept}{merged}"
        return document_of_lines([f"removed from {clipped(self.lake, 500)}: {removed}"])


@dataclass(frozen=True, kw_only=True)
class LakeAskResult(ShownResult):
    """An answer, and what it was asked of."""

    lake: str
    question: str  # "" for SQL
    sql: str
    answer: LakeAnswer
    digests: int
    jobs: int
    synthetic: bool  # some of it was simulated rather than measured
    first_day: str
    last_day: str
    price: float | None
    job: str

    def document(self, *, verbose: bool = False) -> Document:
        shown = answer_table(self)
        return Document(
            blocks=(
                Items(items=(f"{title(self)}: {size_line(self)}",), mark="", rest=""),
                replace(shown, notes=()),
                Items(items=shown.notes, mark="", rest=""),
            ),
            has_long_lines=True,
        )

    def page(self) -> PageDocument:
        shown = replace(answer_table(self), title=_("Table"), name="answer")
        return PageDocument(
            title=clipped(self.job or title(self), 80),
            headline=capital(title(self)),
            said=(size_line(self),),
            sections=(
                Section(name="tables", link=_("Table"), blocks=(shown,), style="panel"),
                Section(name="sql", link="SQL", title="SQL", blocks=(Code(text=self.sql),), style="panel"),
            ),
        )

    def record(self) -> dict[str, Any]:
        answer = self.answer
        content = {
            **picked(self, "question sql digests jobs first_day last_day price"),
            "columns": [column.name for column in answer.columns],
            **picked(answer, "rows facts cut"),
        }
        return enveloped("lake-answer", 1, "redline lake ask", content, synthetic=self.synthetic)

    def csv(self) -> str:
        return csv_text((column.name for column in self.answer.columns), self.answer.rows)

    def __str__(self) -> str:
        return self.text()


# --- the table --------------------------------------------------------------------------------------------------------


def answer_table(result: LakeAskResult) -> ReportTable:
    columns = result.answer.columns
    head = [heading(column.name, result.question) for column in columns]
    rows = [
        [shown(value, column.kind) for value, column in zip(row, columns, strict=True)] for row in result.answer.rows
    ]
    _add_titles(head, rows, columns)
    return ReportTable(
        head=tuple(head),
        rows=tuple(map(tuple, rows)),
        notes=tuple(notes(result)),
        empty=empty(result.question),
    )


def _add_titles(head: list[str], rows: list[list[str]], columns: tuple[AnswerColumn, ...]) -> None:
    """Beside the code of a finding what it is called, where this version has its page."""
    place = next((place for place, column in enumerate(columns) if column.kind == "finding"), None)
    if place is None:
        return
    known = set(codes())
    head.insert(place + 1, _("title"))
    for row in rows:
        row.insert(place + 1, page_of(row[place], spoken()).title if row[place] in known else "-")


def shown(value: Cell, kind: str) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return _("yes") if value else "-"
    if isinstance(value, str):
        return clipped(_named(value, kind), _LONGEST)
    return _AMOUNTS.get(kind, number)(value)


def _named(text: str, kind: str) -> str:
    if kind == "account":
        return account_messages.name(Account(text))
    return _(CAUSES[text]) if kind == "cause" and text in CAUSES else text


def _change(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{percent(value)}"


def _chance(value: float) -> str:
    return f"{value:.1g}" if value >= _LEAST_CHANCE else f"<{_LEAST_CHANCE:.0e}"


def number(value: float) -> str:
    """1234.5 -> 1,234; 12.34 -> 12.3; 0.01234 -> 0.0123."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


_AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "share": percent,
    "change": _change,
    "duration": lambda value: format_ns(round(value)),
    "chance": _chance,
}


# --- in words ---------------------------------------------------------------------------------------------------------


def title(result: LakeAskResult) -> str:
    if not result.question:
        return _("answer")
    return _(TITLES[result.question]).format(group=heading(result.answer.columns[0].name, result.question))


def heading(name: str, question: str) -> str:
    return _(HEADINGS[name]) if question else name


def size_line(result: LakeAskResult) -> str:
    digests = ngettext("{count:,} digest", "{count:,} digests", result.digests).format(count=result.digests)
    jobs = ngettext("{count:,} job", "{count:,} jobs", result.jobs).format(count=result.jobs)
    text = _("{digests} of {jobs}, {first} to {last}")
    if result.synthetic:
        text = _("{digests} of {jobs}, {first} to {last}; some are synthetic, not measured")
    return text.format(digests=digests, jobs=jobs, first=result.first_day, last=result.last_day)


def notes(result: LakeAskResult) -> Iterator[str]:
    if result.question == "nodes":
        yield from _tested(result)
    yield from map(_, _NOTES.get(result.question, ()))
    if result.question == "findings":
        yield (
            _("money: at {price:g} per GPU hour").format(price=result.price)
            if result.price
            else _("--price PRICE of a GPU hour adds what each is worth")
        )
    if result.answer.cut:
        yield _("only the first {count:,} rows").format(count=MOST_ROWS)


def _tested(result: LakeAskResult) -> Iterator[str]:
    text = _(
        "{judged:,} nodes were judged, {late:,} of them are late; the test names any node wrongly in at most {rate} of "
        "lakes; chance: of evidence as strong for any of these nodes"
    )
    facts = result.answer.facts
    yield text.format(
        judged=int(facts.get("judged_nodes") or 0), late=int(facts.get("late_nodes") or 0), rate=percent(MOST_FALSE)
    )


def empty(question: str) -> str:
    return _("No node is late more often than chance explains.") if question == "nodes" else _("There are no rows.")
