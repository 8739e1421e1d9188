"""The tool `diagnose`: where the time of a recording went, why, and what each fix is worth at most."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from redline.agents.allowed_folders import AllowedFolders
from redline.agents.arguments import MachineName, Offset, Paths
from redline.agents.bounded_answer import BoundedAnswer, RowPage
from redline.agents.command_lines import command_line
from redline.agents.diagnosis_tables import table_rows
from redline.agents.findings_with_places import CLOCK, FindingPlaces, said, summary_row, verdict_text
from redline.agents.tool import READING, AgentTool, machine_name
from redline.agents.unknowns import unknowns_of_diagnosis
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.json import as_record
from redline.verbs.diagnose import diagnose

Table = Literal["findings", "accounts", "phases", "kernels", "collectives", "ranks", "steps", "host", "unknown"]
_OF_COMMAND = {"accounts": "--json", "unknown": "--json"}  # tables that the command line shows in its JSON only
_FIRST_FINDINGS = 5
_MOST_CAUSES = 12


class DiagnoseArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to diagnose, and which part of the answer to show."""

    paths: Paths
    machine: MachineName | None = None
    finding: (
        Annotated[
            str, msgspec.Meta(max_length=60, description="show all evidence of this finding: its id, or its code")
        ]
        | None
    ) = None
    table: Annotated[Table, msgspec.Meta(description="show this table instead of the summary")] | None = None
    offset: Offset = 0


def answer(arguments: DiagnoseArguments, folders: AllowedFolders) -> BoundedAnswer:
    paths = folders.paths(arguments.paths)
    machine = machine_name(arguments.machine, folders)
    result = diagnose(folders.traces(paths, digests=True), machine=machine, options=READING)
    asked = _Asked(arguments, paths, machine)
    record = as_record(result)
    if arguments.finding is not None:
        return _one_finding(arguments.finding, asked, result, record)
    if arguments.table is not None:
        return _table(arguments.table, asked, result, record)
    return _summary(asked, result, record)


class _Asked:
    """What was asked, and how the same is asked again."""

    def __init__(self, arguments: DiagnoseArguments, paths: Sequence[Path], machine: str | None) -> None:
        self.offset = arguments.offset
        self._paths, self._machine = paths, machine
        chosen = {} if arguments.machine is None else {"machine": arguments.machine}
        self._again = {"paths": arguments.paths, **chosen}

    def again(self, **more: str) -> dict[str, Any]:
        return {**self._again, **more}

    def command(self, *flags: str) -> str:
        options = {"--machine": self._machine, **dict.fromkeys(flags, True)}
        return command_line("diagnose", paths=self._paths, options=options)

    def table(self, name: str) -> str:
        """The command that prints a table with all digits."""
        if name in _OF_COMMAND:
            return self.command(_OF_COMMAND[name], "--quiet")
        return self.command(f"--{name}", "--format=csv", "--quiet")


def _summary(asked: _Asked, result: DiagnoseResult, record: Mapping[str, Any]) -> BoundedAnswer:
    places = FindingPlaces(result)
    verdict = record["verdict"]
    shares = ("limit_share", "kernel_share", "exposed_share", "idle_share", "copy_share", "rated_share", "roof_share")
    main = next((finding for finding in places.findings if finding.code == verdict["first"]), None)
    steps = ("steps", "median_ns", "shortest_ns", "longest_ns", "uneven")
    return BoundedAnswer(
        facts={
            "tool": "diagnose",
            "synthetic": record["synthetic"],
            "verdict": {
                "text": verdict_text(result),
                **{name: verdict[name] for name in ("limit", *shares, "worthwhile", "healthy")},
                "first": None if main is None else places.identity(main),
            },
            "steps": {name: record["steps"][name] for name in steps},
            "mfu": None if record["utilisation"] is None else record["utilisation"]["mfu"],
            "ranks": len(record["ranks"]),
            **{name: told for name in ("memory", "serving") if (told := _causes(record[name])) is not None},
            "clock": CLOCK,
            "verify": asked.command("--json", "--quiet"),
        },
        pages={
            "findings": RowPage(
                rows=_finding_rows(asked, places, record),
                ask=asked.again(table="findings"),
                most=_FIRST_FINDINGS,
                least=2,
            ),
            "accounts": RowPage(
                rows=table_rows("accounts", result, record), ask=asked.again(table="accounts"), least=6
            ),
            "unknown": RowPage(
                rows=unknowns_of_diagnosis(result, record), ask=asked.again(table="unknown"), most=12, least=6
            ),
        },
    )


def _causes(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Codes of what fills the memory, or of what requests of an engine wait for; None where neither was recorded."""
    if record is None:
        return None
    fullest = {"fullest": record["fullest"]} if "fullest" in record else {}
    return {**fullest, "causes": list(dict.fromkeys(cause["code"] for cause in record["causes"]))[:_MOST_CAUSES]}


def _finding_rows(asked: _Asked, places: FindingPlaces, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    records = (*record["findings"], *record["remarks"])
    verify = asked.table("findings")
    return [summary_row(places, finding, row, verify) for finding, row in zip(places.findings, records, strict=True)]


def _one_finding(identity: str, asked: _Asked, result: DiagnoseResult, record: Mapping[str, Any]) -> BoundedAnswer:
    places = FindingPlaces(result)
    finding = places.known(identity)
    listed = ("where", "evidence")  # in full below
    row = (*record["findings"], *record["remarks"])[places.findings.index(finding)]
    short = summary_row(places, finding, row, asked.table("findings"))
    return BoundedAnswer(
        facts={
            "tool": "diagnose",
            "finding": {
                **{name: value for name, value in short.items() if name not in listed},
                "accounts_ns": row["accounts"],
                "fix": None if finding.fix is None else said(finding.fix),
                "explain": {"topic": finding.code},
            },
            "clock": CLOCK,
        },
        pages={
            "evidence": RowPage(rows=[said(evidence) for evidence in finding.evidence], least=8),
            "where": RowPage(rows=[places.window(place) for place in finding.places], least=4),
        },
    )


def _table(table: str, asked: _Asked, result: DiagnoseResult, record: Mapping[str, Any]) -> BoundedAnswer:
    if table == "findings":
        rows = _finding_rows(asked, FindingPlaces(result), record)
    elif table == "unknown":
        rows = unknowns_of_diagnosis(result, record)
    else:
        rows = table_rows(table, result, record)
    return BoundedAnswer(
        facts={"tool": "diagnose", "table": table, "clock": CLOCK, "verify": asked.table(table)},
        pages={"rows": RowPage(rows=rows, offset=asked.offset, ask=asked.again(table=table))},
    )


TOOL = AgentTool(
    name="diagnose",
    title="Diagnose a PyTorch job",
    description=(
        "Where the step time of a training or inference job went, and why, from its profiler traces or digests: "
        "accounts that add up to the step, findings with evidence, windows of time to look up in Perfetto, and what "
        "is not known. Use it for slow steps, idle GPUs, exposed communication, stragglers. `share` and `speedup` of a "
        "finding are upper bounds: at most so much can be gained, never a promise. Ask with `finding` for one of "
        "them, with `table` for kernels, collectives, ranks, steps or the host; then explain its code for the fix."
    ),
    takes=DiagnoseArguments,
    answer=answer,
)
