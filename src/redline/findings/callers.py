"""Who called: the operator a person would recognise, and the line of their own program where stacks tell it."""

from collections.abc import Iterator

import numpy as np

from redline.findings.evidence import Evidence
from redline.findings.rule import MatchTotals
from redline.ledger.rank.host_activity import sites_of
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema


def caller_of(analysis: RankAnalysis, rows: I64, weight_ns: I64) -> dict[str, str]:
    """The heaviest operator around these rows of operators, calls or Python, and who called it."""
    timeline = analysis.timeline
    names = np.append(timeline.spans.name, NONE)[outermost_operators(timeline, rows)]
    sites = sites_of(timeline, rows)
    return {"operator": _heaviest(timeline, names, weight_ns), "site": _heaviest(timeline, sites, weight_ns)}


def site_of(totals: MatchTotals) -> Iterator[Evidence]:
    """A sentence on where it comes from, if that is known."""
    if totals.names.get("site"):
        yield Evidence("Most of it comes from {site}.", {"site": totals.names["site"]})


def outermost_operators(timeline: Timeline, rows: I64) -> I64:
    """The library's operator around each row that no other of them calls: of aten::to and the copy in it, aten::to."""
    spans = timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    calls_more = np.zeros(len(spans) + 1, bool)  # NONE is the last one
    calls_more[operators[matching(timeline, operators, schema.is_library_operator)]] = True
    return nearest_of(~calls_more[spans.parent], spans.parent, rows)


def _heaviest(timeline: Timeline, names: I64, weight_ns: I64) -> str:
    """The text with the most weight; "" where there is none."""
    known = names != NONE
    if not known.any():
        return ""
    return timeline.text(int(np.bincount(names[known], weight_ns[known]).argmax()))
