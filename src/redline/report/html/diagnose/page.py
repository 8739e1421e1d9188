"""The diagnosis of a job as one HTML file that needs nothing else: no network, no server, no other file."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings
from redline.findings.pages import page_of
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import (
    as_fast_text,
    cause_text,
    first_queue_text,
    forecast_of,
    limit_of,
    main_finding,
    phase_text,
    second_cause,
    sentence,
    verdict_sentence,
    without_a_fix,
)  # fmt: skip
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import TABLES
from redline.report.html.diagnose import figures
from redline.report.html.diagnose.cards import page_cards
from redline.report.html.diagnose.definitions import account_definitions, definitions
from redline.report.html.diagnose.facts import dropped_text, facts_of, failure_text, sources_table
from redline.report.html.diagnose.panels import replay_panel, request_panel
from redline.report.html.diagnose.step_view_figure import step_view_figure, step_view_texts
from redline.report.html.frame import frame, template
from redline.report.html.tables import SortedTable, sorted_table, table_text
from redline.report.language import _, sentences, spoken
from redline.report.markdown import capitalised
from redline.report.serving.serving_tables import verdict_text
from redline.report.text_parts import clipped
from redline.storage import path_of

_OPEN_CARDS = 4  # the first ones are shown whole, the others as a line that opens
_MOST_RANK_ROWS = 256
_NAME_LIMIT = 80


def render(job: DiagnosedJob, *, trace_link: str | None = None) -> str:
    """`trace_link` is the name of a trace beside the report."""
    diagnosis, findings = job.diagnosis, job.findings
    screen = screen_of(job)
    charts = _charts(job)
    shown = {name: asdict(figure) for name, figure in charts.items() if figure is not None}
    tables = {name: asdict(table) for name, table in _tables(diagnosis)}
    codes = {finding.code for finding in (*findings.findings, *findings.remarks)}
    cards = page_cards(findings.findings, len(diagnosis.ranks), codes)
    return template("diagnose/page.html.j2").render(
        **frame(_job_name(diagnosis), charts=shown, tables=tables, words=_script_messages()),
        missing=[_why_missing(name) for name, figure in charts.items() if figure is None],
        roofline_note=shown["roofline"]["left_out"] if "roofline" in shown else "",
        steps_per_bar=shown["steps"]["steps_per_bar"] if "steps" in shown else 1,
        ranks_per_column=shown["ranks"]["ranks_per_column"] if "ranks" in shown else 1,
        cards=cards[:_OPEN_CARDS],
        more_cards=cards[_OPEN_CARDS:],
        remarks=page_cards(findings.remarks, len(diagnosis.ranks), codes),
        screen=screen,
        headline=_headline(job, screen),
        capitalised=capitalised,
        replayed=None if job.replayed is None else replay_panel(job.replayed),
        facts=facts_of(job),
        requests=None if job.serving is None else request_panel(job.serving),
        step_view=None if job.step_view is None else step_view_texts(job.step_view),
        trace_link=None if trace_link is None else (trace_link, f"./{quote(trace_link)}"),
        account_definitions=account_definitions(on_cpu=job.on_cpu),
        definitions=definitions(),
        dropped=dropped_text(diagnosis),
        failures=failure_text(job.failures),
    )


def _job_name(diagnosis: Diagnosis) -> str:
    """The file, or the folder, that most of the job is in."""
    sources = [path_of(rank.origin.source.partition("!")[0]) for rank in diagnosis.ranks]
    if len(set(sources)) == 1:
        return clipped(sources[0].name, _NAME_LIMIT)
    folders = {source.parent for source in sources}
    name = folders.pop().name if len(folders) == 1 else ""
    return clipped(name or sources[0].name, _NAME_LIMIT)


# --- the headline -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Headline:
    """What limits the job and by how much, what to do, how sure that is, and why: two lines on a screen."""

    text: str
    why: str  # the cause, and a second one that is worth much
    caveats: tuple[str, ...]  # besides the remarks


def _headline(job: DiagnosedJob, screen: Screen) -> Headline:
    """Of an engine, its requests come first. No job is called healthy beside which memory grows."""
    of_traces = headline_of(job.findings, job.outline)
    if job.findings.verdict.healthy:
        of_traces = replace(of_traces, text=sentences([of_traces.text, screen.growth]))
    else:
        of_traces = replace(of_traces, why=sentences([of_traces.why, screen.growth]))
    if job.serving is None:
        return replace(of_traces, text=sentences([job.about, of_traces.text]))
    text = sentences([job.about, verdict_text(job.serving)])
    return replace(of_traces, text=text, why=sentences([of_traces.text, of_traces.why]))


def headline_of(findings: Findings, outline: Outline) -> Headline:
    verdict = findings.verdict
    if not outline.steps.longest_ns:
        return Headline(text=verdict_sentence(verdict, findings.findings, outline), why="", caveats=())
    first = main_finding(verdict, findings.findings)
    doubts: list[str] = []
    if first is None:
        text, *why = without_a_fix(verdict, findings.findings, outline)
    else:
        text = sentences([limit_of(verdict, first, outline), _advice(first), forecast_of(first)])
        why = [cause_text(first.code), second_cause(verdict, findings.findings)]
        doubts = list(map(sentence, first.doubts))
    caveats = (*doubts, first_queue_text(verdict, outline))
    return Headline(text=text, why=sentences([phase_text(verdict.phases), *why]), caveats=tuple(filter(None, caveats)))


def _advice(first: Finding) -> str:
    text = {
        Grade.MEASURED: _("{title}: {times} (published results)."),
        Grade.DOCUMENTED: _("{title}: {times} (documented fix)."),
        Grade.HYPOTHESIS: _("{title}: {times} (hypothesis)."),
    }[first.grade]
    return text.format(title=page_of(first.code, spoken()).title, times=as_fast_text(first))


# --- charts and tables ------------------------------------------------------------------------------------------------


def _charts(job: DiagnosedJob) -> dict[str, Any]:
    """By name; None for what there is nothing to draw of."""
    diagnosis = job.diagnosis
    most_steps = max(len(rank.ledger.start_ns) for rank in diagnosis.ranks)
    return {
        "steps": figures.steps_figure(diagnosis) if most_steps > 1 else None,
        "strip": step_view_figure(job.step_view) if job.step_view is not None else None,
        "ranks": figures.ranks_figure(diagnosis) if len(diagnosis.ranks) > 1 else None,
        "roofline": figures.roofline_figure(diagnosis),
        "collectives": figures.collectives_figure(diagnosis),
    }


def _why_missing(chart: str) -> str:
    return {
        "steps": _("Step times: there is one step only."),
        "strip": _("One step: needs the trace itself, but a digest was given, or nothing takes any time."),
        "ranks": _("Ranks: there is one rank only."),
        "roofline": _("Roofline: no operator with known FLOPs on a machine with known peaks."),
        "collectives": _("Collectives against the link: there is no communication of a known size."),
    }[chart]


def _tables(diagnosis: Diagnosis) -> Iterator[tuple[str, SortedTable]]:
    """Those that have rows. Of very many ranks only the ones that stand out are listed."""
    for name in ("phases", "kernels", "host", "collectives"):
        shown = TABLES[name](diagnosis, verbose=True)
        if shown.rows:
            yield name, sorted_table(shown)
    if len(diagnosis.ranks) > 1:
        few = len(diagnosis.ranks) <= _MOST_RANK_ROWS
        yield "ranks", sorted_table(TABLES["ranks"](diagnosis, verbose=few))
    yield "sources", sorted_table(sources_table(diagnosis), _MOST_RANK_ROWS)


def _script_messages() -> dict[str, str]:
    """What report.js says."""
    return {
        "step": _("step"),
        "rank": _("rank"),
        "longest": _("longest of any rank"),
        "caused": _("others waited for it"),
        "intensity": _("FLOP per byte of memory traffic"),
        "rate": _("FLOP/s"),
        "size": _("payload in bytes"),
        "bus": _("bus bandwidth in bytes per second"),
        "memory_roof": _("memory {rate}"),
        "copy": _("Copy"),
        "copied": _("Copied"),
        **table_text(),
    }
