"""Findings as the page shows them: what it is worth, the evidence, the fix, and all that its page says besides."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from redline.findings.evidence import Grade
from redline.findings.finding import ClaimedTime, Finding
from redline.findings.pages import SECTIONS
from redline.report.diagnose import account_messages
from redline.report.diagnose.finding_messages import as_fast_text, speedup_text
from redline.report.diagnose.findings_screen import Card, card_of
from redline.report.diagnose.tables import grade_text, numerics_text
from redline.report.html.prose import prose
from redline.report.language import _, spoken
from redline.report.text_parts import percent
from redline.units import format_ns

_WORTH_SAYING = 1.1  # times as fast
_LEAST_SHOWN = 0.0005  # of the step: less is shown as 0.0 %
_MOST_PLACES = 3
_MORE = ("cause", "thorough_fix", "bound", "numerics", "ignore", "fooled", "sources")


def page_cards(findings: Sequence[Finding], ranks: int, codes: Collection[str]) -> list[dict[str, Any]]:
    """For a job of so many ranks, in a report of these findings."""
    return [_page_card(finding, card_of(finding), ranks, codes) for finding in findings]


def _page_card(finding: Finding, card: Card, ranks: int, codes: Collection[str]) -> dict[str, Any]:
    claims = bool(finding.alone_ns)
    return {
        "code": finding.code,
        "title": card.title,
        "share": percent(finding.expected_share) if claims else "",  # of the step, what findings are ordered by
        "gains": finding.expected_share >= _LEAST_SHOWN,
        "times": speedup_text(finding) if claims and finding.speedup > _WORTH_SAYING else "",
        "as_fast": as_fast_text(finding),
        "bound": card.gain,  # all of this as a sentence
        "forecast": card.forecast,
        "segments": list(_segments(finding)),
        "evidence": card.evidence,
        "fix_here": card.fix_here,
        "fix": prose(card.page.smallest_fix, codes),
        "numerics": numerics_text(finding.numerics),
        "numerics_class": account_messages.colour(finding.numerics),
        "grade": grade_text(finding.grade),
        "is_hypothesis": finding.grade == Grade.HYPOTHESIS,
        "ranks": _on_ranks(finding.ranks, ranks),
        "places": list(map(_place, finding.places[:_MOST_PLACES])),
        "parts": [(heading(part), prose(getattr(card.page, part), codes)) for part in _MORE],
    }


def _segments(finding: Finding) -> Iterator[dict[str, Any]]:
    """Parts of a bar that is as wide as the step."""
    for account, amount_ns in finding.accounts.items():
        if finding.step_ns and amount_ns > 0:
            width = round(100 * amount_ns / finding.step_ns, 2)
            name = account_messages.name(account)
            yield {"code": account_messages.colour(account), "name": name, "percent": width}


def heading(part: str) -> str:
    """Of a part of a page, in the language that is spoken now."""
    english, chinese = SECTIONS[part]
    return chinese if spoken() == "zh" else english


def _on_ranks(seen: int, ranks: int) -> str:
    """Where not all ranks have it."""
    if ranks == 1 or seen >= ranks or not seen:
        return ""
    return _("on {seen:,} of {ranks:,} ranks").format(seen=seen, ranks=ranks)


def _place(place: ClaimedTime) -> str:
    return _("rank {rank}: {time}, from {start} after its window began").format(
        rank=place.rank, time=format_ns(place.end_ns - place.start_ns), start=format_ns(place.start_ns)
    )
