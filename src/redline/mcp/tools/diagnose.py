"""The tool `diagnose`: where the time of a recording went, why, and what each fix is worth at most."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import msgspec

from redline.errors import UsageError
from redline.findings.evidence import Evidence
from redline.findings.finding import ClaimedTime, Finding
from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage, recorded, recorded_fields
from redline.mcp.tool import READING, AgentTool, MachineName, Offset, Paths, command_line, machine_name
from redline.mcp.unknowns import unknowns_of_diagnosis
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.finding_messages import second_cause, sentence, verdict_sentence
from redline.report.diagnose.json import as_record
from redline.report.language import sentences
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


def _finding_rows(asked: _Asked, places: "FindingPlaces", record: Mapping[str, Any]) -> list[dict[str, Any]]:
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


CLOCK = "start_ns and end_ns count from the first event of the trace of that rank, where Perfetto has 0; steps from 0"
_NUMBER_LETTERS = 9  # of a rank in a sentence: a number that short is no name of a stranger


class FindingPlaces:
    """Where the findings of one diagnosis are: steps of ranks, by their windows."""

    def __init__(self, result: DiagnoseResult) -> None:
        self._ranks = {rank.origin.rank: rank for rank in reversed(result.diagnosis.ranks)}
        self.findings = (*result.findings.findings, *result.findings.remarks)

    def window(self, place: ClaimedTime) -> dict[str, Any]:
        """A stretch of time, on the clock that `CLOCK` says, and the step in which it begins."""
        rank = self._ranks[place.rank]
        window_ns = rank.window_ns[0]
        start_ns = window_ns + place.start_ns
        starts = rank.ledger.start_ns.tolist()
        step = bisect_right(starts, start_ns) - 1
        inside = step >= 0 and start_ns < int(rank.ledger.end_ns[step])
        labels = rank.origin.step_labels
        return {
            "rank": place.rank,
            "step": step if inside else None,
            **({"step_label": recorded(labels[step], 40)} if inside and step < len(labels) and labels[step] else {}),
            "start_ns": start_ns,
            "end_ns": window_ns + place.end_ns,
        }

    def identity(self, finding: Finding) -> str:
        """Its code, and where its longest stretch is: RL-D01@r1s0. The same trace gives the same id every time."""
        if not finding.places:
            return f"{finding.code}@job"
        first = self.window(finding.places[0])
        step = "" if first["step"] is None else f"s{first['step']}"
        return f"{finding.code}@r{first['rank']}{step}"

    def known(self, identity: str) -> Finding:
        """The finding of an id, or of a code alone. UsageError where there is none."""
        for finding in self.findings:
            if identity in {self.identity(finding), finding.code}:
                return finding
        there = ", ".join(map(self.identity, self.findings)) or "none"
        raise UsageError(f"finding: {identity!r:.60} is not among the findings of this recording; there are: {there}")


def summary_row(places: FindingPlaces, finding: Finding, record: Mapping[str, Any], verify: str) -> dict[str, Any]:
    """One finding in short, from its record in the JSON report."""
    return {
        "id": places.identity(finding),
        **{name: record[name] for name in ("code", "title", "share", "bound_ns", "alone_share", "speedup")},
        **{name: record[name] for name in ("numerics", "grade", "ranks")},
        **({"of": "window, as no steps were recognised"} if finding.of_window else {}),
        **({"void": "its page says to ignore it in such a trace"} if finding.is_void else {}),
        "where": [places.window(place) for place in finding.places[:1]],
        "evidence": [said(evidence) for evidence in (*finding.evidence[:1], *finding.doubts[:1])][
            : 1 + finding.is_void
        ],
        "verify": verify,
    }


def said(evidence: Evidence) -> dict[str, Any]:
    """Our sentence with its numbers; names from the trace stay out of it, and stand beside it as data."""
    names = {name: value for name, value in evidence.values.items() if isinstance(value, str) and not _is_number(value)}
    without = replace(evidence, values={**evidence.values, **{name: f"{{{name}}}" for name in names}})
    in_sentence = {field for _text, field, _format, _conversion in Formatter().parse(evidence.message)}
    used = {name: recorded(value) for name, value in names.items() if name in in_sentence}
    return {"says": sentence(without), "bearing": str(evidence.bearing), **used}


def verdict_text(result: DiagnoseResult) -> str:
    """The verdict, without sentences that quote the trace."""
    ours = [replace(finding, evidence=_without_names(finding.evidence)) for finding in result.findings.findings]
    verdict = result.findings.verdict
    return sentences([verdict_sentence(verdict, ours, result.outline), second_cause(verdict, ours)])


def _without_names(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    return tuple(
        sentence_of
        for sentence_of in evidence
        if all(not isinstance(value, str) or _is_number(value) for value in sentence_of.values.values())
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_LETTERS


Record = Mapping[str, Any]

COLUMNS = {
    "kernels": "operator* kernel* shapes* dtype:20 calls kernels time_ns share_of_roof regime",
    "collectives": "collective:60 group_size payload_bytes calls residence_ns hidden_ns exposed_ns wait_ns typical_ns "
    "bus_bytes_per_s",
    "host": "account kind name* region* site* time_ns times",
    "accounts": "account time_ns share",
}
"""Of these tables. What a trace names is marked as recorded: behind a star where it is not empty, behind a number of
letters in any case.
"""
_RECORDS = {"kernels": "kernels", "collectives": "collectives", "host": "doing", "accounts": "waterfall"}


def table_rows(table: str, result: DiagnoseResult, record: Record) -> list[dict[str, Any]]:
    """All rows of a table, by the name that `redline diagnose` has for it."""
    if table == "steps":
        return list(_steps(result, record))
    if table == "ranks":
        return list(_ranks(record))
    if table == "phases":
        return list(record["phases"])
    rows = record[_RECORDS[table]]
    names = COLUMNS[table].split()
    return [_row(row, names) for row in rows if table != "accounts" or row["time_ns"]]


def _row(row: Record, names: Sequence[str]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for column in names:
        name, _colon, letters = column.partition(":")
        if name.endswith("*"):
            chosen |= recorded_fields(row, (name[:-1],))
        else:
            chosen[name] = recorded(row[name], int(letters)) if letters else row[name]
    return chosen


def _ranks(record: Record) -> Iterator[dict[str, Any]]:
    late = {row["rank"]: row for row in (record["lateness"] or {"ranks": []})["ranks"]}
    for rank in record["ranks"]:
        steps = rank["steps"]
        last = late.get(rank["rank"])
        yield {
            "rank": rank["rank"],
            **recorded_fields(rank, ("source", "host")),
            **recorded_fields(rank["facts"], ("device_name", "machine")),
            "steps": len(steps),
            "mean_step_ns": sum(step["length_ns"] for step in steps) / len(steps) if steps else None,
            "window_ns": rank["window_ns"],
            "last_at_collectives": last["last"] if last else 0,
            "waiting_caused_ns": last["caused_ns"] if last else 0,
        }


def _steps(result: DiagnoseResult, record: Record) -> Iterator[dict[str, Any]]:
    """On the clock that `CLOCK` says."""
    for rank, digest in zip(record["ranks"], result.diagnosis.ranks, strict=True):
        for number, step in enumerate(rank["steps"]):
            start_ns = digest.window_ns[0] + step["start_ns"]
            yield {
                "rank": rank["rank"],
                "step": number,
                **({"label": recorded(step["label"], 40)} if step["label"] else {}),
                "start_ns": start_ns,
                "end_ns": start_ns + step["length_ns"],
                "accounts_ns": {account: amount for account, amount in step["accounts"].items() if amount},
            }
