"""HTA's critical path of one trace, as JSON: python hta_path.py TRACE, in an environment of HolisticTraceAnalysis.

Its graph is all that it gives for a what-if: "modify the graph and re-run the critical path finding algorithm". So the
time of compute kernels is halved on their edges, and the longest path is found again.
"""

import json
import resource
import sys
from typing import Any

import networkx
from hta.analyzers.critical_path_analysis import CPEdgeType, CPGraph
from hta.trace_analysis import TraceAnalysis

STEP = "ProfilerStep#"  # the window is that of these; else the whole trace


def cpu_s() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def half_kernels_us(graph: CPGraph) -> float:
    """The longest path where each compute kernel takes half as long."""
    events = graph.trace_df
    for begin, end, edge in graph.edges(data=True):
        if edge["object"].type is CPEdgeType.OPERATOR_KERNEL:
            event = events.loc[graph.node_list[begin].ev_idx]
            if graph.node_list[begin].ev_idx == graph.node_list[end].ev_idx and is_compute(event):
                edge["weight"] /= 2
    return float(networkx.dag_longest_path_length(graph, weight="weight"))


def is_compute(event: Any) -> bool:
    return bool(event.stream >= 0 and event.s_cat == "kernel" and "nccl" not in event.s_name.lower())


def main(path: str) -> None:
    begun_s = cpu_s()
    trace = TraceAnalysis(trace_files={0: path})
    read_s = cpu_s() - begun_s
    names = trace.t.symbol_table.get_sym_table()
    steps = sum(name.startswith(STEP) for name in names)
    chosen = {"annotation": STEP, "instance_id": (0, steps - 1)} if steps else {"annotation": "", "instance_id": None}
    graph, is_found = trace.critical_path_analysis(rank=0, **chosen)
    path_s = cpu_s() - begun_s - read_s
    times_us = [node.ts for node in graph.node_list]
    known = {"read_s": read_s, "path_s": path_s, "steps": steps, "window_us": float(max(times_us) - min(times_us))}
    if is_found:
        known["path_us"] = float(networkx.dag_longest_path_length(graph, weight="weight"))
        known["parts"] = graph.summary().to_dict()
        known["half_kernels_us"] = half_kernels_us(graph)
    print(json.dumps(known))


if __name__ == "__main__":
    main(sys.argv[1])
