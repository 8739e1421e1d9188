"""`redline calibrate` as users meet it: a real, small calibration, and its pages against the code."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from redline.calibration import conditions, overhead
from redline.calibration.calibration_record import Calibration
from redline.calibration.compare import ComparisonVerdict, compare
from redline.report.calibrate.profile_comparison import ProfileComparison
from redline.verbs.calibrate import load_calibrated
from tests.support.command_line import REDLINE, ROOT, environment, run_redline
from tests.support.docs import first_words_of_options, rows_of, section
from tests.support.made_calibrations import bare_calibration, calibration

PAGE = ROOT / "docs" / "reference" / "calibrate.md"
EXPLANATION = ROOT / "docs" / "explanation" / "calibration.md"


def test_a_quick_calibration_of_overheads(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run_redline(
        *("calibrate", "--quick", "--budget", "150", "--only", "overhead", "-o", "ours.json", "-o", "a.html"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "operator on one number, into a given tensor" in done.stdout
    assert re.match(
        r"redline: load .*: (quiet|busy, .*); at most 150 s\nredline: what matters most, pass 1", done.stderr
    )
    assert done.stderr.endswith("next: redline diagnose TRACE --machine ours.json\n")
    found = load_calibrated(tmp_path / "ours.json")
    assert {point.name for point in found.calibration.overheads} <= set(overhead.MEANINGS)
    assert "dispatch_ns" in {**found.machine.figures, **found.machine.unusable}
    assert (found.calibration.budget_s, found.calibration.partial) == (150, "")
    assert found.calibration.seconds <= 150
    assert (tmp_path / "a.html").stat().st_size < 2_500_000
    shown = run_redline("hardware", "ours.json", cwd=tmp_path)
    assert "dispatch" in shown.stdout
    same = run_redline("calibrate", "--compare", "ours.json", "ours.json", cwd=tmp_path)
    assert re.match(r"B against A, (\d+) figures: \1 same\n", same.stdout)
    again = run_redline("calibrate", "-o", "ours.json", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (
        2,
        "redline: ours.json already exists; use --force to replace it, or choose another name\n",
    )


# --- interrupted ------------------------------------------------------------------------------------------------------


def _hear_ctrl_c() -> None:
    """A process in the background of a shell may ignore it, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(folder: Path, *options: str, when: str = "", after_s: float = 0.0) -> tuple[int, list[str]]:
    """Its exit code and what it said, when a signal came with a line like this, or after some seconds."""
    words = [*REDLINE, "calibrate", "--quick", "--budget", "900", *options]  # whatever else runs, it is the signal
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 (nothing else runs in this process)
    ) as started:
        assert started.stderr is not None
        lines = []
        for line in iter(started.stderr.readline, "") if when else ():
            lines.append(line)
            if when in line:
                break
        time.sleep(after_s)
        started.send_signal(signal.SIGINT)
        lines += started.stderr.readlines()
        code = started.wait()
        # CPython ends itself by the signal where it came while a text was executed, as of a dataclass being imported,
        # however it was handled later. A shell says 130 for that too.
        return 130 if code == -signal.SIGINT else code, lines


def test_an_interrupted_calibration_leaves_what_it_has(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code, lines = interrupted(tmp_path, "--only", "overhead", when="pass 1 of 3: overhead")
    assert (code, lines[-1]) == (
        130,
        "redline: interrupted; machine.json has what was measured until then, marked as partial\n",
    )
    found = load_calibrated(tmp_path / "machine.json")
    assert found.calibration.partial == "SIGINT"
    assert found.calibration.overheads
    assert [path.name for path in tmp_path.iterdir()] == ["machine.json"]
    shown = run_redline("hardware", "machine.json", cwd=tmp_path)
    assert "Partial: SIGINT ended it after " in shown.stdout


def test_interrupted_before_anything_is_measured_it_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code, lines = interrupted(tmp_path, when="; at most 900 s")
    assert (code, lines[1:]) == (130, ["redline: interrupted\n"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.5, 2, 4, 6, 9, 13, 18, 24, 31, 40])
def test_interrupted_at_any_moment_it_leaves_a_profile_that_reads_or_nothing(tmp_path: Path, after_s: float) -> None:
    code, lines = interrupted(tmp_path, after_s=after_s)
    left = [path.name for path in tmp_path.iterdir()]
    assert left in ([], ["machine.json"])
    if left:
        partial = load_calibrated(tmp_path / "machine.json").calibration.partial
        assert (code, partial) in [(130, "SIGINT"), (130, ""), (0, "")]
    else:
        assert (code, lines[-1]) == (130, "redline: interrupted\n")


# --- the pages --------------------------------------------------------------------------------------------------------


def test_the_page_has_every_option() -> None:
    assert {row[0] for row in rows_of(section(PAGE, "Options"))} == first_words_of_options("calibrate")


def test_the_page_has_every_overhead() -> None:
    assert [row[0] for row in rows_of(section(PAGE, "Overheads"))] == [f"`{name}`" for name in overhead.MEANINGS]


def test_the_page_has_every_key_of_the_measurements() -> None:
    documented = {row[0] for row in rows_of(section(PAGE, "The profile"))}
    assert {f"`{field.name}`" for field in fields(Calibration)} <= documented


def test_the_page_has_every_verdict_and_every_key_of_a_comparison() -> None:
    rows = {row[0] for row in rows_of(section(PAGE, "--compare"))}
    assert {f"`{verdict}`" for verdict in ComparisonVerdict} <= rows
    part = calibration(roofline=None)
    record = ProfileComparison(comparison=compare(calibration(), part)).record()
    documented = {row for row in rows if row.strip("`") not in set(ComparisonVerdict)}
    assert documented == {f"`{key}`" for key in keys_of(record)}
    assert json.loads(ProfileComparison(comparison=compare(part, bare_calibration())).rendered("json"))["only_first"]


def keys_of(value: Any, at: str = "") -> Iterator[str]:
    """Every key of the JSON with the way to it; what the second side has is as in the first."""
    if isinstance(value, dict) and not at.endswith("estimate"):
        for key, inner in value.items():
            if key not in ("second", "only_second"):
                yield from keys_of(inner, f"{at}.{key}".removeprefix("."))
    elif isinstance(value, list) and at in ("rows", "only_first"):
        for inner in value:
            yield from keys_of(inner, f"{at}[]")
    else:
        yield at


def test_the_explanation_has_every_cause_of_noise_with_its_limit() -> None:
    rows = {row[0].strip("`"): row[2] for row in rows_of(section(EXPLANATION, "Noise"))}
    assert rows == {
        name: f"{limit:g}" if name == "load" else f"{100 * limit:g} %" for name, limit in conditions.LIMITS.items()
    }
