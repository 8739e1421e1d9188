"""Ranks and nodes that became late, or recovered: where most ranks of a node change together, the node is named."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from redline.watch.alarm import Alarm, AlarmKind
from redline.watch.change_detectors import ChangeDetectors, DetectedChanges, Mask
from redline.watch.job_series import JobSeries, ranks_by_node
from redline.watch.window_figures import WindowFigures

Since = Callable[[DetectedChanges, int], str]
_MOST_OF_A_NODE = 0.75
_KINDS = {
    "rank": (AlarmKind.RANK_LATE, AlarmKind.RANK_RECOVERED),
    "node": (AlarmKind.NODE_LATE, AlarmKind.NODE_RECOVERED),
}


class LateRanks:
    """Remembers who is late: that others are faster than they were is no alarm."""

    def __init__(self) -> None:
        self._late: set[int] = set()  # places of series

    def alarms(
        self,
        changes: DetectedChanges,
        figures: WindowFigures,
        series: JobSeries,
        detectors: ChangeDetectors,
        since: Since,
    ) -> Iterator[Alarm]:
        if not changes.changed[3:].any():
            return
        ranks, members = figures.ranks.tolist(), ranks_by_node(figures)
        of_nodes: set[int] = set()
        for host, places in members.items():
            own = [series.rank_places[ranks[place]] for place in places]
            node = series.node_places[host]
            for sign in (1, -1):
                moved = changes.changed & (np.sign(changes.size) == sign)
                if not (moved[node] or moved[own].sum() >= _MOST_OF_A_NODE * len(own)):
                    continue
                of_nodes.update(own)
                named = tuple(ranks[place] for place in places)
                yield from self._said("node", node, _strongest(changes, [node, *own], moved), since, named, host)
                _start_again(detectors, [node, *own], changes)
        for rank, host in zip(ranks, figures.hosts, strict=True):
            place = series.rank_places[rank]
            if changes.changed[place] and place not in of_nodes:
                yield from self._said("rank", place, (changes, place), since, (rank,), host)

    def _said(
        self,
        what: str,
        place: int,
        shown: tuple[DetectedChanges, int],
        since: Since,
        ranks: tuple[int, ...],
        host: str,
    ) -> Iterator[Alarm]:
        changes, strongest = shown
        size = float(changes.size[strongest])
        late, recovered = _KINDS[what]
        if size < 0 and place not in self._late:
            return
        (self._late.add if size > 0 else self._late.discard)(place)
        first = since(changes, strongest)
        yield Alarm(
            kind=late if size > 0 else recovered,
            since=first,
            is_drift=not first,
            change_share=float(np.expm1(size)),
            ranks=ranks,
            host=host,
        )


def _strongest(changes: DetectedChanges, places: Iterable[int], moved: Mask) -> tuple[DetectedChanges, int]:
    """The node itself where it changed, else the first of its ranks that did."""
    return changes, next(place for place in places if moved[place])


def _start_again(detectors: ChangeDetectors, places: list[int], changes: DetectedChanges) -> None:
    """What was said of a node is not said of its ranks in the windows that follow."""
    which = np.zeros(len(detectors), bool)
    which[places] = True
    windows = np.full(len(detectors), max(int(changes.windows[places].max()), 1))
    detectors.start_again(which, windows)
