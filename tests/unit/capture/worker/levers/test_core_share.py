"""Lever `affinity` in real processes: each rank has its share of the cores, and all of them when it is off."""

import os
from pathlib import Path

import pytest

from redline.capture.worker.levers.process_settings import share_of_rank
from tests.support.trial_jobs import PLAN, TrialRunner

CORES = sorted(os.sched_getaffinity(0))
SCRIPT = """
import os, threading, torch
os.environ.update(VARIABLES)
ended = threading.Event()
thread = threading.Thread(target=ended.wait, daemon=True)
thread.start()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(40):
    model(torch.ones(2, 4)).mean().backward()
    print(len(os.sched_getaffinity(0)), len(os.sched_getaffinity(thread.native_id)))
    optimizer.step()
"""
SECOND_OF_TWO = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.skipif(len(CORES) < 2, reason="there is one core")
def test_all_threads_keep_to_the_share_while_it_is_on(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("VARIABLES", repr(SECOND_OF_TWO)), "affinity", plan=PLAN)
    assert (ended.exit_code, ended.notes, ended.errors) == (0, [], "")
    ((took, what),) = ended.levers
    assert took
    assert what.startswith("cores ")
    assert what.endswith(f" of {','.join(map(str, CORES))}")
    share = len(CORES) // 2
    expected = [share if PLAN.is_changed(step) else len(CORES) for step in range(1, len(ended.output.split()) // 2 + 1)]
    assert ended.output.splitlines() == [f"{cores} {cores}" for cores in expected]


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, "one rank has all cores of the machine"),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, "one rank has all cores of the machine"),
        ({**SECOND_OF_TWO, "OMP_PROC_BIND": "close"}, "OMP_PROC_BIND binds threads already"),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4096"}, f"4096 ranks have {len(CORES)} cores"),
    ],
)
def test_what_changes_nothing_says_so(jobs: TrialRunner, tmp_path: Path, variables: dict[str, str], why: str) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("VARIABLES", repr(variables)), "affinity", last_step=4)
    assert ended.levers == [(False, why)]
    assert set(ended.output.split()) == {str(len(CORES))}


def test_shares_are_disjoint_and_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    for name in ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"):
        monkeypatch.delenv(name, raising=False)
    beyond = 100_000  # no machine has such cores: the kernel says nothing of them
    shares = []
    for rank in range(3):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        shares.append(share_of_rank({beyond + core for core in range(8)}))
    assert shares == [("", {beyond + 2 * rank, beyond + 2 * rank + 1}) for rank in range(3)]
