"""RL-N11: large collectives are far slower than the links inside a node, or than the network of a usual server."""

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import exchanges_where, last_part, time_of
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import CollectiveSeries
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.trace.schema import ENDS_TOGETHER

LARGE_BYTES = 4_000_000  # a smaller one is mostly latency
LATENCY_NS = 100_000  # of a collective among few ranks, at most
LATENCY_PER_RANK_NS = 10_000
SLOW_SHARE = 0.6  # of the link inside a node
SLOW_NETWORK_SHARE = 0.3  # of one network card for each device: servers differ more in their networks


@dataclass(frozen=True)
class _Slow:
    """Collectives of one kind and size that use less of their link than they could."""

    row: CollectiveRow
    link_bytes_per_s: float  # the most that it can be
    across_nodes: bool = False

    @property
    def bus_bytes_per_s(self) -> float:
        return self.row.bus_bytes_per_s or 0.0

    @property
    def saved_share(self) -> float:
        return 1 - self.bus_bytes_per_s / self.link_bytes_per_s


@dataclass(frozen=True)
class _Links:
    """Of a machine; 0 where one is not known."""

    fabric_bytes_per_s: float
    pair_bytes_per_s: float
    nic_bytes_per_s: float
    devices: int


_Kind = tuple[str, int, int]
_Node = tuple[int, str]


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
    machines = {
        _Links(facts.fabric_bytes_per_s, facts.pair_bytes_per_s, facts.nic_bytes_per_s, facts.fabric_devices)
        for facts in (rank.facts for rank in diagnosis.ranks)
    }
    if len(machines) > 1:
        return {}
    (links,) = machines
    large = {
        _kind(row): row
        for row in diagnosis.collectives
        if row.collective in ENDS_TOGETHER and row.payload_bytes >= LARGE_BYTES and row.matched
    }
    slow = {}
    for kind, groups in _groups(diagnosis, large).items():
        found = _slow_one(large[kind], groups, links)
        if found is not None:
            slow[kind] = found
    return slow


def _slow_one(row: CollectiveRow, nodes: Sequence[Counter[_Node]], links: _Links) -> _Slow | None:
    bus_bytes_per_s = (row.bus_bytes_per_s or 0.0) * row.typical_ns / _transfer_ns(row)
    if all(len(members) == 1 for members in nodes):
        link = _inside(row.group_size, links)
        return _Slow(row, link) if 0 < bus_bytes_per_s < SLOW_SHARE * link else None
    if not 0 < bus_bytes_per_s < SLOW_NETWORK_SHARE * links.nic_bytes_per_s:
        return None
    cards = max(count for members in nodes for count in members.values())
    return _Slow(row, min(cards * links.nic_bytes_per_s, links.fabric_bytes_per_s or math.inf), across_nodes=True)


def _transfer_ns(row: CollectiveRow) -> float:
    """What of its time is not latency; at least a fifth, so that a short one does not become fast."""
    return max(row.typical_ns - LATENCY_NS - LATENCY_PER_RANK_NS * row.group_size, row.typical_ns / 5, 1.0)


def _inside(group_size: int, links: _Links) -> float:
    """What a device can send to the others of such a group inside its node; 0 where that is not known."""
    if not 1 < group_size <= links.devices:
        return 0.0
    if links.pair_bytes_per_s:
        return min(links.fabric_bytes_per_s, links.pair_bytes_per_s * (group_size - 1))
    # a mesh: fewer devices have fewer links
    return links.fabric_bytes_per_s if group_size == links.devices else 0.0


def _groups(diagnosis: Diagnosis, kinds: Container[_Kind]) -> dict[_Kind, list[Counter[_Node]]]:
    """Of each kind of collective how many ranks of each of its groups are in which node, as launchers number them."""
    devices = max(diagnosis.ranks[0].facts.fabric_devices, 1)
    hosts = {rank.origin.rank: rank.origin.host for rank in diagnosis.ranks if rank.origin.host}
    usual_hosts = {number // devices: host for number, host in hosts.items()}  # for ranks that were not recorded
    anywhere = tuple(range(diagnosis.world_size or devices + 1))  # where a group is known by name only
    by_kind: dict[_Kind, set[tuple[int, ...]]] = {}
    for rank in diagnosis.ranks:
        for series in rank.series:
            if _kind(series) in kinds:
                by_kind.setdefault(_kind(series), set()).add(series.ranks or anywhere)

    def node_of(number: int) -> _Node:
        return number // devices, hosts.get(number) or usual_hosts.get(number // devices, "")

    return {kind: [Counter(map(node_of, group)) for group in groups] for kind, groups in by_kind.items()}


def _figures(slow: _Slow) -> dict[str, float]:
    return {
        "payload_bytes": float(slow.row.payload_bytes),
        "ranks": float(slow.row.group_size),
        "bus_bytes_per_s": slow.bus_bytes_per_s,
        "link_bytes_per_s": slow.link_bytes_per_s,
        "across_nodes": float(slow.across_nodes),
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
    if figures["across_nodes"]:
        yield Evidence(
            "These ranks are in several nodes: the link is the network of a usual server with this device, and none of "
            "its collectives should be below {network_share} of one network card.",
            {"network_share": SLOW_NETWORK_SHARE},
        )


RULE = Rule(
    code="RL-N11",
    claims=ClaimOrder.AVOIDABLE_TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
)
