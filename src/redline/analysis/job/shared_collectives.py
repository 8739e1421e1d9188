"""The exchanges of digests, matched between ranks: each under the key by which ranks find each other."""

from collections.abc import Sequence

import numpy as np

from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import POINT_TO_POINT
from redline.ranks.collectives import Arrivals, RankArrivals
from redline.ranks.matched_collectives import MatchedCollectives, meet
from redline.timeline.table import narrowed

_ONE_WAY = frozenset({POINT_TO_POINT})
_WITHOUT_PARTNERS = frozenset({"send", "receive", "send_receive", "unknown"})  # with whom is not known


def shared_collectives(digests: Sequence[Digest]) -> MatchedCollectives:
    return meet([_arrivals(index, digest) for index, digest in enumerate(digests)], _ONE_WAY)


def _arrivals(index: int, digest: Digest) -> RankArrivals:
    """Exchanges whose partners are not known stand under the name of their rank."""
    keys: dict[tuple[str, str, int], int] = {}
    names = [
        (series.collective, f"of {index}", number) if series.collective in _WITHOUT_PARTNERS else series.matching_key
        for number, series in enumerate(digest.series)
    ]
    numbers = np.array([keys.setdefault(name, len(keys)) for name in names], np.int32)
    elements = np.array([series.in_elements if series.ends_together else 0 for series in digest.series], np.int64)
    series = digest.exchanges.series
    arrivals = Arrivals(
        start_ns=digest.exchanges.start_ns,
        end_ns=digest.exchanges.end_ns,
        series=numbers[series],
        elements=narrowed(elements)[series],
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys), zero_ns=digest.zero_ns)
