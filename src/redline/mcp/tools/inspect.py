"""The tool `inspect`: what recordings contain, and how far to trust them."""

from collections.abc import Mapping
from statistics import median
from typing import Any

import msgspec

from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage, recorded
from redline.mcp.tool import READING, AgentTool, Offset, Paths, command_line
from redline.mcp.unknowns import unknowns_of_job
from redline.report.inspect import record as inspection
from redline.verbs.inspect import inspect

_MOST_PROBLEMS = 3  # of one rank


class InspectArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to inspect."""

    paths: Paths
    offset: Offset = 0


def answer(arguments: InspectArguments, folders: AllowedFolders) -> BoundedAnswer:
    paths = folders.paths(arguments.paths)
    record = inspection(inspect(folders.traces(paths, digests=False), READING))
    ask = {"paths": arguments.paths}
    return BoundedAnswer(
        facts={
            "tool": "inspect",
            "synthetic": record["synthetic"],
            "world_size": record["world_size"],
            "ranks_read": len(record["ranks"]),
            "collectives_that_align_clocks": record["clocks"]["aligned_on_collectives"],
            "verify": command_line("inspect", paths=paths, options={"--json": True}),
        },
        pages={
            "unknown": RowPage(rows=unknowns_of_job(record), most=20, least=5),
            "ranks": RowPage(rows=[_rank(row) for row in record["ranks"]], offset=arguments.offset, ask=ask, least=1),
        },
    )


def _rank(row: Mapping[str, Any]) -> dict[str, Any]:
    steps, coverage = row["step_ns"], row["coverage"]
    work_ns = coverage["device_work_ns"]
    return {
        "rank": row["rank"],
        "file": recorded(row["path"]),
        **({"member": recorded(row["member"])} if row["member"] else {}),
        "devices": [recorded(name, 60) for name in row["devices"][:2]],
        "backend": recorded(row["backend"], 20),
        "steps": len(steps),
        "median_step_ns": median(steps) if steps else None,
        "window_ns": row["window_ns"],
        "device_busy_ns": row["device_busy_ns"],
        "communication_ns": row["communication_ns"],
        "spans_by_kind": row["spans_by_kind"],
        "device_time_with_operator_share": coverage["with_operator_ns"] / work_ns if work_ns else None,
        "problems": [
            {"reason": problem["reason"], "effect": problem["effect"], "count": problem["count"]}
            for problem in row["problems"][:_MOST_PROBLEMS]
        ],
        "problem_kinds": len(row["problems"]),
    }


TOOL = AgentTool(
    name="inspect",
    title="Inspect PyTorch traces",
    description=(
        "What PyTorch profiler (Kineto) traces contain, and how far to trust them: ranks, steps, device work linked to "
        "operators, damage, missing ranks, clocks. Use it first on unknown files, or when another tool's answer seems "
        "incomplete; it says nothing about causes."
    ),
    takes=InspectArguments,
    answer=answer,
)
