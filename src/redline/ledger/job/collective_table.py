"""The collectives of a job matched between ranks: how large, how fast, how much of them exposed or waiting."""

from collections.abc import Sequence

import numpy as np

from redline.job.collectives import Arrivals, RankArrivals, rows_by_rank
from redline.job.matched_collectives import MatchedCollectives, match_collectives
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import POINT_TO_POINT, NamedExchanges
from redline.timeline.table import I64, Column, narrowed
from redline.values import dataclass

# Bytes that the busiest link carries, over the payload, for n ranks. Others (broadcast, reduce, point to point): 1.
_TRAFFIC = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
}
ONE_WAY = frozenset({POINT_TO_POINT})
_WITHOUT_PARTNERS = frozenset({"send", "receive", "send_receive", "unknown"})  # with whom is not known


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


def collective_table(ranks: Sequence[Digest], shared_calls: MatchedCollectives) -> tuple[CollectiveRow, ...]:
    """All rows, the longest first."""
    calls_by_key: dict[tuple[str, int, int], _Calls] = {}
    for digest, rows in zip(ranks, rows_by_rank(shared_calls.rank, len(ranks)), strict=True):
        calls, sums = _calls(digest, shared_calls, rows)
        for number, series in enumerate(digest.series):
            key = (series.collective, series.group_size, series.payload_bytes)
            mine = digest.exchanges.series == number
            calls_by_key.setdefault(key, _Calls()).add(series.group, calls[:, mine], sums[:, number].tolist())
    table = [_row(key, calls) for key, calls in calls_by_key.items()]
    return tuple(sorted(table, key=lambda row: (-row.residence_ns, row.collective, row.payload_bytes)))


class _Calls:
    """Calls of one kind, added up; what is needed of each single one is how long it took."""

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.sums = [0] * _SUMS
        self.dur_ns: list[I64] = []  # of those that met nobody
        self.shortest_ns: list[I64] = []  # of the others

    def add(self, group: str, calls: I64, sums: list[int]) -> None:
        self.groups.add(group)
        self.sums = [total + more for total, more in zip(self.sums, sums, strict=True)]
        dur_ns, shortest_ns, is_met = calls
        self.shortest_ns.append(narrowed(shortest_ns[is_met == 1]))
        if len(self.shortest_ns[-1]) < len(dur_ns):
            self.dur_ns.append(narrowed(dur_ns[is_met == 0]))


_SUMS = 6


def _calls(digest: Digest, shared_calls: MatchedCollectives, rows: I64) -> tuple[I64, I64]:
    """Of each exchange of a rank its length, the shortest part in it, and if it met others; and sums by series: calls,
    length, hidden, exposed, waiting, met."""
    exchanges, place = digest.exchanges, shared_calls.place[rows]
    dur_ns = exchanges.end_ns - exchanges.start_ns
    wait_ns, shortest_ns, is_met = np.zeros((3, len(exchanges)), np.int64)
    wait_ns[place], is_met[place] = shared_calls.wait_ns[rows], 1
    shortest_ns[place] = shared_calls.shortest_ns[shared_calls.operation[rows]]
    amounts = (np.ones(len(exchanges), np.int64), dur_ns, exchanges.hidden_ns, exchanges.exposed_ns, wait_ns, is_met)
    by_series = np.zeros((_SUMS, len(digest.series)), np.int64)
    for total, amount in zip(by_series, amounts, strict=True):
        np.add.at(total, exchanges.series, amount)
    return np.vstack([dur_ns, shortest_ns, is_met]), by_series


def _row(key: tuple[str, int, int], of_key: _Calls) -> CollectiveRow:
    calls, residence_ns, hidden_ns, exposed_ns, wait_ns, matched = of_key.sums
    return CollectiveRow(
        collective=key[0],
        group_size=key[1],
        payload_bytes=key[2],
        groups=len(of_key.groups),
        calls=calls,
        residence_ns=residence_ns,
        hidden_ns=hidden_ns,
        exposed_ns=exposed_ns,
        wait_ns=wait_ns,
        matched=matched,
        typical_ns=_median(of_key.shortest_ns if matched else of_key.dur_ns),
    )


def _median(parts: list[I64]) -> float:
    return float(np.median(np.concatenate(parts))) if any(map(len, parts)) else float("nan")


def shared_collectives(digests: Sequence[Digest]) -> MatchedCollectives:
    return match_collectives([_arrivals(index, digest) for index, digest in enumerate(digests)], ONE_WAY)


def _arrivals(index: int, digest: Digest) -> RankArrivals:
    exchanges = digest.exchanges
    named = NamedExchanges(series=exchanges.series, sequence=exchanges.sequence, names=digest.series)
    return rank_arrivals(index, named, (exchanges.start_ns, exchanges.end_ns), digest.zero_ns)


def rank_arrivals(index: int, named: NamedExchanges, times_ns: tuple[Column, Column], zero_ns: int) -> RankArrivals:
    """Exchanges of a rank, by start and end. Those whose partners are not known stand under the name of their rank."""
    keys: dict[tuple[str, str, int], int] = {}
    known = [
        (name.collective, f"of {index}", number) if name.collective in _WITHOUT_PARTNERS else name.matching_key
        for number, name in enumerate(named.names)
    ]
    numbers = np.array([keys.setdefault(name, len(keys)) for name in known], np.int32)
    elements = np.array([name.in_elements if name.ends_together else 0 for name in named.names], np.int64)
    arrivals = Arrivals(
        start_ns=times_ns[0],
        end_ns=times_ns[1],
        series=numbers[named.series],
        elements=narrowed(elements)[named.series],
        sequence=named.sequence,
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys), zero_ns=zero_ns)
