"""Exchanges whose transfer takes long: slow links, many small ones, all-to-alls."""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import partial
from operator import attrgetter

import numpy as np

from redline.findings import exposed as comm
from redline.findings.evidence import Grade
from redline.findings.rule import ClaimOrder, JobMatch, adds, alone, rule, says, total, value
from redline.findings.rules.communication_gradients import after_backward
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.backward_passes import FORWARD
from redline.ledger.rank.digest import Digest, Facts
from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.ledger.rank.rank_analysis import LATENCY_NS
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.trace.schema import ENDS_TOGETHER
from redline.values import dataclass

LARGE_BYTES = 4_000_000  # a smaller one is mostly latency
LINK_LATENCY_NS = 100_000  # of a collective among few ranks, at most
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


_LINKS = attrgetter("fabric_bytes_per_s", "pair_bytes_per_s", "nic_bytes_per_s", "fabric_devices")  # of a machine
_Kind = tuple[str, int, int]
_Node = tuple[int, str]


@rule("RL-N11", ClaimOrder.AVOIDABLE_TRANSFER, Numerics.BITWISE, Grade.DOCUMENTED)
@says(
    "{collective} of {payload_bytes} over {ranks} ranks reaches a bus bandwidth of {bus_bytes_per_s} "
    "once all ranks have arrived, {link_share} of the link's {link_bytes_per_s}. At full link speed, "
    "{saved_ns} of each {step_ns} step would no longer be exposed.",
    order="collective payload_bytes ranks bus_bytes_per_s link_bytes_per_s link_share saved_ns step_ns",
    payload_bytes=total("payload_bytes"),
    ranks=total("ranks"),
    bus_bytes_per_s=total("bus_bytes_per_s"),
    link_bytes_per_s=total("link_bytes_per_s"),
    link_share=value(lambda totals: totals.figures["bus_bytes_per_s"] / totals.figures["link_bytes_per_s"]),
    saved_ns=alone,
)
@says(
    "These ranks are in several nodes: the link is the network of a usual server with this device, and none of "
    "its collectives should be below {network_share} of one network card.",
    when="across_nodes",
    network_share=value(lambda _: SLOW_NETWORK_SHARE),
)
def slow_links(diagnosis: Diagnosis) -> JobMatch | None:
    """Large collectives are far slower than the links inside a node, or than the network of a usual server.

    Only where several ranks were recorded: how long others waited must be known.
    """
    slow = _slow_ones(diagnosis)
    if not slow:
        return None
    claims = [_claim(rank, waiting, slow) for rank, waiting in zip(diagnosis.ranks, diagnosis.waiting, strict=True)]
    worst = max(slow.values(), key=lambda of_kind: of_kind.row.exposed_ns * of_kind.saved_share)
    return JobMatch(claims, **_figures(worst), collective=worst.row.collective)


def _kind(exchange: CollectiveSeries | CollectiveRow) -> _Kind:
    return exchange.collective, exchange.group_size, exchange.payload_bytes


def _is_of(kind: _Kind, series: CollectiveSeries) -> bool:
    return _kind(series) == kind


def _claim(rank: Digest, waiting: Intervals, slow: Mapping[_Kind, _Slow]) -> Intervals:
    claim = Intervals.empty()
    for kind in {_kind(series) for series in rank.series} & slow.keys():
        chosen = comm.exchanges_where(rank, partial(_is_of, kind))
        claim |= comm.last_part(comm.time_of(rank, chosen) - waiting, slow[kind].saved_share)
    return claim


def _slow_ones(diagnosis: Diagnosis) -> dict[_Kind, _Slow]:
    """By kind, in the order of the table."""
    links = diagnosis.ranks[0].facts
    if len({_LINKS(rank.facts) for rank in diagnosis.ranks}) > 1:
        return {}
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


def _slow_one(row: CollectiveRow, nodes: Sequence[Counter[_Node]], links: Facts) -> _Slow | None:
    bus_bytes_per_s = (row.bus_bytes_per_s or 0.0) * row.typical_ns / _transfer_ns(row)
    if all(len(members) == 1 for members in nodes):
        link = _inside(row.group_size, links)
        return _Slow(row, link) if 0 < bus_bytes_per_s < SLOW_SHARE * link else None
    if not 0 < bus_bytes_per_s < SLOW_NETWORK_SHARE * links.nic_bytes_per_s:
        return None
    cards = max(count for members in nodes for count in members.values())
    return _Slow(row, min(cards * links.nic_bytes_per_s, links.fabric_bytes_per_s or math.inf), across_nodes=True)


def _transfer_ns(row: CollectiveRow) -> float:
    """Its time without latency; at least a fifth, so that a short one does not become fast."""
    return max(row.typical_ns - LINK_LATENCY_NS - LATENCY_PER_RANK_NS * row.group_size, row.typical_ns / 5, 1.0)


def _inside(group_size: int, links: Facts) -> float:
    """The rate of a device to the others of such a group inside its node; 0 where that is not known."""
    if not 1 < group_size <= links.fabric_devices:
        return 0.0
    if links.pair_bytes_per_s:
        return min(links.fabric_bytes_per_s, links.pair_bytes_per_s * (group_size - 1))
    # a mesh: fewer devices have fewer links
    return links.fabric_bytes_per_s if group_size == links.fabric_devices else 0.0


def _groups(diagnosis: Diagnosis, kinds: Container[_Kind]) -> dict[_Kind, list[Counter[_Node]]]:
    """How many ranks of each group of each kind of collective are in which node, as launchers number them."""
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


SMALL_COLLECTIVES_SHARE = 0.03  # of the step
MOST_BYTES = 1024  # metrics, flags and sizes of objects; activations of one token are larger
BETWEEN_NS = 1_000_000  # Python that makes a number of a tensor, and calls the next collective
MANY_BROADCASTS = 8  # to a step: DDP joins its buffers to one or two, which RL-N04 is about
LEAST_PER_STEP = 3  # a norm of gradients and a flag of a scaler are usual


@rule("RL-N21", ClaimOrder.AVOIDABLE_TRANSFER, Numerics.BITWISE, Grade.DOCUMENTED, least_share=SMALL_COLLECTIVES_SHARE)
@says(
    "{exchanges:,} collectives per step, mostly {collective}, carry at most 1 KiB each, outside of the backward "
    "pass. They are exposed for {exposed_ns} of each {step_ns} step.",
    exposed_ns=alone,
)
@adds(comm.untold)
def small_collectives(diagnosis: Diagnosis) -> JobMatch | None:
    """A step exchanges many numbers one by one, and waits for each of them."""
    chosen = [_small(rank) for rank in diagnosis.ranks]
    if not comm.matter(diagnosis, chosen, SMALL_COLLECTIVES_SHARE):
        return None
    count = sum(int(mask.sum()) for mask in chosen)
    if count < LEAST_PER_STEP * diagnosis.rank_steps:
        return None
    return JobMatch(
        [comm.time_of(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)],
        [_between(rank, mask) for rank, mask in zip(diagnosis.ranks, chosen, strict=True)],
        exchanges=count,
        **comm.untold_figures(diagnosis),
        collective=_most_frequent(diagnosis, chosen),
    )


def _small(rank: Digest) -> Mask:
    """Outside of backward passes, where DDP and FSDP exchange flags of their own, and no gradients."""
    small = comm.begun_in_steps(rank, comm.exchanges_where(rank, _is_small))
    broadcasts = small & comm.exchanges_where(rank, lambda series: series.collective == "broadcast")
    if broadcasts.sum() < MANY_BROADCASTS * len(rank.ledger.start_ns):
        small &= ~broadcasts
    return small & (rank.exchanges.backward <= 0) & ~after_backward(rank)


def _between(rank: Digest, chosen: Mask) -> Intervals:
    """The time around those that follow each other closely: their numbers are made and read one by one."""
    return _in_a_row(rank, chosen) if rank.facts.device == "cpu" else _read_after(rank, chosen)


def _in_a_row(rank: Digest, chosen: Mask) -> Intervals:
    """Those of a CPU, with the Python that is between them."""
    start_ns, end_ns = rank.exchanges.start_ns[chosen], rank.exchanges.end_ns[chosen]
    joined = Intervals.union_of(start_ns - BETWEEN_NS, end_ns.astype(np.int64))
    return Intervals(joined.start + BETWEEN_NS, joined.end)


def _read_after(rank: Digest, chosen: Mask) -> Intervals:
    """Until the next exchange begins, what the device does not compute: the number is copied and read, and the next
    work launched only then."""
    rows = np.flatnonzero(chosen[:-1])
    if not len(rows):
        return Intervals.empty()
    spent = rank.spent.unpacked()
    computed_us = spent.compute_at_start_us[rows + 1] - spent.compute_at_end_us[rows]
    end_ns, next_ns = rank.exchanges.end_ns[rows].astype(np.int64), rank.exchanges.start_ns[rows + 1]
    return Intervals.union_of(end_ns, end_ns + np.clip(next_ns - end_ns - 1000 * computed_us, 0, LATENCY_NS))


def _is_small(series: CollectiveSeries) -> bool:
    """True also without a size: that is a single number."""
    is_number = series.in_elements < 0 and series.out_elements < 0 and bool(series.dtype)
    return series.collective not in (POINT_TO_POINT, "unknown") and (
        is_number or 0 < series.payload_bytes <= MOST_BYTES
    )


def _most_frequent(diagnosis: Diagnosis, chosen: list[Mask]) -> str:
    times: dict[str, int] = {}
    for rank, mask in zip(diagnosis.ranks, chosen, strict=True):
        for number in rank.exchanges.series[mask].tolist():
            collective = rank.series[number].collective
            times[collective] = times.get(collective, 0) + 1
    return max(times, key=lambda name: times[name])


EXPERT_ALL_TO_ALL_SHARE = 0.01  # of the step
EXPERT = frozenset({"expert_dispatch", "expert_combine"})
BACKWARD_SHARE = 0.5  # of the all-to-alls in the forward pass: tokens go both ways again, embeddings do not


@rule(
    "RL-N17",
    ClaimOrder.TRANSFER,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    least_share=EXPERT_ALL_TO_ALL_SHARE,
    applies_to_plans=True,
)
@says(
    "{exchanges:,} token exchanges between experts per step are exposed for {exposed_ns} of each {step_ns} step.",
    exposed_ns=alone,
)
@says(
    "Over the whole window, {window_exposed_ns} of their {window_ns} per rank is exposed.",
    window_exposed_ns=total("window_exposed_ns"),
    window_ns=total("window_ns"),
)
@adds(comm.untold)
def expert_all_to_all(diagnosis: Diagnosis) -> JobMatch | None:
    """The exchange of tokens between experts is not hidden behind computation."""
    chosen = [expert_exchanges(rank) for rank in diagnosis.ranks]
    if not comm.matter(diagnosis, chosen, EXPERT_ALL_TO_ALL_SHARE):
        return None
    ranks = list(zip(diagnosis.ranks, chosen, strict=True))
    return JobMatch(
        comm.transfer_of(diagnosis, chosen),
        comm.hidden_with(diagnosis, chosen),
        exchanges=sum(comm.begun_in_steps(rank, mask).sum() for rank, mask in ranks),
        window_exposed_ns=float(sum(comm.time_of(rank, mask).length_ns for rank, mask in ranks)) / len(ranks),
        window_ns=float(sum(_open_ns(rank, mask) for rank, mask in ranks)) / len(ranks),
        **comm.untold_figures(diagnosis),
    )


def expert_exchanges(rank: Digest) -> Mask:
    """Dispatch and combine kernels; and all-to-alls, where the backward pass has them as the forward pass does.

    Recommenders exchange embeddings by all-to-all as well: several times forward, once backward.
    """
    named = comm.exchanges_where(rank, lambda series: series.collective in EXPERT)
    plain = comm.exchanges_where(rank, lambda series: series.collective == "all_to_all")
    backward = rank.exchanges.backward
    forward = int((plain & (backward == FORWARD)).sum())
    is_expert = forward > 0 and int((plain & (backward > 0)).sum()) >= BACKWARD_SHARE * forward
    return named | plain if is_expert else named


def _open_ns(rank: Digest, chosen: Mask) -> int:
    """How long any of the chosen exchanges was open, hidden or not."""
    exchanges = rank.exchanges
    return int(np.sum(exchanges.end_ns[chosen] - exchanges.start_ns[chosen]))


EMBEDDING_ALL_TO_ALL_SHARE = 0.05  # of the step


@rule("RL-N24", ClaimOrder.TRANSFER, Numerics.BITWISE, Grade.DOCUMENTED, least_share=EMBEDDING_ALL_TO_ALL_SHARE)
@says(
    "{exchanges:,} all-to-alls per step, most of them in the forward pass as of sharded embeddings, are exposed "
    "for {exposed_ns} of each {step_ns} step: nothing is computed meanwhile."
)
@adds(comm.untold)
def embedding_all_to_all(diagnosis: Diagnosis) -> JobMatch | None:
    """The all-to-alls of sharded embeddings are not hidden behind computation."""
    chosen = [_exchanges(rank) for rank in diagnosis.ranks]
    if not comm.matter(diagnosis, chosen, EMBEDDING_ALL_TO_ALL_SHARE):
        return None
    transfers = comm.transfer_of(diagnosis, chosen)
    figures = {
        "exchanges": float(
            sum(comm.begun_in_steps(rank, mask).sum() for rank, mask in zip(diagnosis.ranks, chosen, strict=True))
        ),
        "exposed_ns": comm.in_steps_ns(diagnosis, transfers),
        **comm.untold_figures(diagnosis),
    }
    claims = [comm.hideable(rank, time) for rank, time in zip(diagnosis.ranks, transfers, strict=True)]
    return JobMatch(claims, comm.hidden_with(diagnosis, chosen), **figures)


def _exchanges(rank: Digest) -> Mask:
    """All-to-alls of a job that trains and has no experts; on a CPU the same cores compute, so none can be hidden."""
    plain = comm.exchanges_where(rank, lambda series: series.collective == "all_to_all") & ~expert_exchanges(rank)
    backward = rank.exchanges.backward
    trains = bool((plain & (backward == FORWARD)).any() and (backward > 0).any())
    return plain & (trains and rank.facts.device != "cpu")
