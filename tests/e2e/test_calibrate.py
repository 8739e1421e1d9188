"""`redline calibrate` as users meet it: a real, small calibration, and its pages against the code."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from redline.probes import conditions, overhead
from redline.probes.compare import Verdict, compare
from redline.probes.record import Calibration
from redline.report.calibrate import compare_json as calibrate_compare_json
from redline.verbs.calibrate import load_calibrated
from tests.conftest import ROOT, run_redline
from tests.e2e.test_docs import first_words_of_options, rows_of, section
from tests.made_calibrations import bare_calibration, calibration

PAGE = ROOT / "docs" / "reference" / "calibrate.md"
EXPLANATION = ROOT / "docs" / "explanation" / "calibration.md"


def test_a_quick_calibration_of_overheads(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run_redline(
        "calibrate", "--quick", "--only", "overhead", "-o", "ours.json", "--report", "a.html", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "operator on one number, into a given tensor" in done.stdout
    assert done.stderr.startswith("redline: pass 1 of ")
    assert done.stderr.endswith("next: redline diagnose TRACE --machine ours.json\n")
    found = load_calibrated(tmp_path / "ours.json")
    assert {point.name for point in found.calibration.overheads} <= set(overhead.MEANINGS)
    assert found.machine.dispatch_ns is not None
    assert (tmp_path / "a.html").stat().st_size < 6_000_000
    shown = run_redline("hardware", "ours.json", cwd=tmp_path)
    assert "dispatch" in shown.stdout
    same = run_redline("calibrate", "--compare", "ours.json", "ours.json", cwd=tmp_path)
    assert same.stdout.startswith("B is the same as A within the intervals")
    again = run_redline("calibrate", "-o", "ours.json", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (
        2,
        "redline: ours.json already exists; use --force to replace it, or choose another name\n",
    )


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
    assert {f"`{verdict}`" for verdict in Verdict} <= rows
    part = calibration(roofline=None)
    record = calibrate_compare_json.as_record(compare(calibration(), part))
    documented = {row for row in rows if row.strip("`") not in set(Verdict)}
    assert documented == {f"`{key}`" for key in keys_of(record)}
    assert json.loads(calibrate_compare_json.render(compare(part, bare_calibration())))["only_first"]


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
