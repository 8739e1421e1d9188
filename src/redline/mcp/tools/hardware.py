"""The tool `hardware`: published or calibrated peaks of accelerators, each with its source."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage
from redline.mcp.tool import AgentTool, Offset, command_line, machine_name
from redline.report.hardware import record
from redline.verbs.hardware import find_hardware

_FACTS = "name base vendor architecture form year memory_type link notes ridge_flops_per_byte"
_IN_LIST = {"memory_bytes", "memory_bytes_per_s", "peak_flops_per_s.bf16", "peak_flops_per_s.fp16"}


class HardwareArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which accelerator."""

    name: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1,
                max_length=1_024,
                description="a record, part of its name, or a profile (.json) inside the allowed folders; without it, "
                "all are listed",
            ),
        ]
        | None
    ) = None
    offset: Offset = 0


def answer(arguments: HardwareArguments, folders: AllowedFolders) -> BoundedAnswer:
    name = machine_name(arguments.name, folders)
    machines = record(find_hardware(name))["machines"]
    verify = command_line("hardware", *([] if name is None else [name]), options={"--json": name is not None})
    ask = {} if arguments.name is None else {"name": arguments.name}
    exact = [machine for machine in machines if name is not None and machine["name"].lower() == name.lower()]
    if len(machines) == 1 or exact:
        return _record(*(exact or machines)[:1], arguments=arguments, verify=verify)
    return BoundedAnswer(
        facts={"tool": "hardware", "verify": verify},
        pages={"machines": RowPage(rows=list(map(_short, machines)), offset=arguments.offset, ask=ask)},
    )


def _short(machine: Mapping[str, Any]) -> dict[str, Any]:
    figures = {row["name"]: row["value"] for row in machine["figures"] if row["name"] in _IN_LIST}
    return {**{name: machine[name] for name in ("name", "vendor", "architecture", "year")}, **figures}


def _record(machine: Mapping[str, Any], *, arguments: HardwareArguments, verify: str) -> BoundedAnswer:
    unusable = [{"name": row["name"], "why": row["why"]} for row in machine["unusable"]]
    return BoundedAnswer(
        facts={
            "tool": "hardware",
            **{name: machine[name] for name in _FACTS.split()},
            "verify": verify,
        },
        pages={
            "figures": RowPage(rows=machine["figures"], offset=arguments.offset, ask={"name": arguments.name}, least=4),
            "unknown": RowPage(rows=[{"what": "unusable_figure", **row} for row in unusable], most=20, least=4),
        },
    )


TOOL = AgentTool(
    name="hardware",
    title="Peaks of accelerators",
    description=(
        "What an accelerator can do at best: dense peaks per number format, memory and link bandwidth, each with its "
        "source and date, and whether sources contradict each other. Use it before you state an MFU or a roofline, and "
        "to find the name that diagnose and plan take as `machine`. A figure that is not listed is not known: do not "
        "guess it."
    ),
    takes=HardwareArguments,
    answer=answer,
)
