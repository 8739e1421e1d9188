"""The exchanges of digests, matched between ranks: each under the key by which ranks find each other."""

from collections.abc import Sequence

import numpy as np

from redline.job.collectives import Arrivals, RankArrivals
from redline.job.matched_collectives import MatchedCollectives, meet
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import POINT_TO_POINT, NamedExchanges
from redline.timeline.table import Column, narrowed

ONE_WAY = frozenset({POINT_TO_POINT})
_WITHOUT_PARTNERS = frozenset({"send", "receive", "send_receive", "unknown"})  # with whom is not known


def shared_collectives(digests: Sequence[Digest]) -> MatchedCollectives:
    return meet([_arrivals(index, digest) for index, digest in enumerate(digests)], ONE_WAY)


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
