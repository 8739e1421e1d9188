"""The diagnosis of a job as one HTML file that needs nothing else: no network, no server, no other file."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from redline import __version__
from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.outline import Outline
from redline.analysis.rank.strip import Strip
from redline.findings.finding import Findings
from redline.report.diagnose_screen import Screen, screen_of
from redline.report.diagnose_tables import TABLES
from redline.report.html import accounts, figures
from redline.report.html.cards import page_cards
from redline.report.html.definitions import account_definitions, definitions
from redline.report.html.facts import facts_of, on_cpu
from redline.report.html.policy import embedded_json, policy_of, script_of
from redline.report.html.reading import dropped_words, failure_words, sources_table
from redline.report.html.strip_figure import gap_sentence, left_out, strip_figure
from redline.report.html.tables import sorted_table
from redline.report.language import _, spoken
from redline.report.layout import glued
from redline.report.redaction import Removed
from redline.report.words import percent, printable
from redline.trace.job import Failure
from redline.units import format_ns

_FOLDER = Path(__file__).parent
_OPEN_CARDS = 4  # the first ones are shown whole, the others as a line that opens
_MOST_RANK_ROWS = 256


def render(
    diagnosis: Diagnosis,
    outline: Outline,
    findings: Findings,
    failures: Sequence[Failure] = (),
    *,
    strip: Strip | None = None,
    trace_link: str | None = None,
    removed: Sequence[Removed] | None = None,
) -> str:
    """`strip` is a usual step, where its trace was at hand; `trace_link` the name of a trace beside the report.

    `removed` is what was taken out of all this, where it was looked for.
    """
    screen = screen_of(diagnosis, outline, findings, failures, removed)
    charts, missing = _charts(diagnosis, strip)
    tables = {name: asdict(table) for name, table in _tables(diagnosis)}
    data = {"charts": charts, "tables": tables, "words": _script_words()}
    scripts = script_of(get_plotlyjs()), script_of(_file("report.js"))
    codes = {one.code for one in (*findings.findings, *findings.remarks)}
    cards = page_cards(findings.findings, len(diagnosis.ranks), codes)
    return _template().render(
        _=_,
        language={"zh": "zh-CN"}.get(spoken(), spoken()),
        version=__version__,
        policy=policy_of(scripts),
        scripts=scripts,
        style=Markup(_file("style.css")),  # a file that we ship
        data=embedded_json(data),
        job=_job_name(diagnosis),
        screen=screen,
        facts=facts_of(diagnosis, outline),
        waterfall=list(_waterfall(screen)),
        redline=_redline(outline),
        cards=cards[:_OPEN_CARDS],
        more_cards=cards[_OPEN_CARDS:],
        remarks=page_cards(findings.remarks, len(diagnosis.ranks), codes),
        charts=charts,
        tables=tables,
        missing=missing,
        strip=_strip_words(strip),
        trace_link=None if trace_link is None else (trace_link, f"./{quote(trace_link)}"),
        account_definitions=account_definitions(on_cpu=on_cpu(diagnosis)),
        definitions=definitions(),
        dropped=dropped_words(diagnosis),
        failures=failure_words(failures),
        roofline_note=charts["roofline"]["left_out"] if "roofline" in charts else "",
        steps_per_bar=charts["steps"]["steps_per_bar"] if "steps" in charts else 1,
        ranks_per_column=charts["ranks"]["ranks_per_column"] if "ranks" in charts else 1,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["glued"] = glued
    return environment.get_template("template.html.j2")


def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _job_name(diagnosis: Diagnosis) -> str:
    """The file, or the folder, that most of the job is in."""
    sources = [Path(rank.origin.source.partition("!")[0]) for rank in diagnosis.ranks]
    if len(set(sources)) == 1:
        return printable(sources[0].name, 80)
    folders = {source.parent for source in sources}
    name = folders.pop().name if len(folders) == 1 else ""
    return printable(name or sources[0].name, 80)


# --- the first screen -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WaterfallRow:
    """One account; positions in percent of the step."""

    code: str
    name: str
    time: str
    share: str
    start: float
    width: float


def _waterfall(screen: Screen) -> Iterator[WaterfallRow]:
    for line in screen.waterfall:
        yield WaterfallRow(
            code=accounts.code(line.of),
            name=line.account,
            time=line.time,
            share=line.share,
            start=round(100 * line.start, 3),
            width=round(100 * (line.end - line.start), 3),
        )


def _redline(outline: Outline) -> float:
    """Where the arithmetic ends, in percent of the step; 0 where none of it is rated."""
    math = outline.waterfall[0]
    return round(100 * math.share, 3)


# --- charts and tables ------------------------------------------------------------------------------------------------


def _charts(diagnosis: Diagnosis, strip: Strip | None) -> tuple[dict[str, Any], list[str]]:
    """The data of all charts that have any, and why the others have none."""
    found: dict[str, Any] = {}
    missing = []
    if max(len(rank.ledger.start_ns) for rank in diagnosis.ranks) > 1:
        found["steps"] = figures.steps_figure(diagnosis)
    else:
        missing.append(_("Step times: there is one step only."))
    if strip is not None:
        found["strip"] = strip_figure(strip)
    else:
        missing.append(_("One step: drawn from the trace itself, and a digest was given, or nothing takes any time."))
    if len(diagnosis.ranks) > 1:
        found["ranks"] = figures.ranks_figure(diagnosis)
    else:
        missing.append(_("Ranks: there is one rank only."))
    roofline = figures.roofline_figure(diagnosis)
    if roofline is not None:
        found["roofline"] = roofline
    else:
        missing.append(_("Roofline: no operator has both known arithmetic and a machine whose peaks are known."))
    collectives = figures.collectives_figure(diagnosis)
    if collectives is not None:
        found["collectives"] = collectives
    else:
        missing.append(_("Collectives against the link: there is no communication of a known size."))
    return {name: asdict(figure) for name, figure in found.items()}, missing


def _tables(diagnosis: Diagnosis) -> Iterator[tuple[str, Any]]:
    for name in ("kernels", "host", "collectives"):
        shown = TABLES[name](diagnosis, verbose=True)
        if shown.rows:
            yield name, sorted_table(shown)
    if len(diagnosis.ranks) > 1:
        few = len(diagnosis.ranks) <= _MOST_RANK_ROWS
        yield "ranks", sorted_table(TABLES["ranks"](diagnosis, verbose=few))
    yield "sources", sorted_table(sources_table(diagnosis), _MOST_RANK_ROWS)


@dataclass(frozen=True, kw_only=True)
class StripWords:
    rank: int
    number: int
    label: str
    length: str
    pixel: str
    gaps: tuple[str, ...]
    gaps_share: str  # of the idle time of the step
    left_out: str


def _strip_words(strip: Strip | None) -> StripWords | None:
    if strip is None:
        return None
    gaps_ns = sum(gap.end_ns - gap.start_ns for gap in strip.gaps)
    return StripWords(
        rank=strip.rank,
        number=strip.number,
        label=printable(strip.label, 60),
        length=format_ns(strip.length_ns),
        pixel=format_ns(strip.pixel_ns),
        gaps=tuple(map(gap_sentence, strip.gaps)),
        gaps_share=percent(gaps_ns / strip.idle_ns) if strip.idle_ns else "",
        left_out=left_out(strip),
    )


def _script_words() -> dict[str, str]:
    """What report.js says."""
    return {
        "step": _("step"),
        "rank": _("rank"),
        "longest": _("longest of any rank"),
        "of_step": _("% of the average step"),
        "caused": _("others waited for it"),
        "intensity": _("FLOP per byte of memory traffic"),
        "rate": _("FLOP/s"),
        "size": _("payload in bytes"),
        "bus": _("bus bandwidth in bytes per second"),
        "memory_roof": _("memory {rate}"),
        "filter": _("Filter"),
        "rows": _("{shown} of {all} rows"),
        "show_all": _("Show all {all} rows"),
        "show_fewer": _("Show fewer"),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "waiting_included": _("waiting included"),
    }
