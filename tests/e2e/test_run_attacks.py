"""Adversarial scripts are under `redline run` what they are without: exit code, output, last words, losses.

A sample runs in CI: what has killed a job before, and what is nearest to it. All of them:

    pytest -m "slow or not slow" tests/e2e/test_run_attacks.py

`REDLINE_ATTACKS` names folders of further ones, with a `FOLDER.csv` beside each, separated as in `PATH`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.attacks import endings, limits, python, system, torch_use
from tests.support.attacks.cases import differences, of_folder
from tests.support.fault_cases import environment, redline_run
from tests.support.promises import needs_torch

PARTS = (endings.ATTACKS, python.ATTACKS, system.ATTACKS, torch_use.ATTACKS, limits.ATTACKS)
ATTACKS = {name: attack for part in PARTS for name, attack in part.items()}
SAMPLE = {
    "nofile_64", "no_torch", "syntax_error", "import_torch_late_fail", "audit_hook_blocks", "builtins_broken",
    "pyfakefs_like", "setsid_daemonize", "wrapped_fork_eagain",
    "data_limit_in_a_window", "no_more_processes",  # that as a window opens has a test of its own
}  # fmt: skip
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ATTACKS if name not in SAMPLE]


@needs_torch
@pytest.mark.parametrize("name", [*sorted(SAMPLE), *SLOW])
def test_a_script_is_what_it_is_without_us(name: str, tmp_path: Path) -> None:
    assert differences(ATTACKS[name], tmp_path / name) == []


def test_there_are_100_of_them() -> None:
    assert len(ATTACKS) == sum(map(len, PARTS)) == 100


@needs_torch
def test_a_limit_that_costs_a_window_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(limits.ATTACKS["data_limit_as_a_window_opens"].text)
    told = [word for word in redline_run(tmp_path / "run") if word != "-q"]
    status, stdout, stderr = ended(tmp_path, "true", *told, "--")
    assert (status, stdout.count("0x")) == (0, 25)
    assert stderr.count("the process was too near to a limit of its memory, so nothing was captured") == 1
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert {note["code"] for note in record["ranks"][0]["notes"]} == {"no-room", "no-threads", "stopped"}


@needs_torch
def test_stacks_that_few_files_cost_are_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(system.ATTACKS["nofile_64"].text)
    told = [word for word in redline_run(tmp_path / "run") if word != "-q"]
    status, _, stderr = ended(tmp_path, "ulimit -n 64", *told, "--")
    assert status == 0
    assert stderr.count("the process may have few files open (ulimit -n)") == 1
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert {note["code"] for note in record["ranks"][0]["notes"]} == {"no-stacks"}


FOLDERS = [Path(name) for name in os.environ.get("REDLINE_ATTACKS", "").split(os.pathsep) if name]
FURTHER = {f"{folder.parent.name}-{name}": one for folder in FOLDERS for name, one in of_folder(folder).items()}


@needs_torch
@pytest.mark.slow
@pytest.mark.skipif(not FURTHER, reason="no further scripts: set REDLINE_ATTACKS to their folders")
@pytest.mark.parametrize("name", FURTHER)
def test_a_script_of_others_is_what_it_is_without_us(name: str, tmp_path: Path) -> None:
    assert differences(FURTHER[name], tmp_path / name) == []


FILES = "import os, sys; print(len(os.listdir('/proc/self/fd')), open(os.devnull).fileno()); sys.exit(3)\n"


def ended(folder: Path, limit: str, *words: str) -> tuple[int, str, str]:
    command = ["bash", "-c", f'{limit} && exec "$@"', "bash", *words, "job.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder, "x"), capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("files", [12, 64, 300, *(pytest.param(files, marks=pytest.mark.slow) for files in (40, 255))])
def test_with_few_files_the_job_has_them_all_and_else_one_more(files: int, tmp_path: Path) -> None:
    """Under the numbers that it would have had, with the exit code of the job."""
    (tmp_path / "job.py").write_text(FILES)
    limit = f"ulimit -n {files}"
    status, stdout, stderr = ended(tmp_path, limit, sys.executable)
    count, number = map(int, stdout.split())
    assert (status, stderr) == (3, "")
    expected = f"{count + (files >= 256)} {number}\n"
    assert ended(tmp_path, limit, *redline_run(tmp_path / "run"), "--") == (3, expected, "")


def test_what_cannot_be_told_does_not_replace_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(FILES)
    told = [word for word in redline_run(tmp_path / "run") if word != "-q"]
    assert ended(tmp_path, "exec 2>/dev/full", *told, "--")[0] == 3


@pytest.mark.parametrize("option", ["-E", "-I", "-S"])
def test_a_python_that_cannot_be_watched_runs_unwatched_and_one_line_says_so(option: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(FILES)
    _, expected, _ = ended(tmp_path, "true", sys.executable, option)
    told = [word for word in redline_run(tmp_path / "run") if word != "-q"]
    python_ = str(Path(sys.executable).parent / "python")
    said = f"redline: python {option} starts without what Redline watches through; the job runs unwatched\n"
    assert ended(tmp_path, "true", *told, "--", python_, option) == (3, expected, said)
    assert ended(tmp_path, "true", *redline_run(tmp_path / "run"), "--", python_, option) == (3, expected, "")
    assert not (tmp_path / "run").exists()


def test_a_sitecustomize_that_fails_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("raise RuntimeError('broken')\n")
    (tmp_path / "job.py").write_text("import sys; print(sys.modules.get('sitecustomize'))\n")
    own = f"export PYTHONPATH={tmp_path / 'own'}:$PYTHONPATH"
    bare = ended(tmp_path, own, sys.executable)
    assert bare[2].count("RuntimeError: broken") == 1
    assert ended(tmp_path, own, *redline_run(tmp_path / "run"), "--") == bare
