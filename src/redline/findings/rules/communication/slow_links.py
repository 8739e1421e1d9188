"""RL-N11: large collectives inside a node are far slower than its links."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from redline.analysis.job.collective_table import CollectiveRow
from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import CollectiveSeries
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import exchanges_where, last_part, time_of
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.timeline.intervals import Intervals
from redline.trace.schema import ENDS_TOGETHER

LARGE_BYTES = 32_000_000  # below this, latency is part of the time
SLOW_SHARE = 0.6  # of the link


@dataclass(frozen=True)
class _Slow:
    """Collectives of one kind and size that use less of their link than they could."""

    row: CollectiveRow
    link_bytes_per_s: float

    @property
    def bus_bytes_per_s(self) -> float:
        return self.row.bus_bytes_per_s or 0.0

    @property
    def saved_share(self) -> float:
        return 1 - self.bus_bytes_per_s / self.link_bytes_per_s


_Kind = tuple[str, int, int]


def _kind(exchange: CollectiveSeries | CollectiveRow) -> _Kind:
    return exchange.collective, exchange.group_size, exchange.payload_bytes


def _is_of(kind: _Kind, series: CollectiveSeries) -> bool:
    return _kind(series) == kind


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """Only where several ranks were recorded: how long others waited must be known."""
    slow = _slow_ones(diagnosis)
    if not slow:
        return None
    claims = [_claim(rank, waiting, slow) for rank, waiting in zip(diagnosis.ranks, diagnosis.waiting, strict=True)]
    worst = max(slow.values(), key=lambda of_kind: of_kind.row.exposed_ns * of_kind.saved_share)
    return JobMatch(claims=claims, figures=_figures(worst), names={"collective": worst.row.collective})


def _claim(rank: Digest, waiting: Intervals, slow: Mapping[_Kind, _Slow]) -> Intervals:
    claim = Intervals.empty()
    for kind in {_kind(series) for series in rank.series} & slow.keys():
        chosen = exchanges_where(rank, partial(_is_of, kind))
        claim |= last_part(time_of(rank, chosen) - waiting, slow[kind].saved_share)
    return claim


def _slow_ones(diagnosis: Diagnosis) -> dict[_Kind, _Slow]:
    """By kind, in the order of the table."""
    facts = {
        (rank.facts.fabric_bytes_per_s, rank.facts.pair_bytes_per_s, rank.facts.fabric_devices)
        for rank in diagnosis.ranks
    }
    if len(facts) > 1:
        return {}
    (machine,) = facts
    by_kind = {}
    for row in diagnosis.collectives:
        if row.collective not in ENDS_TOGETHER or row.payload_bytes < LARGE_BYTES or not row.matched:
            continue
        slow = _Slow(row, _link(row.group_size, *machine))
        if slow.link_bytes_per_s and 0 < slow.bus_bytes_per_s < SLOW_SHARE * slow.link_bytes_per_s:
            by_kind[_kind(row)] = slow
    return _in_one_node(by_kind, diagnosis) if by_kind else {}


def _link(group_size: int, fabric: float, pair: float, devices: int) -> float:
    """What a device can send to the others of such a group inside its node; 0 where that is not known."""
    if not 1 < group_size <= devices:
        return 0.0
    if pair:
        return min(fabric, pair * (group_size - 1))
    return fabric if group_size == devices else 0.0  # a mesh: fewer devices have fewer links


def _in_one_node(slow: Mapping[_Kind, _Slow], diagnosis: Diagnosis) -> dict[_Kind, _Slow]:
    """Those whose ranks are, in every group, neighbours on one host, as launchers number them."""
    groups: dict[_Kind, set[tuple[int, ...]]] = {kind: set() for kind in slow}
    for rank in diagnosis.ranks:
        for series in rank.series:
            if _kind(series) in groups:
                groups[_kind(series)].add(series.ranks)
    devices = diagnosis.ranks[0].facts.fabric_devices
    anywhere = tuple(range(diagnosis.world_size or devices + 1))  # where a group is known by name only
    hosts = {rank.origin.rank: rank.origin.host for rank in diagnosis.ranks}
    return {
        kind: of_kind
        for kind, of_kind in slow.items()
        if all(_is_node(ranks or anywhere, devices, hosts) for ranks in groups[kind])
    }


def _is_node(ranks: Sequence[int], devices: int, hosts: Mapping[int, str]) -> bool:
    known = {hosts.get(rank, "") for rank in ranks} - {""}
    return min(ranks) // devices == max(ranks) // devices and len(known) <= 1


def _figures(slow: _Slow) -> dict[str, float]:
    return {
        "payload_bytes": float(slow.row.payload_bytes),
        "ranks": float(slow.row.group_size),
        "bus_bytes_per_s": slow.bus_bytes_per_s,
        "link_bytes_per_s": slow.link_bytes_per_s,
    }


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    figures = totals.figures
    yield Evidence(
        "{collective} of {payload_bytes} over {ranks} ranks reaches a bus bandwidth of {bus_bytes_per_s} "
        "once all ranks have arrived, {link_share} of the link's {link_bytes_per_s}. At full link speed, "
        "{saved_ns} of each {step_ns} step would no longer be exposed.",
        {
            "collective": totals.names["collective"],
            **{name: figures[name] for name in ("payload_bytes", "ranks", "bus_bytes_per_s", "link_bytes_per_s")},
            "link_share": figures["bus_bytes_per_s"] / figures["link_bytes_per_s"],
            "saved_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-N11",
    claims=ClaimOrder.AVOIDABLE_TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
)
