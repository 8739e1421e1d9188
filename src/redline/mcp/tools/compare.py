"""The tool `compare`: what differs between two recordings that exist."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage, recorded
from redline.mcp.tool import READING, AgentTool, MachineName, Offset, Recording, command_line, machine_name
from redline.mcp.unknowns import unknowns_of_diagnosis
from redline.report.compare.compare_result import CompareResult
from redline.report.diagnose.json import as_record as diagnosis_record
from redline.verbs.compare import compare
from redline.verbs.recording_kind import refuse_reports

Table = Literal["accounts", "phases", "operators", "collectives", "ranks", "findings", "context", "memory", "unknown"]
_NUMBERS = ("before_calls", "after_calls", "before_ns", "after_ns", "difference_ns")
_FIRST_ROWS = 12


class CompareArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which two recordings, and which part of the answer to show."""

    before: Recording
    after: Recording
    machine: MachineName | None = None
    table: Annotated[Table, msgspec.Meta(description="show this table instead of the summary")] | None = None
    offset: Offset = 0


def answer(arguments: CompareArguments, folders: AllowedFolders) -> BoundedAnswer:
    paths = folders.paths([arguments.before, arguments.after])
    refuse_reports(paths)
    machine = machine_name(arguments.machine, folders)
    before, after = (folders.traces([path], digests=True) for path in paths)
    result = compare(before, after, machine=machine, options=READING)
    record = result.record()
    tables = _tables(result, record)
    options = {"--machine": machine, "--json": True, "--quiet": True}
    verify = command_line("compare", paths=paths, options=options)
    again = {name: value for name, value in msgspec.structs.asdict(arguments).items() if value and name != "offset"}
    if arguments.table is not None:
        rows = tables[arguments.table]
        facts = {"tool": "compare", "table": arguments.table, "verify": verify}
        return BoundedAnswer(facts=facts, pages={"rows": RowPage(rows=rows, offset=arguments.offset, ask=again)})
    shown = ("accounts", "findings", "operators", "context", "unknown")
    return BoundedAnswer(
        facts=_facts(record, verify),
        pages={
            name: RowPage(rows=tables[name], ask={**again, "table": name}, most=_FIRST_ROWS, least=4) for name in shown
        },
    )


def _facts(record: Mapping[str, Any], verify: str) -> dict[str, Any]:
    names = ("change", "medians_ns", "rank_steps", "work")
    return {
        "tool": "compare",
        "synthetic": record["synthetic"],
        "judgement": record["verdict"]["judgement"],
        "interleaved": record["verdict"]["interleaved"],
        "means": "change is of the average step, after / before - 1; interval_95 by the spread of the steps alone",
        **{name: record[name] for name in names},
        "interval_95": record["interval"],
        "step": _change(record["step"]),
        "verify": verify,
    }


def _tables(result: CompareResult, record: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        "accounts": [_change(row) for row in record["accounts"] if row["before_ns"] or row["after_ns"]],
        "phases": [_change(row) for row in record["phases"] if row["before_ns"] or row["after_ns"]],
        "ranks": list(map(_change, record["ranks"])),
        "operators": list(map(_counted, record["operators"])),
        "collectives": list(map(_counted, record["collectives"])),
        "findings": list(map(dict, record["findings"])),
        "context": [
            {"what": recorded(row["what"], 60), "before": recorded(row["before"]), "after": recorded(row["after"])}
            for row in record["context"]
        ],
        "memory": [{name: _memory_value(value) for name, value in row.items()} for row in record["memory"]],
        "unknown": [*_unknown(result), *_sides(result)],
    }


def _unknown(result: CompareResult) -> list[dict[str, Any]]:
    unproven = result.difference.interval is None
    said = {"what": "not_interleaved", "says": "two recordings taken one after the other: below 30 % is no proof"}
    return [said, *([{"what": "interval", "says": "too few steps for an interval"}] if unproven else [])]


def _sides(result: CompareResult) -> list[dict[str, Any]]:
    sides = {"before": result.before, "after": result.after}
    return [
        {"recording": side, **row}
        for side, diagnosed in sides.items()
        for row in unknowns_of_diagnosis(diagnosed, diagnosis_record(diagnosed))
    ]


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("name", "before_ns", "after_ns", "difference_ns")}


def _counted(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": recorded(row["name"]), "detail": recorded(row["detail"]), **{name: row[name] for name in _NUMBERS}}


def _memory_value(value: Any) -> Any:
    return recorded(value) if isinstance(value, str) else value


TOOL = AgentTool(
    name="compare",
    title="Compare two recordings",
    description=(
        "What differs between two existing recordings of a job, account by account, adding up exactly: step, phases, "
        "operators, collectives, findings gone or new, what else differs. Use it after a change was recorded, or when "
        "a job became slower. It starts nothing. Recordings that were not taken in turns prove nothing below 30 %: to "
        "prove a small change, propose to the user `redline compare --a CMD --b CMD`."
    ),
    takes=CompareArguments,
    answer=answer,
)
