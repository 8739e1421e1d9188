"""`redline hardware` as users meet it: text compared with golden files, JSON with its page, mistakes in one line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.hardware.catalogue import machines
from redline.hardware.machine import COLLECTIVES, DTYPES, FIGURE_UNITS, LEVELS, Figure, Machine, calibrated
from redline.hardware.profile import save_profile
from redline.report import hardware
from tests.support.command_line import ROOT, run_redline
from tests.support.docs import rows_of, section

GOLDEN = ROOT / "tests" / "golden" / "hardware"
PAGE = ROOT / "docs" / "reference" / "hardware.md"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A profile with a hostile name, a slow figure and a launch cost."""
    measured = {
        "memory_bytes_per_s": Figure(value=3.0e12, source="copy of 4 GB", date="2026-08-14", spread=0.012),
        "peak_flops_per_s.fp64": Figure(value=4.5e10, source="matmul", date="2026-08-14"),
        "launch_ns": Figure(value=2130.4, source="empty kernels", date="2026-08-14"),
        "dispatch_ns": Figure(
            value=9e6, source="operators", date="2026-08-14", spread=0.9, unusable="too \x1b[2J rough"
        ),
    }
    base = redline.find_hardware("H100-SXM5-80GB")[0]
    path = tmp_path / "ours.json"
    save_profile(calibrated(base, "our\x1b[2J H100", measured, synthetic=True, notes=("n",)), path, made_by="a test")
    return path


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [("all", []), ("parts", ["h100"]), ("record", ["MI300X"]), ("doubtful", ["ascend"]), ("sibling", ["v100 dgxs"])],
)
def test_text(golden: str, arguments: list[str], update_golden: bool) -> None:
    done = run_redline("hardware", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    compare(golden, done.stdout, update_golden)


def test_text_of_a_profile(profile: Path, update_golden: bool) -> None:
    done = run_redline("hardware", profile)
    assert (done.returncode, done.stderr) == (0, "")
    compare("profile", done.stdout, update_golden)


def compare(golden: str, text: str, update: bool) -> None:
    path = GOLDEN / f"{golden}.txt"
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_a_machine_without_figures_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    save_profile(Machine(name="bare"), path, made_by="a test")
    done = run_redline("hardware", path)
    assert done.stdout == "bare\nridge     unknown: needs a 16-bit peak and the memory bandwidth\n"


def test_json_and_files(profile: Path, tmp_path: Path) -> None:
    printed = run_redline("hardware", profile, "--json")
    record = json.loads(printed.stdout)
    assert (record["kind"], record["synthetic"], len(record["machines"])) == ("hardware", True, 1)
    figures = {figure["name"]: figure for figure in record["machines"][0]["figures"]}
    assert figures["memory_bytes_per_s"] == {
        "name": "memory_bytes_per_s",
        "value": 3.0e12,
        "unit": "B/s",
        "origin": "calibrated",
        "source": "copy of 4 GB",
        "date": "2026-08-14",
        "low_confidence": False,
        "spread": 0.012,
    }
    (unused,) = record["machines"][0]["unusable"]
    assert (unused["name"], unused["why"]) == ("dispatch_ns", "too \x1b[2J rough")
    assert "dispatch_ns" not in figures
    file = tmp_path / "all.json"
    assert run_redline("hardware", "-o", file).stdout == ""
    assert [machine["name"] for machine in json.loads(file.read_text())["machines"]] == [m.name for m in machines()]
    assert run_redline("hardware", "h20", "-o", file).returncode == 0  # ours, so replaced
    assert len(json.loads(file.read_text())["machines"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rtx 2080"], "there is no record 'rtx 2080' in the catalogue; `redline hardware` lists them all\n"),
        ([""], "there is no record '' in the catalogue; `redline hardware` lists them all\n"),
        (["\x1b[2J"], "there is no record '\\x1b[2J' in the catalogue; `redline hardware` lists them all\n"),
        (["x" * 5000], "there is no record 'xxx"),
        (["a", "b"], "hardware: unrecognized arguments: b\nsee: redline hardware --help\n"),
        (["none.json"], "cannot read none.json as a machine profile: No such file or directory; check its name\n"),
        (["-o", "x.csv"], "hardware: x.csv: hardware writes .json or .txt; give the file such a name\n"),
    ],
)
def test_mistakes_are_said_in_a_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run_redline("hardware", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"redline: {message}")
    assert done.stderr.count("\n") <= 2
    assert "Traceback" not in done.stderr


def test_a_trace_is_no_profile() -> None:
    done = run_redline("hardware", ROOT / "tests/data/recorded/plain_loop.pt.trace.json.gz")
    assert done.returncode == 2
    assert "is damaged, or not a machine profile" in done.stderr


def test_the_verb_is_a_function_too() -> None:
    assert redline.find_hardware() == machines()
    assert [machine.name for machine in redline.find_hardware("gaudi")] == ["Gaudi2", "Gaudi3"]


# --- the page ---------------------------------------------------------------------------------------------------------


def keys_of(value: Any, at: str = "") -> Iterator[str]:
    """Every key of the JSON with the way to it."""
    if isinstance(value, dict) and not at.endswith("ridge_flops_per_byte"):
        for key, inner in value.items():
            yield from keys_of(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list) and at.endswith(("machines", "figures")):
        for inner in value:
            yield from keys_of(inner, f"{at}[]")
    else:
        yield at


def test_the_page_has_every_key_of_the_json() -> None:
    documented = {row[0] for row in rows_of(section(PAGE, "The JSON"))}
    assert documented == {f"`{key}`" for key in keys_of(hardware.record(machines()))}


def test_the_page_has_every_figure_and_unit() -> None:
    documented = set()
    for name, unit, _ in rows_of(section(PAGE, "Figures")):
        names = [name.strip("`")]
        for word, meanings in (("DTYPE", DTYPES), ("LEVEL", LEVELS), ("OPERATION", COLLECTIVES)):
            names = [one.replace(word, meaning) for one in names for meaning in (meanings if word in one else ("",))]
        documented |= {(one, unit) for one in names}
    # The page says beside the row that int8 counts operations.
    assert documented == {(name, "FLOP/s" if unit == "OP/s" else unit) for name, unit in FIGURE_UNITS.items()}


def test_the_page_has_every_key_of_a_profile(profile: Path) -> None:
    documented = {row[0].strip("`") for row in rows_of(section(PAGE, "Profiles"))}
    record = json.loads(profile.read_text())
    figure = {f"figures.NAME.{key}" for key in record["figures"]["dispatch_ns"]}
    assert documented == {*record, *figure, "vendor", "architecture", "calibration"}


def test_the_page_has_every_column() -> None:
    documented = {row[0].strip("`") for row in rows_of(section(PAGE, "The text"))}
    assert {column.title for column in hardware.COLUMNS if column.title} <= documented


def test_the_changelog_counts_no_record_too_many() -> None:
    """A new record comes without a change of the number, which is brought up to date with a release."""
    said = re.findall(r"(\d+) records, each number", (ROOT / "CHANGELOG.md").read_text())
    assert [int(number) <= len(machines()) for number in said] == [True]
