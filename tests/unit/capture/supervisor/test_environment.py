"""Who a process is, by the environment of its launcher; and the folder that all processes of a job choose."""

from pathlib import Path

import pytest

from redline.capture.supervisor.environment import Position, choose, position


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500"},
            ("torchrun", 3, 8, 1, "29500"),
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a/b c", "MASTER_PORT": "1"},
            ("torchrun", 0, 2, 0, "a-b-c-1"),
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "16",
                "SLURM_LOCALID": "1",
                "SLURM_JOB_ID": "77",
                "SLURM_STEP_ID": "2",
            },
            ("slurm", 5, 16, 1, "77-2"),
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            ("openmpi", 1, 4, 1, "job"),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "PMI_JOBID": "kvs_1"}, ("mpi", 2, 4, 0, "kvs-1")),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "9"},
            ("torchrun", 1, 2, 0, "job"),
        ),
    ],
)
def test_launchers(environment: dict[str, str], expected: tuple[str, int, int, int, str]) -> None:
    found = position(environment)
    assert found is not None
    assert (found.launcher, found.rank, found.world, found.local_rank, found.job) == expected


@pytest.mark.parametrize(
    "environment",
    [{}, {"RANK": "0"}, {"RANK": "x", "WORLD_SIZE": "2"}, {"RANK": "", "WORLD_SIZE": ""}, {"SLURM_JOB_ID": "3"}],
)
def test_no_launcher(environment: dict[str, str]) -> None:
    assert position(environment) is None


# --- the folder -------------------------------------------------------------------------------------------------------

WHERE = Position(launcher="slurm", rank=1, world=2, local_rank=1, job="77-2")


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_name_that_the_user_gave_wins() -> None:
    assert choose("train.py", WHERE, "mine") == Path("mine")


def test_a_new_name_for_each_run() -> None:
    first = choose("dir/my train.py", None, None)
    assert first.parent == Path("redline-runs")
    assert first.name.startswith("my-train-2")
    first.mkdir(parents=True)
    assert choose("dir/my train.py", None, None) != first


def test_all_processes_of_a_job_choose_the_same_one_until_it_is_over() -> None:
    first = choose("train.py", WHERE, None)
    assert first == Path("redline-runs/train-slurm-77-2")
    first.mkdir(parents=True)
    assert choose("train.py", WHERE, None) == first
    (first / "run.json").touch()
    assert choose("train.py", WHERE, None) == Path("redline-runs/train-slurm-77-2-2")
