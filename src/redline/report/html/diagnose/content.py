"""What a report has to show: the data of its charts and tables, and why some of them are not there."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.step_view import StepView
from redline.report.diagnose.tables import TABLES
from redline.report.html.diagnose import figures
from redline.report.html.diagnose.sources_table import sources_table
from redline.report.html.diagnose.step_view_figure import step_view_figure
from redline.report.html.tables import SortedTable, sorted_table, table_text
from redline.report.language import _

_MOST_RANK_ROWS = 256


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """By name; plain values, as the scripts of the page get them."""

    charts: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Mapping[str, Any]]
    missing: tuple[str, ...]  # why charts are not there

    def of_chart(self, chart: str, value: str) -> Any:
        """None where the chart is not there."""
        return self.charts[chart][value] if chart in self.charts else None


def content_of(diagnosis: Diagnosis, view: StepView | None) -> PageContent:
    by_name = {
        "steps": figures.steps_figure(diagnosis) if _most_steps(diagnosis) > 1 else None,
        "strip": step_view_figure(view) if view is not None else None,
        "ranks": figures.ranks_figure(diagnosis) if len(diagnosis.ranks) > 1 else None,
        "roofline": figures.roofline_figure(diagnosis),
        "collectives": figures.collectives_figure(diagnosis),
    }
    return PageContent(
        charts={name: asdict(figure) for name, figure in by_name.items() if figure is not None},
        tables={name: asdict(table) for name, table in _tables(diagnosis)},
        missing=tuple(_why_missing(name) for name, figure in by_name.items() if figure is None),
    )


def _most_steps(diagnosis: Diagnosis) -> int:
    return max(len(rank.ledger.start_ns) for rank in diagnosis.ranks)


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


def script_messages() -> dict[str, str]:
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
