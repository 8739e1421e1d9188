"""Levers of whole processes: each rank has its share of the cores; variables took only where something acts on them."""

import os
import sysconfig
from pathlib import Path

import pytest

from redline.capture import levers
from redline.capture.levers import environment_of, parse_lever
from redline.capture.worker.levers import process_settings
from redline.capture.worker.levers.process_settings import EnvironmentVariables, share_of_rank
from tests.support.trial_jobs import PLAN, TrialRunner, run_trial

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


# Levers of the environment in real processes: they took only where the kernel or a library acts on them.

JOB = """
import torch
from descent import Descent
model = torch.nn.Linear(SIZE, SIZE)
optimizer = Descent(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(1, SIZE)).sum().backward()
    optimizer.step()
"""
KERNEL = Path(process_settings._HUGE_PAGES)


@pytest.mark.skipif(
    not KERNEL.exists() or "[madvise]" not in KERNEL.read_text(),
    reason="the kernel gives huge pages to all or none",
)
@pytest.mark.parametrize(
    ("size", "effect"),
    [
        (2048, (True, "THP_MEM_ALLOC_ENABLE=1")),
        (8, (False, "no memory of the process is in huge pages")),
    ],
)
def test_huge_pages_are_those_of_the_kernel(tmp_path: Path, size: int, effect: tuple[bool, str]) -> None:
    script = JOB.replace("SIZE", str(size))
    ended = run_trial(tmp_path, script, "huge-pages", last_step=3, environment={"THP_MEM_ALLOC_ENABLE": "1"})
    assert ended.exit_code == 0, ended.errors
    assert ended.levers == [effect]


@pytest.mark.parametrize("text", ["always madvise [never]\n", None])
def test_a_kernel_without_huge_pages_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    told = tmp_path / "enabled"
    if text is not None:
        told.write_text(text)
    monkeypatch.setattr(process_settings, "_HUGE_PAGES", str(told))
    monkeypatch.setattr(process_settings, "_began_with", lambda: {"THP_MEM_ALLOC_ENABLE": "1"})
    effect = EnvironmentVariables(parse_lever("huge-pages")).took()
    assert not effect.took
    assert effect.what == f"the kernel gives no huge pages: see {told}"


def test_a_library_that_is_preloaded_is_looked_for_in_the_process(tmp_path: Path) -> None:
    """Any library does: what a process has loaded is what is looked at."""
    folder = tmp_path / "lib"
    folder.mkdir()
    real = next(path for path in Path(sysconfig.get_config_var("DESTSHARED")).glob("_ctypes.*.so"))
    (folder / "libjemalloc.so.2").symlink_to(real)
    variables = {"LD_LIBRARY_PATH": str(folder)}
    preload = environment_of(parse_lever("preload=jemalloc"), variables)
    effects = {}
    for name, environment in {"with": variables | preload, "without": variables}.items():
        ended = run_trial(tmp_path, JOB.replace("SIZE", "8"), "preload=jemalloc", last_step=3, environment=environment)
        effects[name] = ended.levers
    assert effects == {
        "with": [(True, f"LD_PRELOAD={folder}/libjemalloc.so.2")],
        "without": [(False, "the process began without LD_PRELOAD")],
    }


def test_an_allocator_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "_FOLDERS", ())
    monkeypatch.setattr(process_settings, "_began_with", dict)
    effect = EnvironmentVariables(parse_lever("preload=tcmalloc")).took()
    assert (effect.took, effect.what) == (False, "tcmalloc is not on this machine, nor in LD_LIBRARY_PATH")
