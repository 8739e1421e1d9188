"""Device work beside the critical path: how much of it there is, and how much longer it could take."""

from collections.abc import Sequence

import numpy as np

from redline.findings.path_parts import PathLabels
from redline.findings.replayed import BesidePath
from redline.replay.critical_path import slack_ns
from redline.replay.edges import EdgeKind
from redline.replay.forecast import JobReplay
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import NONE

MOST_BESIDE = 5


def beside_path(replay: JobReplay, labels: Sequence[PathLabels], steps: int) -> tuple[BesidePath, ...]:
    """The most time first; of the average step, over all ranks. None on a CPU, where operators are on threads."""
    edges, slack = replay.job.edges, slack_ns(replay)
    rank_of_point = replay.job.rank_of_point()
    is_work = np.isin(edges.kind, (EdgeKind.DEVICE, EdgeKind.TRANSFER)) & (edges.row != NONE)
    work = np.flatnonzero(is_work & (edges.delay_ns > 0) & (slack[edges.head] > 0))
    work = work[rank_of_point[edges.tail[work]] == rank_of_point[edges.head[work]]]  # not from where ranks meet
    found: dict[str, tuple[int, int]] = {}
    for rank, here in grouped(rank_of_point[edges.head[work]]):
        names: I64 = labels[rank].row_name[edges.row[work[here]]].astype(np.int64)
        for name, of_name in grouped(names):
            pieces = work[here[of_name]]
            what = labels[rank].texts[name]
            time_ns, least_ns = found.get(what, (0, 1 << 62))
            own_slack_ns = int(slack[edges.head[pieces]].min())
            found[what] = time_ns + int(edges.delay_ns[pieces].sum()), min(least_ns, own_slack_ns)
    most = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_BESIDE]
    return tuple(
        BesidePath(what=what, time_ns=time_ns / max(steps, 1), slack_ns=least_ns) for what, (time_ns, least_ns) in most
    )
