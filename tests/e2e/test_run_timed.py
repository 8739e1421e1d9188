"""A job whose steps nobody recognises: a timed window is captured instead, and the job is none the worse for it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run_redline
from tests.support.fault_cases import ROOT, Outcome, run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

JOB = str(ROOT / "tests/e2e/programs/no_steps.py")
SECONDS = "6"
REDLINE_RUN = (sys.executable, "-m", "redline", "run", "-o", "run")


def watched(folder: Path, what: str, *options: str, seconds: str = SECONDS, after: str = "1") -> Outcome:
    return run([*REDLINE_RUN, "--timed-after", after, *options, "--", JOB, what, seconds], folder / "watched")


def summary_of(ran: Outcome) -> str:
    """Without the line breaks that the width of the terminal asks for."""
    return " ".join(ran.stderr.split())


def ranks_of(folder: Path) -> list[dict[str, Any]]:
    record = json.loads((folder / "watched/run/run.json").read_bytes())
    found: list[dict[str, Any]] = record["ranks"]
    return found


def windows_of(folder: Path) -> list[tuple[int, str, int]]:
    return [
        (window["number"], window["state"], window["steps"]) for one in ranks_of(folder) for window in one["windows"]
    ]


def diagnosed(folder: Path) -> "subprocess.CompletedProcess[str]":
    return run_redline("diagnose", folder / "watched/run", cwd=folder)


def test_a_second_is_captured_and_the_diagnosis_says_what_it_is(tmp_path: Path) -> None:
    ran = watched(tmp_path, "plain")
    assert (ran.status, ran.stdout) == (0, "done\n")
    assert " timed 1." in summary_of(ran)
    assert "mark the end of a step with redline.step()" in summary_of(ran)
    assert windows_of(tmp_path) == [(0, "written", 0)]
    said = diagnosed(tmp_path)
    assert said.returncode == 0, said.stderr
    assert "a timed window: no steps were recognised" in said.stdout


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("term", -15),
        pytest.param("exit", 7, marks=pytest.mark.slow),
        ("raise", 1),
        pytest.param("handled", 3, marks=pytest.mark.slow),
        pytest.param("leave", 5, marks=pytest.mark.slow),
    ],
)
def test_a_job_that_ends_in_the_window_ends_as_it_would(tmp_path: Path, what: str, status: int) -> None:
    ran = watched(tmp_path, what, seconds="30")
    assert (ran.status, ran.stdout) == (status, "")
    assert ("ValueError: of the script" in ran.stderr) == (what == "raise")
    assert windows_of(tmp_path) == [(0, "killed" if what == "leave" else "written", 0)]


@pytest.mark.parametrize(
    "what",
    [
        "alarms",
        pytest.param("forks", marks=pytest.mark.slow),
        pytest.param("inference", marks=pytest.mark.slow),
        pytest.param("in_two_threads", marks=pytest.mark.slow),
        pytest.param("own_profiler", marks=pytest.mark.slow),
    ],
)
def test_the_job_does_what_it_does(tmp_path: Path, what: str) -> None:
    bare = run([sys.executable, JOB, what, "2"], tmp_path / "bare")
    ran = watched(tmp_path, what)
    assert (ran.status, ran.stdout) == (bare.status, bare.stdout)
    assert "done\n" in bare.stdout
    assert {number for number, _, _ in windows_of(tmp_path)} <= {0}


def test_a_main_thread_that_only_waits_gives_no_opportunity(tmp_path: Path) -> None:
    ran = watched(tmp_path, "in_thread", seconds="9")
    assert (ran.status, ran.stdout) == (0, "done\n")
    assert "the main thread only waited" in summary_of(ran)
    assert windows_of(tmp_path) == []
    assert "no steps were recognised" in diagnosed(tmp_path).stderr


def test_steps_that_begin_meanwhile_in_another_thread_take_its_place(tmp_path: Path) -> None:
    ran = watched(tmp_path, "optimizer_in_thread", seconds="30")
    assert (ran.status, ran.stdout) == (0, "done\n")
    (rank,) = ranks_of(tmp_path)
    assert (rank["steps"], rank["step_kind"]) == (60, "optimizer")
    assert windows_of(tmp_path) == [(1, "written", 3)]
    assert not (tmp_path / "watched/run/window-0").exists()


def test_all_ranks_are_captured_at_about_the_same_moment(tmp_path: Path) -> None:
    ran = watched(tmp_path, "two_ranks", "--standalone", "--nproc-per-node", "2", seconds="10")
    assert ran.status == 0, ran.stderr
    assert windows_of(tmp_path) == [(0, "written", 0)] * 2
    said = diagnosed(tmp_path)
    assert "2 ranks of 2" in said.stdout
    assert "a timed window" in said.stdout


def test_a_job_that_is_over_sooner_has_no_window_and_both_verbs_say_why(tmp_path: Path) -> None:
    ran = watched(tmp_path, "plain", seconds="1", after="30")
    assert (ran.status, ran.stdout) == (0, "done\n")
    assert "no steps recognised" in summary_of(ran)
    assert windows_of(tmp_path) == []
    said = diagnosed(tmp_path)
    assert said.returncode != 0
    assert "Call redline.step() at the end of each step" in said.stderr


def test_steps_without_torch_are_not_denied(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import redline\nfor _ in range(5):\n    redline.step()\n")
    ran = run([*REDLINE_RUN, "--", str(job)], tmp_path / "watched")
    assert "steps 5, counted from redline.step()" in summary_of(ran)
    assert "the job did not import torch, so nothing could be captured" in summary_of(ran)
    assert "no steps" not in summary_of(ran)
