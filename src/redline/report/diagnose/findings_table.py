"""The table of findings, as cells: every one with its bound, what it can gain alone, and what it does to numbers."""

from redline.findings.evidence import Grade
from redline.findings.finding import Finding, Findings
from redline.findings.pages import page_of
from redline.numerics import Numerics
from redline.report.diagnose.finding_messages import speedup_text
from redline.report.document import ReportTable
from redline.report.language import _, spoken
from redline.report.text_parts import percent
from redline.units import format_count, format_ns


def findings_table(findings: Findings) -> ReportTable:
    """With forecasts where the steps were replayed."""
    listed = (*findings.findings, *findings.remarks)
    replayed = any(finding.forecast is not None for finding in listed)
    return ReportTable(
        title=_("findings"),
        head=(
            _("code"),
            _("title"),
            _("bound"),
            _("share"),
            _("alone"),
            _("as fast"),
            *((_("forecast"),) if replayed else ()),
            _("numerics"),
            _("grade"),
            _("ranks"),
        ),
        rows=tuple(_row(finding, replayed=replayed) for finding in listed),
        notes=(
            _("bound: share of the average step that no other finding claims, so bounds add up"),
            _("alone: as the only fix, share of the average step; as fast: at most, for steps of typical length"),
            *((_("forecast: as the only fix, by a replay of the steps; never more than alone"),) if replayed else ()),
        ),
        empty=_("nothing was found"),
    )


def _row(finding: Finding, *, replayed: bool) -> tuple[str, ...]:
    claims = bool(finding.alone_ns)
    return (
        finding.code,
        page_of(finding.code, spoken()).title,
        format_ns(round(finding.bound_ns)) if claims else "-",
        percent(finding.share) if claims else "-",
        percent(finding.alone_share) if claims else "-",
        speedup_text(finding) if claims else "-",
        *((_forecast(finding),) if replayed else ()),
        numerics_text(finding.numerics),
        grade_text(finding.grade),
        format_count(finding.ranks),
    )


def _forecast(finding: Finding) -> str:
    return "-" if finding.forecast_ns is None else percent(finding.expected_share)


def numerics_text(numerics: Numerics) -> str:
    return {
        Numerics.BITWISE: _("bitwise"),
        Numerics.REASSOCIATION: _("reassociation"),
        Numerics.LOWER_PRECISION: _("lower precision"),
        Numerics.SEMANTICS: _("changes semantics"),
    }[numerics]


def grade_text(grade: Grade) -> str:
    return {
        Grade.MEASURED: _("measured"),
        Grade.DOCUMENTED: _("documented"),
        Grade.HYPOTHESIS: _("hypothesis"),
    }[grade]
