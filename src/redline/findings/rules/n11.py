"""RL-N11: large collectives inside a node are far slower than its links."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from redline.analysis.job.collective_table import CollectiveRow
from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.digest import Facts
from redline.analysis.rank.exchanges import Series
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import exchanges_where, last_part, transfer_of
from redline.findings.rule import JobLook, Rule, Seen
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

    def is_meant(self, series: Series) -> bool:
        row = self.row
        return (series.collective, series.group_size, series.payload_bytes) == (
            row.collective,
            row.group_size,
            row.payload_bytes,
        )


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    """Only where several ranks were recorded: how long others waited must be known."""
    slow = [found for row in diagnosis.collectives for found in _slow(row, diagnosis)]
    if not slow:
        return None
    claims = [Intervals.empty()] * len(diagnosis.ranks)
    for one in slow:
        chosen = [exchanges_where(rank, one.is_meant) for rank in diagnosis.ranks]
        parts = [last_part(time, one.saved_share) for time in transfer_of(diagnosis, chosen)]
        claims = [claim | part for claim, part in zip(claims, parts, strict=True)]
    worst = max(slow, key=lambda one: one.row.exposed_ns * one.saved_share)
    return JobLook(claims=claims, figures=_figures(worst), names={"collective": worst.row.collective})


def _slow(row: CollectiveRow, diagnosis: Diagnosis) -> Iterator[_Slow]:
    if row.collective not in ENDS_TOGETHER or row.payload_bytes < LARGE_BYTES or not row.matched:
        return
    link = _link(row.group_size, [rank.facts for rank in diagnosis.ranks])
    one = _Slow(row, link)
    if link and one.bus_bytes_per_s and one.bus_bytes_per_s < SLOW_SHARE * link and _in_one_node(one, diagnosis):
        yield one


def _link(group_size: int, facts: Sequence[Facts]) -> float:
    """What a device can send to the others of such a group inside its node; 0 where that is not known."""
    machines = {(one.fabric_bytes_per_s, one.pair_bytes_per_s, one.fabric_devices) for one in facts}
    if len(machines) > 1:
        return 0.0
    fabric, pair, devices = machines.pop()
    if not 1 < group_size <= devices:
        return 0.0
    if pair:
        return min(fabric, pair * (group_size - 1))
    return fabric if group_size == devices else 0.0  # a mesh: fewer devices have fewer links


def _in_one_node(slow: _Slow, diagnosis: Diagnosis) -> bool:
    """Whether the ranks of every group are neighbours on one host, as launchers number them."""
    groups = {series.ranks for rank in diagnosis.ranks for series in rank.series if slow.is_meant(series)}
    devices = diagnosis.ranks[0].facts.fabric_devices
    anywhere = tuple(range(diagnosis.world_size or devices + 1))  # where a group is known by name only
    hosts = {rank.origin.rank: rank.origin.host for rank in diagnosis.ranks}
    return all(_is_node(ranks or anywhere, devices, hosts) for ranks in groups)


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


def explain(seen: Seen) -> Iterator[Evidence]:
    figures = seen.figures
    yield Evidence(
        "{collective} of {payload_bytes} among {ranks} ranks runs at {bus_bytes_per_s} on the bus once all are there, "
        "{link_share} of the {link_bytes_per_s} of the link. At the speed of the link {saved_ns} of each step of "
        "{step_ns} would not be exposed.",
        {
            "collective": seen.names["collective"],
            **{name: figures[name] for name in ("payload_bytes", "ranks", "bus_bytes_per_s", "link_bytes_per_s")},
            "link_share": figures["bus_bytes_per_s"] / figures["link_bytes_per_s"],
            "saved_ns": seen.alone_ns,
            "step_ns": seen.step_ns,
        },
    )


RULE = Rule(
    code="RL-N11",
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    look_at_job=look_at_job,
    explain=explain,
)
