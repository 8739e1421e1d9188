"""Jobs without torch: they run as ever, and leave no folder behind, unless the user named one."""

import subprocess
import sys
from pathlib import Path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redline", "run", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=folder)


def test_a_misspelt_script_leaves_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, "--", "absent.py")
    assert ran.returncode == 2
    assert ran.stderr == "redline: run: there is no file absent.py, and no command of that name\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_named_stays(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("raise SystemExit(2)")
    assert run(tmp_path, "--", "early.py").returncode == 2
    assert [one.name for one in tmp_path.iterdir()] == ["early.py"]
    assert run(tmp_path, "-o", "here", "--", "early.py").returncode == 2
    assert (tmp_path / "here" / "run.json").is_file()


def test_a_folder_that_holds_a_run_is_refused_before_the_job_begins(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello')")
    assert run(tmp_path, "-o", "here", "--", "hello.py").stdout == "hello\n"
    ran = run(tmp_path, "-o", "here", "--", "hello.py")
    assert ran.returncode == 2
    assert "holds a run already; choose another folder, or rename it (--force)" in ran.stderr
    assert ran.stdout == ""


def test_a_run_that_is_forced_into_a_folder_keeps_the_one_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello')")
    first, second, ran = (run(tmp_path, "-o", "here", "--force", "--", "hello.py") for _ in range(3))
    assert [each.returncode for each in (first, second, ran)] == [0, 0, 0]
    assert sorted(path.parent.name for path in tmp_path.glob("*/run.json")) == ["here", "here-2", "here-3"]
    said = " ".join(ran.stderr.split())
    assert f"the run that was in {tmp_path / 'here'} is in {tmp_path / 'here-3'} now" in said


def test_a_folder_that_cannot_be_made_costs_the_capture_and_not_the_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "hello.py").write_text("print('hello')")
    ran = run(tmp_path, "-o", "file/below", "--", "hello.py")
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    assert "nothing was captured" in ran.stderr


def test_options_of_python_reach_the_job(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("import sys\nprint(sys.flags.optimize, sys.argv[1:])")
    ran = run(tmp_path, sys.executable, "-O", "hello.py", "-O")
    assert (ran.returncode, ran.stdout) == (0, "1 ['-O']\n")


def test_a_torch_without_what_the_hooks_need_leaves_the_job_alone(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '0.4'\n")
    (tmp_path / "old.py").write_text("import torch\nprint(torch.__version__)\n")
    ran = run(tmp_path, "--", "old.py")
    assert (ran.returncode, ran.stdout) == (0, "0.4\n")
    assert "the job went on: torch 0.4 cannot be watched" in " ".join(ran.stderr.split())
    assert "did not import torch" not in ran.stderr
