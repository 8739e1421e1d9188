"""What tools answer about recorded traces: the figures of the JSON reports, ids, windows, and commands that verify."""

import csv
import gzip
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from redline.cli import main
from redline.cli.options import options_of
from redline.cli.verb_table import declared_options
from redline.mcp.allowed_folders import allowed_folders
from redline.mcp.bounded_answer import MOST_BYTES
from redline.mcp.call import call_tool
from redline.mcp.tools import AGENT_TOOLS, compare, diagnose
from tests.support.command_line import ROOT, run_redline
from tests.support.made_hostile import INJECTION, SECRET, hostile_trace
from tests.support.real_traces import RealTraces

RECORDED = ROOT / "tests" / "data" / "recorded"
FOLDERS = allowed_folders([str(RECORDED)])
JOBS = {
    "slow_loader": ["slow_loader_rank0.pt.trace.json.gz", "slow_loader_rank1.pt.trace.json.gz"],
    "ddp": ["ddp_rank0.pt.trace.json.gz", "ddp_rank1.pt.trace.json.gz"],
    "plain_loop": ["plain_loop.pt.trace.json.gz"],
    "inference": ["inference.pt.trace.json.gz"],
}
TABLES = get_args(diagnose.Table)
TRAIN: dict[str, Any] = {
    "kind": "train",
    "model": "llama-3.1-8b",
    "machine": "H100-SXM5-80GB",
    "gpus": 8,
    "batch": 64,
    "sequence": 2048,
    "layout": {"tp": 1, "pp": 1, "cp": 1, "zero": 3, "schedule": "1f1b"},
    "tokens": 1e11,
    "price": 2.5,
}
SERVE: dict[str, Any] = {
    "kind": "serve",
    "model": "llama-3.1-8b",
    "machine": "H100-SXM5-80GB",
    "prompt": 1000,
    "output_tokens": 100,
    "concurrency": [1, 16],
    "max_tpot_s": 0.05,
}


def asked(tool: str, **arguments: Any) -> dict[str, Any]:
    outcome = call_tool(tool, arguments, FOLDERS)
    assert not outcome.failed, outcome.text
    assert len(outcome.text.encode()) <= MOST_BYTES
    record: dict[str, Any] = json.loads(outcome.text)
    assert record["tool"] == tool
    return record


def refused(tool: str, **arguments: Any) -> str:
    outcome = call_tool(tool, arguments, FOLDERS)
    assert outcome.failed
    assert len(outcome.text.split("\n")) <= 2
    assert "Traceback" not in outcome.text
    return outcome.text


def run_verify(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints, run as the command line runs it."""
    words = shlex.split(command)
    assert words[0] == "redline"
    capsys.readouterr()
    assert main(words[1:]) == 0, command
    return capsys.readouterr().out


# --- diagnose ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", JOBS)
def test_the_command_of_each_finding_shows_its_claim(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = asked("diagnose", paths=JOBS[job])
    assert record["findings"]
    for finding in record["findings"]:
        rows = {row["code"]: row for row in csv.DictReader(io.StringIO(run_verify(finding["verify"], capsys)))}
        row = rows[finding["code"]]
        assert row["title"] == finding["title"]
        for name in ("share", "bound_ns", "alone_share", "speedup"):
            assert float(row[name]) == pytest.approx(finding[name], rel=1e-5), name
    whole = json.loads(run_verify(record["verify"], capsys))
    assert whole["verdict"]["limit"] == record["verdict"]["limit"]
    accounts = {row["account"]: row["share"] for row in whole["waterfall"]}
    for row in record["accounts"]:
        assert accounts[row["account"]] == pytest.approx(row["share"], rel=1e-5)


def test_a_command_that_verifies_runs_in_a_shell_of_its_own(tmp_path: Path) -> None:
    words = shlex.split(asked("diagnose", paths=JOBS["slow_loader"])["findings"][0]["verify"])
    done = run_redline(*words[1:], cwd=tmp_path)
    assert done.returncode == 0
    assert "RL-N13" in done.stdout


def test_ids_are_stable_and_lead_to_the_finding() -> None:
    first, second = (asked("diagnose", paths=JOBS["slow_loader"]) for _ in range(2))
    ids = [finding["id"] for finding in first["findings"]]
    assert ids == [finding["id"] for finding in second["findings"]]
    assert len(set(ids)) == len(ids)
    assert first["verdict"]["first"] == ids[0]
    for identity in ids:
        full = asked("diagnose", paths=JOBS["slow_loader"], finding=identity)
        assert full["finding"]["id"] == identity
        assert full["evidence"]
    assert "there are: RL-N13@r0s1" in refused("diagnose", paths=JOBS["slow_loader"], finding="RL-X99")


def test_windows_lie_in_the_steps_that_they_name_and_in_the_trace() -> None:
    steps = {
        (row["rank"], row["step"]): row for row in asked("diagnose", paths=JOBS["slow_loader"], table="steps")["rows"]
    }
    places = asked("diagnose", paths=JOBS["slow_loader"], finding="RL-D01")["where"]
    assert places
    for place in places:
        step = steps[place["rank"], place["step"]]
        assert step["start_ns"] <= place["start_ns"] < place["end_ns"] <= step["end_ns"]
    # It is about the data loader, whose spans have these very times in the file, counted from its first event.
    place = next(place for place in places if place["rank"] == 1)
    document = json.loads(gzip.decompress((RECORDED / JOBS["slow_loader"][1]).read_bytes()))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    zero_us = min(event["ts"] for event in spans)
    loading = {
        (round((event["ts"] - zero_us) * 1e3), round((event["ts"] + event["dur"] - zero_us) * 1e3))
        for event in spans
        if "DataLoader" in event["name"]
    }
    assert (place["start_ns"], place["end_ns"]) in loading


@pytest.mark.parametrize("table", TABLES)
def test_every_table_can_be_paged_through(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask: dict[str, Any] | None = {"paths": JOBS["slow_loader"], "table": table}
    rows: list[Any] = []
    record: dict[str, Any] = {}
    told: dict[str, Any] | None = None
    while ask is not None:
        record = asked("diagnose", **ask)
        rows += record["rows"]
        told = record.get("left_out", {}).get("rows")
        ask = told and told["ask"]
        assert told is None or told["shown"] > 0
    assert told is None or len(rows) == told["of"]
    assert run_verify(record["verify"], capsys)


def test_what_is_not_known_is_said() -> None:
    alone = asked("diagnose", paths=JOBS["ddp"][:1])
    what = {row["what"]: row for row in alone["unknown"]}
    assert what["missing_ranks"]["ranks"] == [1]
    assert what["unrated"]["rated_share_of_kernel_time"] == 0
    assert what["mfu"]["says"].startswith("not measured")
    assert "no_device" in what


def test_names_of_a_hostile_trace_are_data(tmp_path: Path) -> None:
    hostile_trace(tmp_path / "rank0.json.gz")
    folders = allowed_folders([str(tmp_path)])
    questions: list[tuple[str, dict[str, Any]]] = [
        ("inspect", {}),
        ("diagnose", {}),
        *(("diagnose", {"table": table}) for table in TABLES),
        *(("compare", {"table": table}) for table in (None, *get_args(compare.Table))),
    ]
    quoted = 0
    for tool, more in questions:
        both = {"before": "rank0.json.gz", "after": "rank0.json.gz"}
        outcome = call_tool(tool, {**(both if tool == "compare" else {"paths": ["."]}), **more}, folders)
        assert not outcome.failed, outcome.text
        assert outcome.text.isprintable()
        assert len(outcome.text.encode()) <= MOST_BYTES
        assert SECRET not in outcome.text
        quoted += assert_marked(json.loads(outcome.text), inside=False)
    assert quoted > 10


def assert_marked(value: Any, *, inside: bool) -> int:
    """How often the injection stands in an answer: only in objects that mark it as recorded."""
    if isinstance(value, dict):
        assert not any("IGNORE ALL" in key for key in value)
        return sum(assert_marked(member, inside=list(value) == ["recorded"]) for member in value.values())
    if isinstance(value, list):
        return sum(assert_marked(member, inside=False) for member in value)
    if isinstance(value, str) and INJECTION[:20] in value:
        assert inside, value
        return 1
    return 0


# --- the others -------------------------------------------------------------------------------------------------------


def test_inspect_has_the_figures_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    record = asked("inspect", paths=JOBS["slow_loader"])
    whole = json.loads(run_verify(record["verify"], capsys))
    assert [rank["window_ns"] for rank in record["ranks"]] == [rank["window_ns"] for rank in whole["ranks"]]
    assert record["world_size"] == whole["world_size"] == 2


def test_compare_has_the_figures_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    record = asked("compare", before=JOBS["ddp"][0], after=JOBS["slow_loader"][0])
    whole = json.loads(run_verify(record["verify"], capsys))
    assert record["judgement"] == whole["verdict"]["judgement"]
    assert record["change"] == pytest.approx(whole["change"], rel=1e-5)
    assert {"what": "not_interleaved"}.items() <= record["unknown"][0].items()
    full = asked("compare", before=JOBS["ddp"][0], after=JOBS["slow_loader"][0], table="accounts")
    total = sum(row["difference_ns"] for row in full["rows"])
    assert total == pytest.approx(record["step"]["difference_ns"], rel=1e-4)


@pytest.mark.parametrize("arguments", [TRAIN, SERVE], ids=lambda arguments: str(arguments["kind"]))
def test_plans_are_those_of_the_command(arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    record = asked("plan", **arguments)
    whole = json.loads(run_verify(record["verify"], capsys))
    path = ("step_s",) if arguments["kind"] == "train" else ("tpot_s", "value")
    ours, theirs = record["best"], whole["best"]
    for name in path:
        ours, theirs = ours[name], theirs[name]
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert record["unknown"]
    assert asked("plan", **arguments, table="frontier")["rows"]


def test_explain_and_hardware_have_pages_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    page = asked("explain", topic="h01")
    assert page["code"] == "RL-H01"
    assert {"ignore", "fooled", "sources"} <= {row["section"] for row in page["sections"]}
    assert page["title"] in run_verify(page["verify"], capsys)
    assert asked("explain", topic="fused")["lever"] == "fused"
    assert {row["code"] for row in asked("explain", topic="data loader")["topics"]} >= {"RL-D01"}
    listed = asked("explain")
    assert listed["left_out"]["topics"]["ask"] == {"topic": "", "offset": len(listed["topics"])}
    one = asked("hardware", name="H100-SXM5-80GB")
    whole = json.loads(run_verify(one["verify"], capsys))["machines"][0]
    assert one["figures"][0]["value"] == whole["figures"][0]["value"]
    assert len(asked("hardware", name="A100")["machines"]) > 1
    assert asked("hardware")["left_out"]["machines"]["of"] > 40


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("inspect", {}, "missing required field `paths`"),
        ("inspect", {"paths": []}, "length >= 1"),
        ("inspect", {"paths": "a"}, "Expected `array`"),
        ("inspect", {"paths": ["a"], "output": "x"}, "unknown field `output`"),
        ("diagnose", {"paths": ["plain_loop.pt.trace.json.gz"], "table": "secrets"}, "Invalid enum value"),
        ("diagnose", {"paths": ["plain_loop.pt.trace.json.gz"], "machine": "/etc/passwd"}, "outside of the allowed"),
        ("diagnose", {"paths": ["plain_loop.pt.trace.json.gz"], "offset": -1}, ">= 0"),
        ("compare", {"before": "README.md", "after": "README.md"}, "README.md"),
        ("hardware", {"name": "../../../etc/x.json"}, "outside of the allowed"),
        ("hardware", {"name": "no such card"}, "no record"),
        ("explain", {"topic": "zzzz"}, "no finding or lever matches"),
        ("plan", {**TRAIN, "model": "job.py:build"}, "a Python module would be run"),
        ("plan", {**TRAIN, "model": "/etc/config.json"}, "outside of the allowed"),
        ("plan", {**TRAIN, "model": "lama"}, "no model is known as"),
        ("plan", {**TRAIN, "batch": None}, "give batch as well"),
        ("plan", {**TRAIN, "prompt": 5}, "prompt is for kind=serve"),
        ("plan", {**TRAIN, "table": "points"}, "table is one of ranked"),
        ("plan", {**TRAIN, "tokens": None}, "give the number of tokens"),
        ("shell", {"command": "ls"}, "there is no tool 'shell'"),
    ],
)
def test_failures_are_a_line_or_two(tool: str, arguments: dict[str, Any], said: str) -> None:
    assert said in refused(tool, **arguments)


def test_a_bug_is_named_without_its_insides(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr("redline.mcp.tools.explain.find_pages", broken)
    text = refused("explain", topic="RL-H01")
    assert "a bug in Redline (ZeroDivisionError)" in text
    assert "secret inside" not in text


# --- sizes and documents ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.needs_traces
def test_answers_about_the_largest_real_traces_are_within_the_bound(traces: RealTraces) -> None:
    names = [name for name in traces.names("*.json.gz") if "snapshot" not in name]
    largest = sorted((traces / name for name in names), key=lambda path: -path.stat().st_size)[:2]
    folders = allowed_folders([str(largest[0].parent)])
    for path in largest:
        for more in ({}, *({"table": table} for table in TABLES)):
            outcome = call_tool("diagnose", {"paths": [path.name], **more}, folders)
            assert not outcome.failed, outcome.text
            assert len(outcome.text.encode()) <= MOST_BYTES


def test_the_page_has_every_tool_with_its_arguments() -> None:
    text = (ROOT / "docs" / "reference" / "mcp.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text.split("## Tools")[1].split("## An answer")[0], re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", arguments) for name, arguments in rows}
    known = {name: list(tool.input_schema["properties"]) for name, tool in AGENT_TOOLS.items()}
    assert {name: sorted(arguments) for name, arguments in told.items()} == {
        name: sorted(arguments) for name, arguments in known.items()
    }
    assert f"{MOST_BYTES:,} bytes" in text


@pytest.mark.parametrize("name", ["diagnose", "inspect", "plan"])
def test_what_an_agent_may_say_is_called_as_on_the_command_line(name: str) -> None:
    """But for what an answer of a bounded size needs: which part of it to show."""
    declared = [options for verb, options in declared_options().items() if verb.partition(" ")[0] == name]
    known = {option.dest for options in declared for option in options_of(options)}
    assert set(AGENT_TOOLS[name].input_schema["properties"]) - {"kind", "finding", "table", "offset"} <= known


def test_descriptions_say_the_bound_and_when_to_use_a_tool() -> None:
    for tool in AGENT_TOOLS.values():
        assert "Use it" in tool.told
        assert "At most 8,192 bytes" in tool.told
        assert len(tool.told) < 1_000
        assert tool.input_schema["additionalProperties"] is False
