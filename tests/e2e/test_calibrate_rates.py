"""Calibrated figures in other verbs: used where they are good, declined with the reason where a machine was busy."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redline.hardware.profile import load_profile
from redline.verbs.calibrate import load_calibrated
from tests.support.command_line import REDLINE, ROOT, environment, run_redline

TRACE = ROOT / "tests/data/recorded/plain_loop.pt.trace.json.gz"
PLAN = "plan train --model llama-3.1-8b --machine machine.json --gpus 8 --sequence 2048 --batch 64"


@contextmanager
def busy_loops(count: int = 8) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def diagnosed(folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """What is said of the MFU, however it is broken into lines, and the JSON."""
    text = run_redline("diagnose", str(TRACE), *options, cwd=folder).stdout
    record = json.loads(run_redline("diagnose", str(TRACE), *options, "--json", cwd=folder).stdout)
    return " ".join(text[text.index("\nMFU") :].split()), record


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """A folder with the profile that the calibration below wrote beside eight busy loops."""
    shutil.copyfile(ROOT / "tests/data/busy_machine.json", tmp_path / "machine.json")
    return tmp_path


@pytest.mark.slow  # it keeps all processors busy for half a minute
def test_a_busy_machine_ends_in_time_and_marks_everything(tmp_path: Path) -> None:
    """Eight loops begin when it has begun to measure."""
    pytest.importorskip("torch")
    words = [*REDLINE, "calibrate", "--quick", "--budget", "30", "--only", "compute,memory"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as started:
        assert started.stderr is not None
        lines = iter(started.stderr.readline, "")
        first = [line for line, _ in zip(lines, range(2), strict=False)]
        with busy_loops():
            rest = list(lines)
            code = started.wait()
    if "nothing could be timed in 30 s" in "".join([*first, *rest]):
        pytest.skip("this machine was so busy that nothing could be timed in 30 s")
    assert code == 0, rest
    assert re.match(r"redline: load .*; at most 30 s\n", first[0]), first
    check_everything_is_marked(tmp_path / "machine.json")


def test_what_a_busy_machine_measured_is_marked(busy: Path) -> None:
    check_everything_is_marked(busy / "machine.json")


def check_everything_is_marked(profile: Path) -> None:
    found = load_calibrated(profile)
    assert found.calibration.seconds <= 60  # 30 where eight loops are all that else runs
    assert set(found.machine.figures) <= {"memory_bytes"}
    assert found.machine.unusable
    assert any(one.why == "no time was left of 30 s" for one in found.calibration.declined)


def test_neither_diagnose_nor_plan_quotes_what_a_busy_machine_measured(busy: Path) -> None:
    said, record = diagnosed(busy, "--machine", "machine.json")
    assert said.startswith("MFU unknown: no usable peak for fp32 in the profile: measured figures are not used: ")
    assert "calibrate again on a quiet machine" in said
    assert record["utilisation"] is None
    declined = [one for one in record["unseen"] if one["what"] == "unusable_figures"]
    assert len(declined) == 1
    planned = run_redline(*PLAN.split(), cwd=busy)
    assert planned.returncode == 2
    assert "so steps in bf16 cannot be planned\n" in planned.stderr


def test_a_trace_of_a_cpu_is_declined_without_a_profile_and_rated_with_it(busy: Path) -> None:
    said, record = diagnosed(busy)
    assert said.startswith("MFU unknown: no peaks; ")
    assert record["utilisation"] is None

    profile = json.loads((busy / "machine.json").read_text())
    for figure in profile["figures"].values():  # as if the machine had been quiet
        figure.pop("unusable", None)
        figure["spread"] = 0.02
    (busy / "quiet.json").write_text(json.dumps(profile))
    peak = load_profile(busy / "quiet.json").peak_flops_per_s("fp32")
    assert peak is not None
    said, record = diagnosed(busy, "--machine", "quiet.json")
    assert re.match(r"MFU .*; peak: calibrated, within 2.0 %", said)
    assert record["utilisation"]["peak_origins"] == ["calibrated"]
    assert record["utilisation"]["peaks"] == {"fp32": peak.value}
    assert record["utilisation"]["peak_spread"] == peak.spread


@pytest.mark.slow
def test_a_whole_quick_calibration_beside_eight_busy_loops(tmp_path: Path) -> None:
    with busy_loops():
        done = run_redline("calibrate", "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = load_calibrated(tmp_path / "machine.json")
    assert found.calibration.seconds <= 90
    assert set(found.machine.figures) <= {"memory_bytes"}
    assert "unusable" in done.stdout
    planned = run_redline(*PLAN.split(), cwd=tmp_path)
    assert planned.returncode == 2
    assert "measured figures are not used: " in planned.stderr
