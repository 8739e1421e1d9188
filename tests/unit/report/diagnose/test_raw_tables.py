"""Tables for machines: the numbers of the diagnosis, in CSV that spreadsheets take for text, and in data frames."""

import builtins
import csv
import inspect
import io
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.errors import UsageError
from redline.ledger.accounts import ACCOUNTS
from redline.report.data import harmless
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.raw_tables import COLUMNS, csv_of, raw_rows
from tests.support.docs import DOCS, rows_of, section
from tests.support.made_findings import findings
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

PAGE = DOCS / "reference" / "python.md"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> DiagnoseResult:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=2, steps=3, layers=1, stragglers=(Straggler(rank=1, extra_us=2000),)), folder)
    return replace(redline.diagnose([folder]), findings=findings(2))


def rows(name: str, found: DiagnoseResult) -> list[Mapping[str, Any]]:
    return [dict(zip((column.name for column in COLUMNS[name]), row, strict=True)) for row in raw_rows(name, found)]


def named(found: DiagnoseResult, name: str) -> DiagnoseResult:
    """With this as the name of the first operator."""
    first, *others = found.diagnosis.kernels
    kernels = (replace(first, operator=name, kernel=name), *others)
    return replace(found, diagnosis=replace(found.diagnosis, kernels=kernels))


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_accounts_of_each_step_add_up_to_it(found: DiagnoseResult) -> None:
    steps = rows("steps", found)
    assert [(one["rank"], one["step"]) for one in steps] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    accounts = [f"{account.replace(' ', '_')}_ns" for account in ACCOUNTS]
    for one in steps:
        assert sum(one[account] for account in accounts) == one["length_ns"]


def test_ranks_have_their_average_step_and_who_is_late(found: DiagnoseResult) -> None:
    first, second = rows("ranks", found)
    lengths = [one["length_ns"] for one in rows("steps", found)]
    assert first["step_ns"] == pytest.approx(sum(lengths[:3]) / 3)
    assert second["caused_ns"] > first["caused_ns"] >= 0
    assert first["peer_wait_ns"] > second["peer_wait_ns"]


def test_kernels_collectives_and_host_are_those_of_the_diagnosis(found: DiagnoseResult) -> None:
    diagnosis = found.diagnosis
    assert [one["time_ns"] for one in rows("kernels", found)] == [row.time_ns for row in diagnosis.kernels]
    assert [one["wait_ns"] for one in rows("collectives", found)] == [row.wait_ns for row in diagnosis.collectives]
    assert [one["time_ns"] for one in rows("host", found)] == [row.time_ns for row in diagnosis.doing]
    unknown = [one for one in rows("kernels", found) if one["regime"] == "unknown"]
    assert unknown
    assert all(one["share_of_roof"] is None for one in unknown)


def test_findings_have_title_and_evidence(found: DiagnoseResult) -> None:
    first, second, remark = rows("findings", found)
    assert (first["code"], first["share"], first["numerics"]) == ("RL-H01", 0.4, "bitwise")
    assert first["title"] == "Replay the launches of a step as a CUDA graph"
    assert first["evidence"] == "The device waits 4.000 ms for a|b. Second. Third."
    assert second["bound_ns"] == 2e6
    assert remark["bound_ns"] == 0


def test_the_waterfall_has_every_account(found: DiagnoseResult) -> None:
    bars = rows("waterfall", found)
    assert [one["account"] for one in bars] == [account.replace(" ", "_") for account in ACCOUNTS]
    assert sum(one["share"] for one in bars) == pytest.approx(1)


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_are_of_their_columns_kind(name: str, found: DiagnoseResult) -> None:
    kinds: dict[str, tuple[type, ...]] = {"whole": (int,), "number": (float, type(None))}
    shown = raw_rows(name, found)
    assert shown
    for row in shown:
        for cell, column in zip(row, COLUMNS[name], strict=True):
            assert type(cell) in kinds.get(column.kind, (str,)), column.name


@pytest.mark.parametrize("name", COLUMNS)
def test_the_page_has_every_column(name: str) -> None:
    assert [row[0] for row in rows_of(section(PAGE, name))] == [f"`{column.name}`" for column in COLUMNS[name]]


def test_the_page_has_every_argument_and_every_attribute() -> None:
    arguments = list(inspect.signature(redline.diagnose).parameters)
    own = [name for name in dir(DiagnoseResult) if not name.startswith("_") and callable(getattr(DiagnoseResult, name))]
    attributes = [*(one.name for one in fields(DiagnoseResult)), *own]
    documented = [row[0] for row in rows_of(section(PAGE, "redline.diagnose"))]
    named = [re.sub(r"\(.*\)", "", name.strip("`")) for name in documented]
    assert named[: len(arguments)] == arguments
    assert sorted(named[len(arguments) :]) == sorted(attributes)


# --- CSV --------------------------------------------------------------------------------------------------------------


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


HOSTILE = {
    '=HYPERLINK("http://evil.example","click")': '\'=HYPERLINK("http://evil.example","click")',
    "+1+1": "'+1+1",
    "-1+cmd|' /C calc'!A0": "'-1+cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1+1": "'=1+1",
    "\r=1+1": "'=1+1",
    "\r\nplain": "'plain",
    "\x00=1": "'=1",
    "\u202e=1": "'=1",
    "\uff1d1+1": "'\uff1d1+1",
    "\x1b[31mred\x1b[0m": "[31mred[0m",
    "abc\u202edcb\u2066": "abcdcb",
    "two\nlines": "twolines",
    'comma, "quote"': 'comma, "quote"',
    "aten::mm": "aten::mm",
    "a=b": "a=b",
    "": "",
}


@pytest.mark.parametrize(("name", "expected"), HOSTILE.items())
def test_texts_are_no_formulas(name: str, expected: str, found: DiagnoseResult) -> None:
    assert harmless(name) == expected
    first = read_csv(csv_of("kernels", named(found, name)))[0]
    assert (first["operator"], first["kernel"]) == (expected, expected)


def test_numbers_stay_numbers(found: DiagnoseResult) -> None:
    behind = replace(found.diagnosis.clocks, offset_ns=(-5, 7))
    moved = replace(found, diagnosis=replace(found.diagnosis, clocks=behind))
    first, second = read_csv(csv_of("ranks", moved))
    assert (first["clock_offset_ns"], second["clock_offset_ns"]) == ("-5", "7")


def test_what_is_not_known_is_empty(found: DiagnoseResult) -> None:
    cells = [one["share_of_roof"] for one in read_csv(csv_of("kernels", found))]
    assert "" in cells
    assert any(float(cell) > 0 for cell in cells if cell)


def test_the_head_names_units(found: DiagnoseResult) -> None:
    head = csv_of("kernels", found).splitlines()[0]
    assert (
        head == "operator,kernel,shapes,dtype,calls,kernels,time_ns,bytes,flops,math_ns,memory_ns,share_of_roof,regime"
    )


# --- data frames ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
def test_frames(name: str, found: DiagnoseResult) -> None:
    pytest.importorskip("pandas")
    frame = found.frame(name)
    assert list(frame.columns) == [column.name for column in COLUMNS[name]]
    assert len(frame) == len(raw_rows(name, found))
    types = {"whole": "int64", "number": "float64"}
    assert [str(one) for one in frame.dtypes] == [types.get(column.kind, "object") for column in COLUMNS[name]]


def test_an_empty_frame_has_its_columns(found: DiagnoseResult) -> None:
    pytest.importorskip("pandas")
    empty = replace(found, diagnosis=replace(found.diagnosis, collectives=()))
    frame = empty.frame("collectives")
    assert (len(frame), str(frame["wait_ns"].dtype)) == (0, "int64")


def test_a_table_that_is_not_there(found: DiagnoseResult) -> None:
    with pytest.raises(UsageError) as caught:
        found.frame("kernal")
    assert str(caught.value) == (
        "there is no table 'kernal'; there are: findings, kernels, collectives, ranks, steps, host, waterfall, phases"
    )


def test_without_pandas_it_is_said_how_to_get_it(found: DiagnoseResult, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError) as caught:
        found.frame("kernels")
    assert str(caught.value) == "data frames need pandas: pip install 'redline-perf[frames]'"


def test_only_one_module_knows_pandas() -> None:
    sources = Path(redline.__file__).parent.rglob("*.py")
    importing = {path.name for path in sources if "import pandas" in path.read_text()}
    assert importing == {"raw_tables.py", "diagnose_result.py"}  # the latter for type checkers only
