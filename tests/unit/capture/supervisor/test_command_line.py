"""A job is typed after `redline run` as it is typed without it."""

import os
import sys
from pathlib import Path

import pytest

from redline.capture.supervisor import command_line
from redline.capture.supervisor.command_line import understood
from redline.errors import UsageError

BESIDE = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def _a_folder_with_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{BESIDE}:{os.environ['PATH']}")  # as in an environment that is activated
    for name in ("train.py", "python.py", "train"):
        (tmp_path / name).touch()
    (tmp_path / "package").mkdir()


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("words", "of_python", "torchrun", "job"),
    [
        ("train.py --lr 1", "", None, "train.py --lr 1"),
        ("train python", "", None, "train python"),
        ("python.py", "", None, "python.py"),
        ("package", "", None, "package"),
        ("-m pkg.train -q", "", None, "-m pkg.train -q"),
        ("python train.py", "", None, "train.py"),
        ("python3 -u -X dev -Wdefault -W error train.py -u", "-u -X dev -Wdefault -W error", None, "train.py -u"),
        ("python3.11 -m pkg.train --x", "", None, "-m pkg.train --x"),
        ("python -XIES train.py", "-XIES", None, "train.py"),
        ("python -uI -W error train.py", "-uI -W error", None, "train.py"),
        ("python --check-hash-based-pycs never train.py", "--check-hash-based-pycs never", None, "train.py"),
        ("torchrun train.py", "", "", "train.py"),
        ("torchrun --nproc-per-node 2 train.py --tee", "", "--nproc-per-node 2", "train.py --tee"),
        ("torchrun -t 3 -r3 --standalone -m pkg", "", "-t 3 -r3 --standalone", "-m pkg"),
        ("/opt/bin/torchrun --nnodes=2 train.py", "", "--nnodes=2", "train.py"),
        ("-m torch.distributed.run --standalone train.py", "", "--standalone", "train.py"),
        ("python -u -m torch.distributed.run --tee 3 -m pkg", "-u", "--tee 3", "-m pkg"),
        ("", "", None, ""),
        ("torchrun", "", "", ""),
        ("-m", "", None, "-m"),
    ],
)
def test_the_parts_of_a_job(words: str, of_python: str, torchrun: str | None, job: str) -> None:
    found = understood([], words.split())
    assert found.of_python == tuple(of_python.split())
    assert found.torchrun == (None if torchrun is None else tuple(torchrun.split()))
    assert found.job == tuple(job.split())


def test_options_of_torchrun_may_stand_on_both_sides() -> None:
    assert understood(["--standalone"], ["torchrun", "--tee", "3", "train.py"]).torchrun == (
        "--standalone",
        "--tee",
        "3",
    )
    assert understood(["--standalone"], ["python", "-u", "train.py"]).torchrun == ("--standalone",)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("trian.py", "there is no file trian.py"),
        ("./trian.py", "there is no file ./trian.py"),
        ("python trian.py", "there is no file trian.py"),
        ("torchrun trian.py", "there is no file trian.py"),
        ("python", "which script"),
        ("python -", "which script"),
        ("python -u", "which script"),
        ("python -c pass", "python -c has no script"),
        ("torchrun --no-python train.py", "--no-python of torchrun does not go with Redline"),
        ("torchrun --procs 2 train.py", "--procs is no option of torchrun"),
        ("ls -l", "no Python program"),
    ],
)
def test_what_cannot_be_watched_is_said_before_it_starts(words: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        understood([], words.split())


def test_options_of_python_do_not_reach_the_ranks_of_torchrun() -> None:
    with pytest.raises(UsageError, match="torchrun starts Python without -O"):
        understood(["--standalone"], ["python", "-O", "train.py"])


def test_a_script_of_the_shell_is_not_started(tmp_path: Path) -> None:
    program(tmp_path / "train.sh", "#!/bin/bash -e\npython train.py\n")
    with pytest.raises(UsageError, match=r"train\.sh is a program for bash; .* put `redline run` before"):
        understood([], ["./train.sh"])


@pytest.mark.parametrize(
    "head",
    [
        f"#!{sys.executable}\n",
        "#!/usr/bin/env -S python3 -u\n",
        f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\n",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n",
    ],
    ids=["python", "env", "long", "quoted"],
)
def test_a_command_is_the_script_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    launcher = program(tmp_path / "bin" / "launcher", head + "import sys\n")
    monkeypatch.setenv("PATH", f"{BESIDE}:{launcher.parent}")
    assert understood([], ["launcher", "launch", "train.py"]).job == (str(launcher), "launch", "train.py")


def test_a_python_of_another_environment_is_not_replaced_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = program(tmp_path / "bin" / "python", "#!/bin/sh\necho /another/environment\n")
    launcher = program(tmp_path / "bin" / "launcher", f"#!{other}\n")
    torchrun = program(tmp_path / "bin" / "torchrun", f"#!{other}\n")
    monkeypatch.setenv("PATH", f"{launcher.parent}:/usr/bin:/bin")
    commands = (["python"], [str(other)], ["launcher"], ["torchrun"], [str(torchrun)])
    for words in ([*command, "train.py"] for command in commands):
        with pytest.raises(UsageError, match=f"is not the Python .* installed in .*, or leave {words[0]} out$"):
            understood([], words)


@pytest.mark.parametrize(
    "answer", [f"echo {sys.prefix}", "exit 1", "sleep 9", "echo"], ids=["a shim", "broken", "stuck", "mute"]
)
def test_a_python_elsewhere_that_is_the_same_or_says_nothing_is_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(command_line, "_ASKING_S", 0.5)
    shim = program(tmp_path / "bin" / "python3", f"#!/bin/sh\n{answer}\n")
    monkeypatch.setenv("PATH", f"{shim.parent}:/usr/bin:/bin")
    assert understood([], ["python3", "train.py"]).job == ("train.py",)
