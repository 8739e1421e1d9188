"""The table of collectives: how large, how fast by the convention of nccl-tests, how much of it exposed or waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from redline.analysis.job.meetings import Meetings, rows_by_rank
from redline.analysis.rank.digest import Digest
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
    hidden_ns: int  # of it: the rank computed meanwhile
    exposed_ns: int  # of it: nothing else ran; each instant once, where exchanges overlap
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
        return self.hidden_ns / self.residence_ns if self.residence_ns else 0.0


def collective_table(ranks: Sequence[Digest], meetings: Meetings) -> tuple[CollectiveRow, ...]:
    """All rows, the longest first."""
    parts: dict[tuple[str, int, int], list[tuple[str, I64]]] = {}
    for digest, rows in zip(ranks, rows_by_rank(meetings.rank, len(ranks)), strict=True):
        calls = _calls(digest, meetings, rows)
        for number, series in enumerate(digest.series):
            key = (series.collective, series.group_size, series.payload_bytes)
            parts.setdefault(key, []).append((series.group, calls[:, digest.exchanges.series == number]))
    table = [_row(key, found) for key, found in parts.items()]
    return tuple(sorted(table, key=lambda row: (-row.residence_ns, row.collective, row.payload_bytes)))


def _calls(digest: Digest, meetings: Meetings, rows: I64) -> I64:
    """Of each exchange of a rank: its length, what of it was hidden, exposed, waiting; the shortest part; if it met."""
    exchanges, place = digest.exchanges, meetings.place[rows]
    met = np.zeros((3, len(exchanges)), np.int64)
    met[:, place] = [meetings.wait_ns[rows], meetings.shortest_ns[rows], np.ones(len(rows), np.int64)]
    return np.vstack([exchanges.end_ns - exchanges.start_ns, exchanges.hidden_ns, exchanges.exposed_ns, met])


def _row(key: tuple[str, int, int], found: list[tuple[str, I64]]) -> CollectiveRow:
    columns = np.concatenate([calls for _, calls in found], axis=1)
    dur_ns, hidden_ns, exposed_ns, wait_ns, shortest_ns, is_met = columns
    transfer_ns = shortest_ns[is_met == 1] if is_met.any() else dur_ns
    return CollectiveRow(
        collective=key[0],
        group_size=key[1],
        payload_bytes=key[2],
        groups=len({group for group, _ in found}),
        calls=len(dur_ns),
        residence_ns=int(dur_ns.sum()),
        hidden_ns=int(hidden_ns.sum()),
        exposed_ns=int(exposed_ns.sum()),
        wait_ns=int(wait_ns.sum()),
        matched=int(is_met.sum()),
        typical_ns=float(np.median(transfer_ns)),
    )
