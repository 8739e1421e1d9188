"""What a trace shows beyond the rules of its graph, kept where it was seen: a replay of no change is the trace."""

from dataclasses import replace

import numpy as np

from redline.replay.edges import Edges
from redline.timeline.table import I64

NEVER_NS = -(1 << 62)
FAR_NS = 1 << 62


def arrivals_by_rule(edges: Edges, time_ns: I64) -> I64:
    """When each point would come by its edges, if all before it came as measured; NEVER_NS without an edge."""
    arrival_ns = np.full(len(time_ns), NEVER_NS)
    heads, first = edges.by_head
    if len(heads):
        arrival_ns[heads] = np.maximum.reduceat(time_ns[edges.tail] + edges.delay_ns, first)
    return arrival_ns


def with_residuals(edges: Edges, time_ns: I64) -> Edges:
    """Delays with which every point comes when it was measured.

    No edge holds its head up longer than that; and where all would let it come earlier, the one that decides is longer
    by what is left.
    """
    heads, first = edges.by_head
    if not len(heads):
        return edges
    measured_ns = time_ns[edges.head] - time_ns[edges.tail]
    by_rule_ns = time_ns[edges.tail] + edges.delay_ns
    delay_ns = np.minimum(edges.delay_ns, measured_ns)
    latest_ns = np.maximum.reduceat(by_rule_ns, first)
    decides = by_rule_ns == np.repeat(latest_ns, np.diff(np.append(first, len(edges))))
    _, decisive = np.unique(edges.head[decides], return_index=True)
    chosen = np.flatnonzero(decides)[decisive]
    early = latest_ns < time_ns[heads]
    delay_ns[chosen[early]] = measured_ns[chosen[early]]
    return replace(edges, delay_ns=delay_ns)
