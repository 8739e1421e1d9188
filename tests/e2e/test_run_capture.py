"""When `redline run` captures, on two real ranks: once, when asked, on a condition, over and over, after a restart."""

import importlib.util
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redline.trace.reader import read_file
from tests.support.command_line import run_redline
from tests.support.running import PROGRAMS, REDLINE, Record, Started, finished, record, started

PROGRAM = PROGRAMS / "ranks.py"
TWO = ("--standalone", "--nproc-per-node", 2)
NEVER = ("--after", 1_000_000)  # of its own accord

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def steps_of_windows(told: Record) -> dict[int, list[tuple[int, int, int]]]:
    """Of each rank its windows: number, first step, steps."""
    return {
        one["rank"]: [(window["number"], window["first_step"], window["steps"]) for window in one["windows"]]
        for one in told["ranks"]
    }


def check(told: Record, folder: Path) -> list[tuple[int, int, int]]:
    """Both ranks have the same windows, all of them written; which ones."""
    found = steps_of_windows(told)
    assert found[0] == found[1]
    for one in told["ranks"]:
        for window in one["windows"]:
            assert window["state"] == "written"
            assert (folder / window["path"]).exists()
    return found[0]


def has_window(folder: Path, number: int) -> bool:
    return len(list(folder.glob(f"window-{number}/rank-?.trace.json.gz"))) == 2


def test_when_asked_by_a_file_and_by_a_signal(tmp_path: Path) -> None:
    folder, until, stepping = tmp_path / "run", tmp_path / "until", tmp_path / "stepping"
    program = [PROGRAM, "--steps", 1_000_000, "--step-ms", 20, "--until", until, "--stepping", stepping]
    options = [*TWO, *NEVER, "--steps", 2, "--capture-signal", "USR2", "--budget", "100%"]
    with started(tmp_path, *REDLINE, "-o", folder, *options, "--", *program) as job:
        job.wait_until(stepping.exists)
        (folder / "capture").touch()
        job.wait_until(lambda: has_window(folder, 1))
        assert not (folder / "capture").exists()
        job.process.send_signal(signal.SIGUSR2)
        job.wait_until(lambda: has_window(folder, 2))
        until.touch()
        assert job.wait() == 0, job.output
    windows = check(record(folder), folder)
    assert [(number, steps) for number, _, steps in windows] == [(1, 2), (2, 2)]
    assert not list(folder.glob("capture*"))
    for number in (1, 2):  # gloo writes no numbers of collectives: they come from its count
        timelines = [read_file(path).timelines[0] for path in sorted(folder.glob(f"window-{number}/rank-?.*"))]
        first, second = (timeline.communications.sequence.tolist() for timeline in timelines)
        assert first == second == list(range(first[0], first[0] + len(first)))
        assert len(first) >= 2
        assert first[0] > 0


def test_when_a_step_is_slow(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*TWO, "--when", "step_time>20*median", "--steps", 2]
    job = finished(
        tmp_path, *REDLINE, "-o", folder, *options, "--", PROGRAM, "--steps", 60, "--step-ms", 10, "--slow-at", 30
    )
    assert job.process.returncode == 0, job.output
    ((number, first, steps),) = check(record(folder), folder)
    assert (number, steps) == (1, 2)
    assert 30 < first <= 36


@pytest.mark.slow  # on one rank: test_many_windows_leave_nothing_behind
def test_over_and_over_within_the_budget(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*TWO, "--after", 5, "--steps", 1, "--every", 30, "--budget", "100%", "--keep", 2]
    job = finished(tmp_path, *REDLINE, "-o", folder, *options, "--", PROGRAM, "--steps", 130, "--step-ms", 20)
    assert job.process.returncode == 0, job.output
    windows = check(record(folder), folder)
    assert len(windows) == 2
    assert windows[1][1] - windows[0][1] == 30 * (windows[1][0] - windows[0][0])
    assert sorted(path.name for path in folder.glob("window-*")) == [f"window-{number}" for number, _, _ in windows]


@pytest.mark.slow  # on one rank: test_windows_keep_to_the_budget
def test_no_second_window_where_the_budget_is_spent(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*TWO, "--after", 5, "--steps", 1, "--every", 10, "--budget", "0%"]
    job = finished(tmp_path, *REDLINE, "-o", folder, *options, "--", PROGRAM, "--steps", 40)
    assert job.process.returncode == 0, job.output
    told = record(folder)
    assert len(check(told, folder)) == 1
    assert [[note["code"] for note in one["notes"]] for one in told["ranks"]] == [["budget"], ["budget"]]


def test_a_restart_is_a_run_of_its_own_in_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*TWO, "--max-restarts", 1, "--after", 4, "--steps", 2]
    # Otherwise gloo may read addresses of the first attempt in the store, and fail or wait in the second.
    fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    command = (*REDLINE, "-o", folder, *options, "--", PROGRAM, "--fails-at", 20)
    job = finished(tmp_path, *command, environment=fresh)
    assert job.process.returncode == 0, job.output
    assert "this attempt fails" in job.output
    told = record(folder)
    assert [(one["restart"], one["rank"]) for one in told["ranks"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [one["steps"] for one in told["ranks"]] == [20, 20, 40, 40]
    traces = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.gz"))
    first = [f"window-1/rank-{rank}.trace.json.gz" for rank in range(2)]
    assert traces == [*(f"restart-1/{path}" for path in first), *first]
    diagnosed = run_redline("diagnose", "--json", "-o", "d.json", folder, cwd=tmp_path)
    assert diagnosed.returncode == 0, diagnosed.stderr
    assert (tmp_path / "d.json").read_text().count("restart-1/window-1") > 0


# --- inside of a launch that others made ------------------------------------------------------------------------------


def check_one_run(folder: Path, launcher: str, output: str) -> None:
    told = record(folder)
    assert (told["launcher"], told["world"]) == (launcher, 2)
    assert [(one["rank"], one["steps"]) for one in told["ranks"]] == [(0, 40), (1, 40)]
    assert len(check(told, folder)) == 1
    assert output.count("redline: ") == 1, "one summary, of the first rank"


def test_inside_of_torchrun(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", *TWO, "-m", "redline", "run"]
    job = finished(tmp_path, *torchrun, "-o", "run", "--after", 4, "--", PROGRAM)
    assert job.process.returncode == 0, job.output
    check_one_run(tmp_path / "run", "torchrun", job.output)


def test_torchrun_with_options_of_python_is_no_rank_inside_of_another(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import redline\nfor _ in range(5):\n    redline.step()\n")
    typed = (sys.executable, "-u", "-m", "torch.distributed.run", "--standalone", "job.py")
    job = finished(tmp_path, *REDLINE, "-o", "run", *typed, environment={"LOCAL_RANK": "0"})
    assert job.process.returncode == 0, job.output
    assert [one["steps"] for one in record(tmp_path / "run")["ranks"]] == [5]


LAUNCHERS = {
    "slurm": {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_PROCID": "{}"},
    "openmpi": {
        "PMIX_NAMESPACE": "prterun-1234@1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": "{}",
        "OMPI_COMM_WORLD_LOCAL_RANK": "{}",
    },
}


@contextmanager
def launched(launcher: str, folder: Path, *command: object) -> Iterator[list[Started]]:
    """As the launcher would start it: one process per rank, which knows its rank by the environment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    def environment(rank: int) -> dict[str, str]:
        told = {name: value.format(rank) for name, value in LAUNCHERS[launcher].items()}
        return {**told, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    with (
        started(folder, *command, environment=environment(0)) as first,
        started(folder, *command, environment=environment(1)) as second,
    ):
        yield [first, second]
        assert [job.wait() for job in (first, second)] == [0, 0], (first.output, second.output)


@pytest.mark.slow  # CI has two ranks of Slurm in the next test
@pytest.mark.parametrize("launcher", ["slurm", "openmpi"])
def test_inside_of_another_launcher(launcher: str, tmp_path: Path) -> None:
    with launched(launcher, tmp_path, *REDLINE, "--after", 4, "--", PROGRAM) as jobs:
        pass
    (folder,) = (tmp_path / "redline-runs").iterdir()
    check_one_run(folder, launcher, "".join(job.output for job in jobs))


def test_all_watchers_of_a_job_learn_what_one_is_asked(tmp_path: Path) -> None:
    folder, until, stepping = tmp_path / "run", tmp_path / "until", tmp_path / "stepping"
    program = [PROGRAM, "--steps", 1_000_000, "--step-ms", 20, "--until", until, "--stepping", stepping]
    with launched("slurm", tmp_path, *REDLINE, *NEVER, "-o", folder, "--", *program) as (first, _):
        first.wait_until(stepping.exists)
        (folder / "capture").touch()
        first.wait_until(lambda: has_window(folder, 1))
        until.touch()
    assert len(check(record(folder), folder)) == 1
    assert not list(folder.glob("capture*"))
