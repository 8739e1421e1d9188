"""`redline calibrate` on the command line: what it prints and writes, and every mistake before anything is measured."""

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.calibration.budget import Budget
from redline.calibration.calibration_record import FAMILIES, Collectives
from redline.calibration.collectives import start
from redline.calibration.collectives.start import OperationExample
from redline.cli import main
from redline.cli.calibrate import CalibrateOptions
from redline.cli.options import options_of
from redline.verbs import calibrate as verb
from redline.verbs.calibrate import Calibrated, load_calibrated
from tests.support.made_calibrations import calibration, collectives, cpu_machine, peak

FASTER = calibration(peaks=(peak("fp32", 4e11), peak("bf16", 3e12)))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDLINE_LANG", raising=False)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the verb was asked for; it measures nothing, and is done at once."""
    found: dict[str, Any] = {}

    def calibrate(**given: Any) -> Calibrated:
        found.update(given)
        verb.chosen(given["only"], has_processes=bool(given["torchrun"]))
        given["tell"]("pass 1 of 1: memory")
        return Calibrated(calibration=calibration(), machine=cpu_machine())

    monkeypatch.setattr(verb, "calibrate", calibrate)
    return found


@pytest.fixture
def profiles(folder: Path) -> list[str]:
    for name, found in (("a.json", calibration()), ("b.json", FASTER)):
        Calibrated(calibration=found, machine=cpu_machine()).save(folder / name)
    return ["a.json", "b.json"]


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """What is said where nothing is done."""
    assert main(["calibrate", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("redline: ")
    assert told.err.count("\n") <= 2
    return told.err.removeprefix("redline: ")


# --- measuring --------------------------------------------------------------------------------------------------------


def test_the_profile_the_table_and_the_next_command(
    asked: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("Imaginary CPU 9000, 8 cores, 8 threads: calibrated on 2026-11-15 14:30 in 143 s\n")
    assert told.err == ("redline: pass 1 of 1: memory\nnext: redline diagnose TRACE --machine machine.json\n")
    assert load_calibrated(folder / "machine.json").calibration == calibration()
    assert json.loads((folder / "machine.json").read_text())["made_by"] == "redline calibrate"
    assert (asked["quick"], asked["only"], asked["torchrun"]) == (False, None, ())
    assert asked["budget"].seconds == 300


def test_options_reach_the_verb(asked: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--quick --only compute,collectives --nproc-per-node 2 -o ours.json -q --nnodes=1"
    assert main(["calibrate", *words.split()]) == 0
    assert (asked["quick"], asked["only"], asked["budget"].seconds) == (True, ["compute", "collectives"], 90)
    assert asked["torchrun"] == ("--nproc-per-node", "2", "--nnodes=1")
    assert (folder / "ours.json").exists()
    assert capsys.readouterr().err == ""


def test_a_budget_is_so_many_seconds(asked: dict[str, Any]) -> None:
    assert main(["calibrate", "--quick", "--budget", "12.5s", "-q"]) == 0
    assert asked["budget"].seconds == 12.5


def test_what_was_measured_before_a_signal_is_kept(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def calibrate(*, budget: Budget, **_: Any) -> Calibrated:
        budget.has_results = True
        signal.raise_signal(signal.SIGTERM)
        return Calibrated(calibration=calibration(partial=budget.stopped_by), machine=cpu_machine())

    monkeypatch.setattr(verb, "calibrate", calibrate)
    assert main(["calibrate"]) == 130
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "redline: interrupted; machine.json has what was measured until then, marked as partial\n"
    assert load_calibrated(folder / "machine.json").calibration.partial == "SIGTERM"


def test_json_is_the_profile(asked: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--json", "-q"]) == 0
    assert asked
    assert capsys.readouterr().out == (folder / "machine.json").read_text()


def test_a_page_beside_the_profile(asked: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "-o", "page.html", "-o", "all.txt", "--lang", "zh"]) == 0
    assert asked
    assert '<html lang="zh-CN">' in (folder / "page.html").read_text()
    told = capsys.readouterr()
    assert "next: open page.html in a browser\n" in told.err
    assert (folder / "all.txt").read_text() == told.out
    assert (folder / "machine.json").exists()


def test_force_replaces_what_is_there(asked: dict[str, Any], folder: Path) -> None:
    (folder / "machine.json").write_text("old")
    assert main(["calibrate", "--force", "-q"]) == 0
    assert asked
    assert (folder / "machine.json").read_text() != "old"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (collectives(), 0),
        (collectives(slow=True), 1),
        (replace(collectives(), points=(replace(collectives().points[0], correct=False),)), 1),
    ],
)
def test_a_script_can_stop_at_a_slow_rank_or_a_wrong_result(
    found: Collectives, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Calibrated(calibration=calibration(collectives=found), machine=cpu_machine())
    monkeypatch.setattr(verb, "calibrate", lambda **_: whole)
    assert main(["calibrate", "--nproc-per-node", "4", "--fail-if-slow", "-o", "a.json"]) == code
    assert main(["calibrate", "--nproc-per-node", "4", "-o", "b.json"]) == 0


def test_a_machine_that_only_took_part_says_so(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "calibrate", lambda **_: None)
    assert main(["calibrate", "--nnodes", "2"]) == 0
    assert capsys.readouterr() == ("", "redline: this machine took part; the first machine has the results\n")
    assert main(["calibrate", "--nnodes", "2", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert list(folder.iterdir()) == []


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "m.csv"], "calibrate: m.csv: calibrate writes .json, .html or .txt; give the file such a name\n"),
        (["-o", "m"], "calibrate: m: calibrate writes .json, .html or .txt; give the file such a name\n"),
        (["-o", "a.json", "-o", "b.json"], "calibrate: there is one profile; give one of a.json and b.json\n"),
        (["-o", "none/m.json"], "cannot write none/m.json: the folder "),
        (
            ["--only", "magic"],
            "calibrate: there is no family 'magic'; there are: compute, memory, overhead, roofline, collectives\n",
        ),
        (
            ["--only", ","],
            "calibrate: --only names no family; there are: compute, memory, overhead, roofline, collectives\n",
        ),
        (
            ["--only", "collectives"],
            "calibrate: collectives need processes; say how many, such as --nproc-per-node 2\n",
        ),
        (
            ["--only", "memory", "--nproc-per-node", "2"],
            "calibrate: options of torchrun are for collectives; add collectives to --only, or drop them\n",
        ),
        (["--fail-if-slow"], "calibrate: --fail-if-slow needs processes; say how many, such as --nproc-per-node 8\n"),
        (["--show"], "calibrate: --show needs processes; say how many, such as --show --nproc-per-node 4\n"),
        (["--show", "--budget", "9"], "calibrate: --show measures nothing, so it does not go with --budget\n"),
        (["--budget", "soon"], "calibrate: argument --budget: 'soon' is not a number of seconds from 1 to 86400\n"),
        (["--budget", "0"], "calibrate: argument --budget: '0' is not a number of seconds from 1 to 86400\n"),
        (["--budget", "nan"], "calibrate: argument --budget: 'nan' is not a number of seconds from 1 to 86400\n"),
        (["--show", "--quick"], "calibrate: --show measures nothing, so it does not go with --quick\n"),
        (["trace.json"], "calibrate: unrecognized arguments: trace.json\n"),
        (["--compare", "a.json"], "calibrate: argument --compare: expected 2 arguments\n"),
        (["--no-python"], "calibrate: unrecognized arguments: --no-python\n"),
    ],
)
def test_mistakes_are_said_before_anything_is_measured(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert refused(capsys, arguments).startswith(message)
    assert "tell" not in asked or "--only" in arguments


def test_existing_files_are_kept(asked: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "machine.json").write_text("old")
    assert refused(capsys, []) == "machine.json already exists; use --force to replace it, or choose another name\n"
    (folder / "page.html").write_text("old")
    assert "page.html already exists" in refused(capsys, ["-o", "new.json", "-o", "page.html"])
    assert asked == {}
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"machine.json": "old", "page.html": "old"}


def test_without_torch_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for given in ([], ["--show", "--nproc-per-node", "2"]):
        assert refused(capsys, given).startswith("calibrate: torch is not installed here; install it")


def test_the_help_names_every_family() -> None:
    assert any(",".join(FAMILIES) in option.help for option in options_of(CalibrateOptions))


# --- comparing --------------------------------------------------------------------------------------------------------


def test_comparing_prints_or_writes(profiles: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--compare", *profiles]) == 0
    text = capsys.readouterr().out
    assert text.startswith("B against A, ")
    assert main(["calibrate", "--compare", *profiles, "-o", "c.txt"]) == 0
    assert (folder / "c.txt").read_text() == text
    assert main(["calibrate", "--compare", *profiles, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["synthetic"]) == ("calibration-comparison", True)
    assert main(["calibrate", "--compare", *profiles, "-o", "c.json"]) == 0
    assert json.loads((folder / "c.json").read_text()) == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quick"], "calibrate: --compare measures nothing, so it does not go with --quick\n"),
        (["--show"], "calibrate: --compare measures nothing, so it does not go with --show\n"),
        (["--nnodes", "2"], "calibrate: --compare measures nothing, so it does not go with the options of torchrun\n"),
        (["-o", "c.txt", "-o", "d.txt"], "calibrate: --compare writes one file; give -o once\n"),
        (["-o", "c.html"], "calibrate --compare: c.html: calibrate --compare writes .json or .txt; give the file"),
        (["-o", "a.json"], "a.json already exists; use --force to replace it, or choose another name\n"),
    ],
)
def test_comparing_does_not_go_with_measuring(
    profiles: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert refused(capsys, ["--compare", *profiles, *arguments]).startswith(message)


def test_files_that_cannot_be_compared(profiles: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read none.json as a machine profile" in refused(capsys, ["--compare", "a.json", "none.json"])
    record = json.loads((folder / profiles[0]).read_text())
    (folder / "damaged.json").write_text(json.dumps({**record, "calibration": {"subject": 7}}))
    assert "its measurements are not sound" in refused(capsys, ["--compare", "a.json", "damaged.json"])
    record["calibration"]["bandwidths"][0]["time_ns"]["value"] = 0
    (folder / "zero.json").write_text(json.dumps(record))
    assert "its measurements are not sound: " in refused(capsys, ["--compare", "zero.json", "a.json"])
    record["calibration"]["bandwidths"][0]["time_ns"]["value"] = 1e-305
    (folder / "endless.json").write_text(json.dumps(record))
    assert "calibration.bandwidths[].time_ns.value = 1e-305 is out of range" in refused(
        capsys, ["--compare", "endless.json", "a.json", "--json"]
    )
    del record["calibration"]
    (folder / "figures.json").write_text(json.dumps(record))
    assert "has figures only, not the measurements behind them" in refused(
        capsys, ["--compare", "figures.json", "a.json"]
    )


# --- showing ----------------------------------------------------------------------------------------------------------


def test_showing_what_collectives_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one = OperationExample(operation="all_reduce", before=((1,), (2,)), after=((3,), (3,)), correct=True)
    given: list[Sequence[str]] = []

    def show(torchrun: Sequence[str]) -> tuple[OperationExample, ...] | None:
        given.append(torchrun)
        return (one,) if len(given) == 1 else None

    monkeypatch.setattr(start, "show_collectives", show)
    assert main(["calibrate", "--show", "--nproc-per-node", "2"]) == 0
    assert "     1  [2]     [3]\n" in capsys.readouterr().out
    assert given == [("--nproc-per-node", "2")]
    assert main(["calibrate", "--show", "--nproc-per-node", "2"]) == 0
    assert capsys.readouterr() == ("", "")
