"""The diagnosis of a job as one HTML file that needs nothing else: no network, no server, no other file."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from redline.findings.finding import Findings
from redline.ledger.job.combine import Diagnosis
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.html.diagnose.cards import page_cards
from redline.report.html.diagnose.content import PageContent, content_of, script_messages
from redline.report.html.diagnose.definitions import account_definitions, definitions
from redline.report.html.diagnose.facts import facts_of, on_cpu
from redline.report.html.diagnose.headline import Headline, headline_of
from redline.report.html.diagnose.request_bars import request_panel
from redline.report.html.diagnose.sources_table import dropped_text, failure_text
from redline.report.html.diagnose.step_view_messages import step_view_texts
from redline.report.html.diagnose.waterfall import redline_percent, waterfall_rows
from redline.report.html.frame import frame, template
from redline.report.language import sentences
from redline.report.serving.serving_tables import verdict_text
from redline.report.text_parts import clipped
from redline.storage import path_of

if TYPE_CHECKING:
    from redline.report.html.diagnose.memory_panel import MemoryPanel
    from redline.report.html.diagnose.replay_panel import ReplayPanel

_OPEN_CARDS = 4  # the first ones are shown whole, the others as a line that opens
_NAME_LIMIT = 80


def render(result: DiagnoseResult, *, trace_link: str | None = None) -> str:
    """`trace_link` is the name of a trace beside the report."""
    diagnosis, outline, findings = result.diagnosis, result.outline, result.findings
    screen = screen_of(result)
    content = content_of(diagnosis, result.step_view)
    return template("diagnose/page.html.j2").render(
        **frame(_job_name(diagnosis), charts=content.charts, tables=content.tables, words=script_messages()),
        **_notes(content),
        **_findings(findings, len(diagnosis.ranks)),
        screen=screen,
        headline=_headline(result, screen),
        memory=_memory(screen),
        replayed=_replayed(result),
        facts=facts_of(diagnosis, outline, findings.verdict, result.captured),
        waterfall=list(waterfall_rows(screen)),
        redline=redline_percent(outline),
        requests=None if result.serving is None else request_panel(result.serving),
        step_view=None if result.step_view is None else step_view_texts(result.step_view),
        trace_link=None if trace_link is None else (trace_link, f"./{quote(trace_link)}"),
        account_definitions=account_definitions(on_cpu=on_cpu(diagnosis)),
        definitions=definitions(),
        dropped=dropped_text(diagnosis),
        failures=failure_text(result.failures),
    )


def _headline(result: DiagnoseResult, screen: Screen) -> Headline:
    """Of an engine, its requests come first. No job is called healthy beside which memory grows."""
    of_traces = headline_of(result.findings, result.outline)
    if result.findings.verdict.healthy:
        of_traces = replace(of_traces, text=sentences([of_traces.text, screen.growth]))
    else:
        of_traces = replace(of_traces, why=sentences([of_traces.why, screen.growth]))
    if result.serving is None:
        return replace(of_traces, text=sentences([result.about, of_traces.text]))
    text = sentences([result.about, verdict_text(result.serving)])
    return replace(of_traces, text=text, why=sentences([of_traces.text, of_traces.why]))


def _memory(screen: Screen) -> "MemoryPanel | None":
    if screen.memory is None:
        return None
    from redline.report.html.diagnose.memory_panel import memory_panel

    return memory_panel(screen.memory)


def _replayed(result: DiagnoseResult) -> "ReplayPanel | None":
    if result.replayed is None:
        return None
    from redline.report.html.diagnose.replay_panel import replay_panel

    return replay_panel(result.replayed)


def _notes(content: PageContent) -> dict[str, Any]:
    """What is said about charts beside them."""
    return {
        "missing": content.missing,
        "roofline_note": content.of_chart("roofline", "left_out") or "",
        "steps_per_bar": content.of_chart("steps", "steps_per_bar") or 1,
        "ranks_per_column": content.of_chart("ranks", "ranks_per_column") or 1,
    }


def _findings(findings: Findings, ranks: int) -> dict[str, Any]:
    codes = {finding.code for finding in (*findings.findings, *findings.remarks)}
    cards = page_cards(findings.findings, ranks, codes)
    return {
        "cards": cards[:_OPEN_CARDS],
        "more_cards": cards[_OPEN_CARDS:],
        "remarks": page_cards(findings.remarks, ranks, codes),
    }


def _job_name(diagnosis: Diagnosis) -> str:
    """The file, or the folder, that most of the job is in."""
    sources = [path_of(rank.origin.source.partition("!")[0]) for rank in diagnosis.ranks]
    if len(set(sources)) == 1:
        return clipped(sources[0].name, _NAME_LIMIT)
    folders = {source.parent for source in sources}
    name = folders.pop().name if len(folders) == 1 else ""
    return clipped(name or sources[0].name, _NAME_LIMIT)
