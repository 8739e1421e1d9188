"""The diagnosis of a job as one HTML file that needs nothing else: no network, no server, no other file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings
from redline.findings.pages import page_of
from redline.findings.replayed import ReplayedJob
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
from redline.report.diagnose.memory_screen import MemoryPeak
from redline.report.diagnose.replay_messages import what_if_table
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import TABLES
from redline.report.document import (
    Chart,
    Items,
    LabelledLines,
    PageBlock,
    PageDocument,
    Paragraph,
    Section,
    TemplateDrawing,
    titled,
)
from redline.report.html.diagnose import figures
from redline.report.html.diagnose.cards import page_cards
from redline.report.html.diagnose.definitions import account_definitions, definitions
from redline.report.html.diagnose.facts import dropped_text, facts_of, failure_text, sources_table
from redline.report.html.diagnose.panels import path_panel, request_panel
from redline.report.html.diagnose.step_view_figure import step_view_figure, step_view_texts
from redline.report.language import _, sentences, spoken
from redline.report.markdown import capitalised
from redline.report.serving.serving_tables import verdict_text
from redline.report.text_parts import clipped
from redline.storage import path_of

_OPEN_CARDS = 4  # the first ones are shown whole, the others as a line that opens
_MOST_RANK_ROWS = 256
_NAME_LIMIT = 80

_Charts = Mapping[str, Any]  # by name; None for what there is nothing to draw of


def page_of_job(job: DiagnosedJob, *, trace_link: str | None = None) -> PageDocument:
    """`trace_link` is the name of a trace beside the report."""
    screen = screen_of(job)
    headline = _headline(job, screen)
    caveats = [*headline.caveats, *(f"{card.title}: {' '.join(card.evidence[:1])}" for card in screen.remarks)]
    said = (screen.headline if screen.predicted or screen.altered else "", headline.why, " ".join(caveats))
    return PageDocument(
        title=_job_name(job.diagnosis),
        headline=headline.text,
        said=tuple(filter(None, said)),
        caution=_("Before you act") if caveats else "",
        facts=tuple(facts_of(job)),
        sections=tuple(_sections(job, screen, trace_link)),
        words=_script_messages(),
    )


def _sections(job: DiagnosedJob, screen: Screen, trace_link: str | None) -> Iterator[Section]:
    diagnosis = job.diagnosis
    charts = _charts(job)
    replay = () if job.replayed is None else (_what_if(job.replayed), *_critical_path(job.replayed))
    asked = job.replayed is not None and bool(job.replayed.asked)
    if job.serving is not None:
        drawing = TemplateDrawing(template="diagnose/requests.html.j2", values=request_panel(job.serving))
        yield _section("requests", _("requests"), drawing, style="panel")
    yield from replay[:1] if asked else ()  # answers come first
    yield from _findings(job, screen)
    yield from replay[1:] if asked else replay
    if screen.memory is not None:
        yield _memory(screen.memory)
    yield from _steps(job, charts)
    yield Section(name="trace", style="tracelink", blocks=(_trace(trace_link),))
    yield from _work(diagnosis, charts)
    yield _reading(job, screen, charts)
    yield Section(
        name="definitions",
        title=_("How each number is defined"),
        blocks=(
            LabelledLines(
                title=_("Accounts: what the device of a rank did with its time"),
                lines=account_definitions(on_cpu=job.on_cpu),
            ),
            LabelledLines(title=_("Figures"), lines=definitions()),
        ),
    )


def _section(name: str, title: str, *blocks: PageBlock, style: str = "") -> Section:
    """With a link to it."""
    title = capitalised(title)
    return Section(name=name, link=title, title=title, blocks=blocks, style=style)


def _findings(job: DiagnosedJob, screen: Screen) -> Iterator[Section]:
    """The waterfall beside what to fix first, and then all of each finding."""
    findings, ranks = job.findings, len(job.diagnosis.ranks)
    codes = {finding.code for finding in (*findings.findings, *findings.remarks)}
    cards = page_cards(findings.findings, ranks, codes)
    values = {
        "screen": screen,
        "cards": cards[:_OPEN_CARDS],
        "more_cards": cards[_OPEN_CARDS:],
        "remarks": page_cards(findings.remarks, ranks, codes),
    }
    yield Section(style="first", blocks=(TemplateDrawing(template="diagnose/first.html.j2", values=values),))
    cards_drawing = TemplateDrawing(template="diagnose/findings.html.j2", values=values)
    yield _section("findings", _("findings"), cards_drawing)


def _what_if(replayed: ReplayedJob) -> Section:
    table = what_if_table(replayed)
    rows = tuple((row[0].replace("  ", "\u2003", 1), *row[1:]) for row in table.rows)  # pages fold blanks
    about = _("The steps replayed with something changed: whatever waited for it comes earlier or later.")
    said = Paragraph(text=about), Paragraph(text=capitalised(table.notes[0]))
    shown = replace(table, rows=rows, notes=(), name="what-if", title=_("scenario"))
    return _section("what-if", _("what if"), *said, *([shown] if rows else []), style="panel")


def _critical_path(replayed: ReplayedJob) -> Iterator[Section]:
    if replayed.path is not None and replayed.path.accounts:
        drawing = TemplateDrawing(template="diagnose/critical_path.html.j2", values=path_panel(replayed.path))
        yield _section("critical-path", _("critical path"), drawing, style="panel")


def _memory(peak: MemoryPeak) -> Section:
    return Section(
        name="memory",
        link=capitalised(_("memory")),
        title=capitalised(peak.accounts.title),
        blocks=(
            peak.accounts,
            LabelledLines(lines=(*peak.facts, (_("more"), f"`{peak.command}`"))),
            *([Items(title=_("What to change"), items=peak.causes, is_numbered=True)] if peak.causes else []),
            *([Items(items=peak.doubts)] if peak.doubts else []),
        ),
        style="panel",
    )


def _steps(job: DiagnosedJob, charts: _Charts) -> Iterator[Section]:
    """All of the window, and one of them drawn."""
    figure, view = charts["steps"], job.step_view
    if figure is not None:
        text = _("Each step of the window by account, average of the ranks.")
        bars = _("A bar is the average of {count} steps.").format(count=figure["steps_per_bar"])
        about = sentences([text, bars if figure["steps_per_bar"] > 1 else ""])
        chart = Chart(name="steps", data=figure, about=about)
        yield _section("steps", _("steps"), chart)
    if view is not None:
        texts = step_view_texts(view)
        gaps = _("The longest gaps, {share} of the idle time of this step") if texts["gaps_share"] else None
        title = _("The longest gaps") if gaps is None else gaps.format(share=texts["gaps_share"])
        left_out = Paragraph(text=_("Not drawn: {what}.").format(what=texts["left_out"]))
        yield _section(
            "step",
            _("One step"),
            Chart(name="strip", data=charts["strip"], about=texts["about"]),
            *([Items(title=title, items=tuple(texts["gaps"]), is_numbered=True)] if texts["gaps"] else []),
            *([left_out] if texts["left_out"] else []),
        )


def _trace(link: str | None) -> TemplateDrawing:
    href = "" if link is None else f"./{quote(link)}"
    return TemplateDrawing(template="diagnose/trace.html.j2", values={"name": link, "href": href})


def _work(diagnosis: Diagnosis, charts: _Charts) -> Iterator[Section]:
    """Ranks, kernels, collectives, phases and the host, those that have rows. Of very many ranks only the ones that
    stand out are listed."""
    few = len(diagnosis.ranks) <= _MOST_RANK_ROWS
    ranks, kernels = charts["ranks"], charts["roofline"]
    if ranks is not None:
        text = _("Accounts of each rank's average step, and how long all others waited for it.")
        columns = _(
            "A column is the average of {count} ranks; the table lists the ones that others waited for longest."
        ).format(count=ranks["ranks_per_column"])
        about = sentences([text, columns if ranks["ranks_per_column"] > 1 else ""])
        drawn = [Chart(name="ranks", data=ranks, about=about)]
        yield _section("ranks", _("ranks"), *drawn, *titled("ranks", "", TABLES["ranks"](diagnosis, verbose=few)))
    blocks: dict[str, list[PageBlock]] = {"kernels": [], "collectives": [], "phases": [], "host": []}
    if kernels is not None:
        about = _("Operators by arithmetic intensity and rate; the lines are the limits of the machine. Area is time.")
        blocks["kernels"].append(Chart(name="roofline", data=kernels, about=about))
        blocks["kernels"] += [Paragraph(text=f"{kernels['left_out']}.")] if kernels["left_out"] else []
    if charts["collectives"] is not None:
        about = _(
            "Bus bandwidth by size; the lines are the limits of the links, where the machine is known. Area is time; "
            "hollow marks include waiting, so their bandwidth is too low."
        )
        blocks["collectives"].append(Chart(name="collectives", data=charts["collectives"], about=about))
    for name, drawings in blocks.items():
        table = TABLES[name](diagnosis, verbose=True)
        if table.rows:
            yield _section(name, table.title, *drawings, *titled(name, "", table))


def _reading(job: DiagnosedJob, screen: Screen, charts: _Charts) -> Section:
    dropped, failures = tuple(dropped_text(job.diagnosis)), tuple(failure_text(job.failures))
    missing = tuple(_why_missing(name) for name, figure in charts.items() if figure is None)
    lists = (
        (_("Dropped while reading"), dropped),
        (_("Could not be read"), failures),
        (_("Left out of this report"), missing),
    )
    blocks: tuple[PageBlock, ...] = (
        LabelledLines(lines=screen.facts),
        *titled("sources", _("files"), sources_table(job.diagnosis)),
        *([] if dropped else [Paragraph(text=_("No event was dropped while reading."))]),
        *(Items(title=title, items=items) for title, items in lists if items),
    )
    title = _("What was read, and what was dropped")
    return Section(name="reading", link=_("Reading"), title=title, blocks=blocks)


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


def _charts(job: DiagnosedJob) -> _Charts:
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
    }
