"""The table of collectives: how large, how fast by the convention of nccl-tests, how much of it exposed or waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from redline.analysis.digest import Digest
from redline.analysis.exchanges import Series
from redline.analysis.meetings import Meetings, rows_by_rank
from redline.timeline.table import I64

# Bytes that the busiest link carries, over the payload, for n ranks. Others (broadcast, reduce, point to point): 1.
_TRAFFIC = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
}


@dataclass(frozen=True, kw_only=True)
class CollectiveRow:
    """Exchanges of one kind, size and number of ranks, over all ranks of the job."""

    collective: str
    group_size: int  # 0 where it is not known
    payload_bytes: int  # of one exchange; 0 where it is not known
    groups: int  # how many different groups
    calls: int  # parts of ranks in exchanges
    residence_ns: int  # sum of their times
    exposed_ns: int  # of it: nothing else ran
    wait_ns: int  # of it: not all ranks were there; 0 where only one rank of each is known
    matched: int  # calls whose partners are known
    typical_ns: float  # median over exchanges of the shortest part in it: the transfer itself

    @property
    def algorithm_bytes_per_s(self) -> float | None:
        if not self.payload_bytes or not self.typical_ns:
            return None
        return self.payload_bytes / self.typical_ns * 1e9

    @property
    def bus_bytes_per_s(self) -> float | None:
        algorithm = self.algorithm_bytes_per_s
        if algorithm is None or (self.collective in _TRAFFIC and self.group_size < 2):
            return None
        factor = _TRAFFIC.get(self.collective)
        return algorithm * (factor(self.group_size) if factor else 1.0)

    @property
    def hidden_share(self) -> float:
        return 1 - self.exposed_ns / self.residence_ns if self.residence_ns else 0.0


def collective_table(ranks: Sequence[Digest], meetings: Meetings) -> tuple[CollectiveRow, ...]:
    """All rows, the longest first."""
    waits = _waits_by_rank(meetings, ranks)
    parts: dict[tuple[str, int, int], list[tuple[Series, I64, I64, I64]]] = {}
    for digest, (wait_ns, shortest_ns, is_met) in zip(ranks, waits, strict=True):
        exchanges = digest.exchanges
        dur_ns = exchanges.end_ns - exchanges.start_ns
        for number, series in enumerate(digest.series):
            here = np.flatnonzero(exchanges.series == number)
            columns = np.stack([dur_ns[here], exchanges.exposed_ns[here], wait_ns[here], shortest_ns[here]])
            key = (series.collective, series.group_size, series.payload_bytes)
            parts.setdefault(key, []).append((series, columns, is_met[here], here))
    rows = [_row(key, found) for key, found in parts.items()]
    return tuple(sorted(rows, key=lambda row: (-row.residence_ns, row.collective, row.payload_bytes)))


def _row(key: tuple[str, int, int], found: list[tuple[Series, I64, I64, I64]]) -> CollectiveRow:
    dur_ns, exposed_ns, wait_ns, shortest_ns = np.concatenate([columns for _, columns, _, _ in found], axis=1)
    is_met = np.concatenate([met for _, _, met, _ in found]).astype(bool)
    transfer_ns = shortest_ns[is_met] if is_met.any() else dur_ns
    return CollectiveRow(
        collective=key[0],
        group_size=key[1],
        payload_bytes=key[2],
        groups=len({series.group for series, *_ in found}),
        calls=len(dur_ns),
        residence_ns=int(dur_ns.sum()),
        exposed_ns=int(exposed_ns.sum()),
        wait_ns=int(wait_ns.sum()),
        matched=int(is_met.sum()),
        typical_ns=float(np.median(transfer_ns)),
    )


def _waits_by_rank(meetings: Meetings, ranks: Sequence[Digest]) -> list[tuple[I64, I64, I64]]:
    """For each rank, of each of its exchanges: the waiting, the shortest part in it, and whether partners are known."""
    found = []
    for digest, rows in zip(ranks, rows_by_rank(meetings.rank, len(ranks)), strict=True):
        wait_ns = np.zeros(len(digest.exchanges), np.int64)
        is_met = np.zeros(len(digest.exchanges), np.int64)
        shortest_ns = np.zeros(len(digest.exchanges), np.int64)
        wait_ns[meetings.place[rows]] = meetings.wait_ns[rows]
        shortest_ns[meetings.place[rows]] = meetings.shortest_ns[rows]
        is_met[meetings.place[rows]] = 1
        found.append((wait_ns, shortest_ns, is_met))
    return found
