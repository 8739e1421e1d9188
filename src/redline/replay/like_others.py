"""Delays with which a rank spends between two exchanges what the median of the other ranks does there.

No single kernels have to be matched: ranks of one kind do the same work between the same exchanges.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from redline.replay.edges import EdgeKind
from redline.replay.job_graph import JobGraph
from redline.timeline.table import I64

_OWN_KINDS = (EdgeKind.HOST, EdgeKind.RETURN, EdgeKind.DEVICE)


def delays_like_others(job: JobGraph, alike: Sequence[int]) -> npt.NDArray[np.float64]:
    """These ranks like the others, which are the model for all of them; all of them like their own median."""
    delays_ns = job.edges.delay_ns.astype(np.float64)
    every = list(range(len(job.graphs)))
    others = [index for index in every if index not in set(alike)] or every
    stretches = [_Stretches(job, index) for index in range(len(job.graphs))]
    number = min(len(stretch.borders_ns) for stretch in stretches) + 1
    for kind in _OWN_KINDS:
        spent_ns = np.stack([stretches[index].spent_ns(kind, number) for index in others])
        usual_ns = np.median(spent_ns, axis=0)
        for index in alike:
            edges, stretch = stretches[index].edges_of(kind, number)
            own_ns = stretches[index].spent_ns(kind, number)
            ratio = np.where(own_ns > 0, usual_ns / np.maximum(own_ns, 1), 1.0)
            delays_ns[edges] *= ratio[stretch]
    begins_ns = job.edges.delay_ns[job.begin_edge]
    delays_ns[job.begin_edge[list(alike)]] = np.median(begins_ns[others]) if others else 0
    return delays_ns


class _Stretches:
    """A rank's time, cut where its exchanges begin."""

    def __init__(self, job: JobGraph, index: int) -> None:
        self._job = job
        self._edges = job.place_of_edge[index]
        graph = job.graphs[index]
        self.borders_ns = np.sort(graph.time_ns[graph.exchanges.start] + job.shift_ns[index])

    def edges_of(self, kind: EdgeKind, number: int) -> tuple[I64, I64]:
        """Edges of a kind, and in which stretch each lies."""
        edges = self._edges[self._job.edges.kind[self._edges] == kind]
        at_ns = self._job.time_ns[self._job.edges.head[edges]]
        return edges, np.minimum(np.searchsorted(self.borders_ns, at_ns, side="right"), number - 1)

    def spent_ns(self, kind: EdgeKind, number: int) -> I64:
        edges, stretch = self.edges_of(kind, number)
        spent = np.zeros(number, np.int64)
        np.add.at(spent, stretch, self._job.edges.delay_ns[edges])
        return spent
