"""Nodes that are late across jobs, tested against chance: each job puts its nodes in order of the waiting they cause.

If lateness had nothing to do with nodes, each place in that order would be as likely as any other. A node's places over
its jobs are added up as -log(place / nodes), and the chance of a sum as large is computed from the exact distribution.
Every job counts once. The node of rank 0 is not judged in that job: logging and checkpoints make it late in any job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log

import numpy as np
import numpy.typing as npt

from redline.lake.lake_answer import Cell, LakeAnswer
from redline.lake.questions import QUESTIONS

MOST_FALSE = 0.01  # of lakes without any late node have one named
_WIDTH = 0.01  # of a bin of the distribution
_LEAST_CHANCE = 1e-12  # what the transform can tell from 0

I64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class JudgedNodes:
    """Each judged node with its evidence; the columns are as long as there are nodes."""

    nodes: tuple[str, ...]
    jobs: I64  # in which it was judged
    latest_in: I64  # jobs in which no other caused more
    expected: Floats  # of such jobs, by chance
    chance: Floats  # of evidence as strong, for a node like any other

    @property
    def late(self) -> npt.NDArray[np.bool_]:
        """By Holm's procedure, which holds the rate of false ones however many nodes are judged."""
        order = np.argsort(self.chance, kind="stable")
        allowed = MOST_FALSE / np.arange(len(order), 0, -1)
        holds = np.logical_and.accumulate(self.chance[order] <= allowed)
        late = np.zeros(len(order), bool)
        late[order[holds]] = True
        return late


def late_nodes(of_jobs: LakeAnswer, top: int) -> LakeAnswer:
    """`of_jobs` is what the SQL of the question says: a row for each node of each job."""
    question = QUESTIONS["nodes"]
    jobs, nodes = of_jobs.column("job"), of_jobs.column("node")
    judged = judged_nodes(
        jobs,
        nodes,
        ranks=np.array(of_jobs.column("ranks"), np.int64),
        has_first_rank=np.array(of_jobs.column("has_first_rank"), bool),
        lateness=np.array(of_jobs.column("lateness"), np.float64),
    )
    hours, cause = _caused(of_jobs)
    late = np.flatnonzero(judged.late)
    order = sorted(late.tolist(), key=lambda number: (judged.chance[number], -hours[judged.nodes[number]]))
    rows: list[tuple[Cell, ...]] = [
        (
            judged.nodes[number],
            int(judged.jobs[number]),
            int(judged.latest_in[number]),
            float(judged.expected[number]),
            hours[judged.nodes[number]],
            cause[judged.nodes[number]],
            float(min(judged.chance[number] * len(judged.nodes), 1.0)),
        )
        for number in order[:top]
    ]
    facts: dict[str, Cell] = {"judged_nodes": len(judged.nodes), "late_nodes": len(late), "jobs": len(set(jobs))}
    return LakeAnswer(columns=question.columns, rows=tuple(rows), facts=facts)


def _caused(of_jobs: LakeAnswer) -> tuple[dict[str, float], dict[str, str]]:
    """For each node the hours that others waited for it, and the cause of most of them."""
    hours: dict[str, float] = {}
    by_cause: dict[str, dict[str, float]] = {}
    names = ("node", "caused_hours", "cause")
    for node, caused, cause in zip(*(of_jobs.column(name) for name in names), strict=True):
        hours[str(node)] = hours.get(str(node), 0.0) + float(caused or 0.0)
        of_node = by_cause.setdefault(str(node), {})
        of_node[str(cause)] = of_node.get(str(cause), 0.0) + float(caused or 0.0)
    return hours, {node: max(of_node, key=lambda name: of_node[name]) for node, of_node in by_cause.items()}


def judged_nodes(
    jobs: Sequence[Cell],
    nodes: Sequence[Cell],
    *,
    ranks: I64,
    has_first_rank: npt.NDArray[np.bool_],
    lateness: Floats,
) -> JudgedNodes:
    """Nodes are compared within a job, and only with those that have as many of its ranks."""
    kept = ~has_first_rank
    _, job = np.unique(np.array(jobs, dtype=object)[kept].astype(str), return_inverse=True)
    names, node = np.unique(np.array(nodes, dtype=object)[kept].astype(str), return_inverse=True)
    ranks, lateness = ranks[kept], lateness[kept]
    _, group = np.unique(np.stack([job, ranks]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    size = np.bincount(group)[group] if len(group) else group
    comparable = size > 1
    place = _places(group, lateness)[comparable]
    node, size = node[comparable], size[comparable]
    present, node = np.unique(node, return_inverse=True)
    scores = _sums(node, np.log(size / place), len(present))
    return JudgedNodes(
        nodes=tuple(names[present].tolist()),
        jobs=np.bincount(node, minlength=len(present)),
        latest_in=np.bincount(node[place == 1], minlength=len(present)),
        expected=_sums(node, 1 / size, len(present)),
        chance=_chances(scores, node, size),
    )


def _sums(node: I64, amounts: Floats, nodes: int) -> Floats:
    return np.bincount(node, weights=amounts, minlength=nodes).astype(np.float64)


def _places(group: I64, lateness: Floats) -> I64:
    """For each row how many of its group are at least as late, itself included."""
    order = np.lexsort((-lateness, group))
    place = np.empty(len(order), np.int64)
    if not len(order):
        return place
    ordered_group, ordered = group[order], lateness[order]
    number = np.arange(len(order))
    first = np.flatnonzero(np.diff(ordered_group, prepend=-1))
    begin = np.repeat(first, np.diff(np.append(first, len(order))))
    # Of equal ones each has the last place among them: the test stays on the safe side.
    last_equal = np.ones(len(order), bool)
    last_equal[:-1] = (np.diff(ordered_group) != 0) | (np.diff(ordered) != 0)
    ends = np.flatnonzero(last_equal)
    place[order] = ends[np.searchsorted(ends, number)] - begin + 1
    return place


def _chances(scores: Floats, node: I64, size: I64) -> Floats:
    """For each node the chance of a score as large as its own; 1 where it is no larger than usual."""
    order = np.argsort(node, kind="stable")
    sizes = np.split(size[order], np.flatnonzero(np.diff(node[order])) + 1) if len(node) else []
    chances = np.ones(len(scores))
    for number, of_node in enumerate(sizes):
        if scores[number] > sum(map(_usual, of_node.tolist())):
            chances[number] = chance_of(float(scores[number]), of_node)
    return chances


def chance_of(score: float, sizes: I64) -> float:
    """Of a sum of -log(place / nodes) as large as this, where each place in jobs of these sizes is equally likely.

    Exact but for the bins: what could be is rounded up, what was is rounded down.
    """
    bins = int(np.ceil(np.log(sizes) / _WIDTH).sum()) + 1
    length = 1 << (bins - 1).bit_length()
    different, count = np.unique(sizes, return_counts=True)
    product = np.ones(length // 2 + 1, np.complex128)
    for nodes, times in zip(different.tolist(), count.tolist(), strict=True):
        product *= _transformed(nodes, length) ** times
    chances = np.fft.irfft(product, length)[int(score / _WIDTH + 1e-6) : bins]
    return float(np.clip(chances.sum(), _LEAST_CHANCE, 1.0))


@lru_cache(4096)
def _usual(nodes: int) -> float:
    """The score of one job, on average."""
    return log(nodes) - lgamma(nodes + 1) / nodes


@lru_cache(256)
def _transformed(nodes: int, length: int) -> npt.NDArray[np.complex128]:
    """The distribution of the score in one job, for the convolution."""
    score_bins = np.ceil(np.log(nodes / np.arange(1, nodes + 1)) / _WIDTH).astype(np.int64)
    return np.fft.rfft(np.bincount(score_bins, minlength=length) / nodes, length)
