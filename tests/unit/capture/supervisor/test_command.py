"""What the user typed becomes options of ours, options of torchrun, and the script with its own arguments."""

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.capture.supervisor import torchrun
from redline.capture.supervisor.command import command, split, split_options
from redline.cli.run import RunOptions
from redline.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "ours", "of_torchrun", "job"),
    [
        ("train.py", "", "", "train.py"),
        ("-- train.py --after 3", "", "", "train.py --after 3"),
        ("train.py -- x", "", "", "train.py -- x"),
        ("--after 3 train.py --after 9", "--after 3", "", "train.py --after 9"),
        ("--after=3 train.py", "--after=3", "", "train.py"),
        ("-q -o runs train.py -q", "-q -o runs", "", "train.py -q"),
        ("--standalone --nproc-per-node 2 t.py", "", "--standalone --nproc-per-node 2", "t.py"),
        ("--nproc_per_node=2 --steps 5 t.py", "--steps 5", "--nproc_per_node=2", "t.py"),
        ("--nnodes 1:4 --stacks --rdzv-id 7 -- t.py", "--stacks", "--nnodes 1:4 --rdzv-id 7", "t.py"),
        ("-m pkg.train --lr 1", "", "", "-m pkg.train --lr 1"),
        ("--memory --module pkg -q", "--memory", "", "--module pkg -q"),
        ("", "", "", ""),
        ("--nproc-per-node", "", "--nproc-per-node", ""),
    ],
)
def test_split(typed: str, ours: str, of_torchrun: str, job: str) -> None:
    told, extra = RunOptions.split(typed.split())
    assert (told, extra) == (ours.split(), {"torchrun": tuple(of_torchrun.split()), "job": tuple(job.split())})


@pytest.mark.parametrize(
    ("typed", "ours", "of_torchrun"),
    [
        ("", "", ""),
        ("--compare a.json b.json -o c.txt", "--compare a.json b.json -o c.txt", ""),
        ("--nproc-per-node 2 --quick", "--quick", "--nproc-per-node 2"),
        ("--only memory --nproc_per_node=2 -q --standalone", "--only memory -q", "--nproc_per_node=2 --standalone"),
        ("a --nnodes 2 b --rdzv-endpoint=h:1", "a b", "--nnodes 2 --rdzv-endpoint=h:1"),
        ("--nproc-per-node", "", "--nproc-per-node"),
    ],
)
def test_options_of_torchrun_are_told_from_others_anywhere(typed: str, ours: str, of_torchrun: str) -> None:
    assert split_options(typed.split()) == (ours.split(), of_torchrun.split())


def test_every_option_of_torchrun_is_known() -> None:
    run = pytest.importorskip("torch.distributed.run")
    options = {
        option.removeprefix("--").replace("_", "-"): one.nargs
        for one in run.get_args_parser()._actions
        for option in one.option_strings
        if option.startswith("--") and option not in ("--help", "--module")
    }
    known = {*torchrun.WITH_VALUE, *torchrun.WITHOUT_VALUE}
    assert set(options) <= known
    assert {name for name, nargs in options.items() if nargs == 0} <= set(torchrun.WITHOUT_VALUE)


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=6), max_size=6))
def test_arguments_of_the_script_are_never_touched(arguments: list[str]) -> None:
    told = split(["--after", "1", "--", "t.py", *arguments], ["--after"])
    assert told == (["--after", "1"], [], ["t.py", *arguments])


def test_a_plain_job_is_started_as_python_would() -> None:
    made = command(None, ["train.py", "--x"])
    assert made.arguments == (sys.executable, "train.py", "--x")
    assert (made.elastic, made.processes, made.restarts, made.script) == (False, 1, 0, "train.py")
    module_job = command(None, ["--module", "pkg.train", "-q"])
    assert module_job.arguments == (sys.executable, "-m", "pkg.train", "-q")
    assert module_job.script == "pkg.train"
    assert command(None, ["train.py"], ["-X", "dev"]).arguments == (sys.executable, "-X", "dev", "train.py")


def test_a_job_of_torchrun() -> None:
    made = command(["--nproc-per-node=4", "--max-restarts", "3"], ["train.py"])
    assert made.arguments[1:] == (
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=4",
        "--max-restarts",
        "3",
        "train.py",
    )
    assert (made.elastic, made.processes, made.restarts) == (True, 4, 3)


@pytest.mark.parametrize("words", ["gpu", "auto", "cpu"])
def test_as_many_processes_as_torchrun_might_mean(words: str) -> None:
    assert command([f"--nproc_per_node={words}"], ["t.py"]).processes >= max(64, os.cpu_count() or 1)


def test_what_was_typed_last_counts_as_it_does_for_torchrun() -> None:
    assert command(["--nproc-per-node=4", "--nproc_per_node", "2"], ["t.py"]).processes == 2
    assert command(["--nproc-per-node", "many", "--max-restarts", "x"], ["t.py"]).restarts == 0  # torchrun complains


def test_a_job_of_torchrun_may_be_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "8")
    monkeypatch.setenv("PET_NNODES", "2")
    monkeypatch.setenv("PET_RDZV_ID", "job-7")
    made = command([], ["t.py"])
    assert (made.elastic, made.processes, made.job) == (True, 8, "job-7")
    assert command(["--nproc-per-node", "3"], ["t.py"]).processes == 3


@pytest.mark.parametrize("job", [[], ["-m"], ["--module"]])
def test_without_a_script_nothing_can_run(job: list[str]) -> None:
    with pytest.raises(UsageError, match="which script"):
        command(None, job)


@pytest.mark.parametrize(
    ("options", "blind"),
    [
        ("", ""),
        ("-u -O -X dev", ""),
        ("-XIES -WI --check-hash-based-pycs E", ""),
        ("-u -I", "-I"),
        ("-uES", "-uES"),
    ],
)
def test_options_of_python_with_which_a_job_cannot_be_watched(options: str, blind: str) -> None:
    assert command(None, ["train.py"], options.split()).blind == blind
