"""The figures of a window as one value per series: of the job, of each rank and of each node with several ranks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from redline.ledger.accounts import Account
from redline.watch.change_detectors import ChangeDetectors, Floats
from redline.watch.window_figures import WindowFigures

STEP, INPUT, COMMUNICATION = range(3)  # places of the series of the job
# Noise of a series is at least this, and a drift of it at least that.
_STEP_FLOORS = 0.007, 0.10  # of log time: a wave of a day is no drift
_SHARE_FLOORS = 0.004, 0.05  # of the step
_RANK_FLOORS = 0.004, 0.05  # of log time beside other ranks, which share the wave of a day


class JobSeries:
    """Which series are whose. Input and communication are in units of the first steps: of today's step they would fall
    when anything else grows."""

    def __init__(self, detectors: ChangeDetectors, unit_ns: float) -> None:
        self._detectors, self._unit_ns = detectors, unit_ns
        detectors.add_series(1, *_STEP_FLOORS)
        detectors.add_series(2, *_SHARE_FLOORS)
        self.rank_places: dict[int, int] = {}
        self.node_places: dict[str, int] = {}

    def values(self, figures: WindowFigures) -> Floats:
        """One for each series, NaN where this window has none."""
        ranks, beside = figures.ranks.tolist(), beside_the_others(figures)
        members = ranks_by_node(figures)
        self._add(ranks, members)
        values = np.full(len(self._detectors), np.nan)
        values[STEP] = np.log(max(figures.step_ns, 1.0))
        values[INPUT] = figures.accounts[Account.INPUT] / self._unit_ns
        values[COMMUNICATION] = figures.accounts[Account.TRANSFER] / self._unit_ns
        values[[self.rank_places[rank] for rank in ranks]] = beside
        for host, places in members.items():
            values[self.node_places[host]] = np.sort(beside[places])[(len(places) - 1) // 2]
        return values

    def _add(self, ranks: Iterable[int], hosts: Iterable[str]) -> None:
        new_ranks = [rank for rank in ranks if rank not in self.rank_places]
        self.rank_places.update(zip(new_ranks, self._new(len(new_ranks)), strict=True))
        new_hosts = [host for host in hosts if host not in self.node_places]
        self.node_places.update(zip(new_hosts, self._new(len(new_hosts)), strict=True))

    def _new(self, count: int) -> Sequence[int]:
        return self._detectors.add_series(count, *_RANK_FLOORS) if count else ()


def beside_the_others(figures: WindowFigures) -> Floats:
    """The logarithm of how long each rank works by itself, against the median rank: what all do more of, none is late
    by. A rank that hardly works by itself is not told from one that works a little more."""
    own = np.log(np.maximum(figures.own_ns, 0.05 * max(figures.step_ns, 1.0)))
    beside: Floats = own - np.median(own)
    return beside


def ranks_by_node(figures: WindowFigures) -> dict[str, Sequence[int]]:
    """Places of the ranks of each node; none where the job has one node, or one rank on each."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for place, host in enumerate(figures.hosts):
        members[host].append(place)
    members.pop("", None)
    return {host: places for host, places in members.items() if len(places) > 1} if len(members) > 1 else {}
