"""A sample of faulty jobs under which all promises of `redline run` hold; `scripts/fault_matrix.py` tries them all."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.fault_cases import (
    FAULTS,
    ON_OWN_DISK,
    PLACES,
    RANKS,
    Case,
    Outcome,
    bare_case,
    broken,
    can_have_own_disk,
    every_case,
    run_bare,
    run_watched,
)

SAMPLE = [
    "fsize-in-1", "deleted-in-1", "sigsegv-after-1", "lock_gil-after-1", "os_exit-in-1", "nested-in-1",
    "read_only-before-1", "disk_full-after-1",
    "exit7-before-2", "sigstop-in-2", "sigkill-after-2",
]  # fmt: skip
SLOW_SAMPLE = [
    "clean-in-1", "sigint-in-1",
    "abort-before-1", "sigterm-in-1", "oom-in-1", "own_profiler-in-1", "forks-in-1", "async_exc-in-1", "exception-in-1",
    "read_only-before-4", "clean-in-4", "sigkill-after-4",
]  # fmt: skip
MEMORY_SAMPLE = ["clean-in-1-memory", "sigint-in-1-memory"]
SLOW_MEMORY_SAMPLE = [
    *(f"{fault}-in-1-memory" for fault in FAULTS if f"{fault}-in-1-memory" not in MEMORY_SAMPLE),
    "clean-in-2-memory", "exception-in-2-memory", "sigkill-in-2-memory", "sigstop-in-2-memory", "oom-in-2-memory",
]  # fmt: skip
DIGESTS_SAMPLE = ["clean-in-1-digests"]  # whose bare run is another's too
SLOW_DIGESTS_SAMPLE = [
    *(f"{fault}-after-1-digests" for fault in FAULTS if fault != "clean"),
    "clean-in-2-digests", "sigkill-after-2-digests", "sigterm-after-2-digests", "read_only-in-2-digests",
]  # fmt: skip
# Faults that CI meets in tests of a single promise, and so not once more here.
MET_ELSEWHERE = {
    "abort": "test_any_signal_that_ends_the_job_ends_us_without_stdout_too",
    "sigterm": "test_sigterm_in_a_window_saves_it_and_calls_the_scripts_handler",
    "oom": "test_what_filled_the_memory_when_it_ran_out_is_in_the_record",
    "own_profiler": "test_beside_the_scripts_own_profiler_nothing_is_captured",
    "forks": "test_processes_that_are_forked_in_a_window_leave_it_alone_and_record_nothing",
    "async_exc": "test_alarms_that_raise_in_the_midst_of_our_work_are_the_scripts",
    "exception": "test_a_job_that_moves_reads_and_replaces_the_excepthook",
}

_MOST_ATTEMPTS = 3
TORCHS_OWN = "terminate called without an active exception"  # torch aborts so now and then while Python ends, bare too

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def case_of(name: str) -> Case:
    fault, at, ranks, *more = name.split("-")
    return Case(fault, at, int(ranks), memory="memory" in more, digests="digests" in more)


def without_torchs_own(run: Callable[[Case, Path], Outcome], case: Case, folder: Path) -> tuple[Outcome, Path]:
    """Run it again where torch has aborted by itself, whether we watch or not; the outcome, and its folder."""
    outcome = run(case, folder)
    for attempt in range(1, _MOST_ATTEMPTS):
        if TORCHS_OWN not in outcome.stderr:
            break
        folder = folder.with_name(f"{folder.name}-{attempt}")
        outcome = run(case, folder)
    return outcome, folder


@pytest.fixture(scope="module")
def bare_outcomes() -> dict[Case, Outcome]:
    """Some cases have the same bare run."""
    return {}


def slow(names: Iterable[str]) -> Iterator[object]:
    return (pytest.param(name, marks=pytest.mark.slow) for name in names)


ALWAYS = [*SAMPLE, *MEMORY_SAMPLE, *DIGESTS_SAMPLE]
NOT_IN_CI = [*SLOW_SAMPLE, *SLOW_MEMORY_SAMPLE, *SLOW_DIGESTS_SAMPLE]


@pytest.mark.parametrize("name", [*ALWAYS, *slow(NOT_IN_CI)])
def test_the_job_is_as_it_would_be_without_us(name: str, bare_outcomes: dict[Case, Outcome], tmp_path: Path) -> None:
    case = case_of(name)
    if case.fault in ON_OWN_DISK and not can_have_own_disk():
        pytest.skip("no disk of its own can be had here: unshare or mount is refused")
    bare = bare_case(case)
    if bare not in bare_outcomes:
        bare_outcomes[bare], _ = without_torchs_own(run_bare, bare, tmp_path / "bare")
    expected = bare_outcomes[bare]
    watched, folder = without_torchs_own(run_watched, case, tmp_path / "watched")
    assert broken(case, expected, watched, folder) == []


def test_the_sample_has_every_fault_and_every_place_with_every_number_of_processes() -> None:
    cases = [case_of(name) for name in SAMPLE]
    assert {*(case_of(name).fault for name in ALWAYS), *MET_ELSEWHERE} == set(FAULTS)
    others = "".join((Path(__file__).parent / f"test_run_{name}.py").read_text() for name in ("promises", "awkward"))
    assert [name for name in MET_ELSEWHERE.values() if f"def {name}(" not in others] == []
    assert {(case.at, case.ranks) for case in cases} == {(at, ranks) for at in PLACES for ranks in (1, 2)}
    cases += [case_of(name) for name in SLOW_SAMPLE]
    assert set(cases) <= set(every_case())
    assert {case.fault for case in cases} == set(FAULTS)
    assert {(case.at, case.ranks) for case in cases} == {(at, ranks) for at in PLACES for ranks in RANKS}


def test_the_sample_with_recorded_allocations_has_every_fault() -> None:
    cases = [case_of(name) for name in (*MEMORY_SAMPLE, *SLOW_MEMORY_SAMPLE)]
    assert {case.fault for case in cases} == set(FAULTS)
    assert set(cases) <= set(every_case())
    assert all(case.memory for case in cases)


def test_the_sample_with_digests_has_every_fault() -> None:
    cases = [case_of(name) for name in (*DIGESTS_SAMPLE, *SLOW_DIGESTS_SAMPLE)]
    assert {case.fault for case in cases} == set(FAULTS)
    assert set(cases) <= set(every_case())
    assert all(case.digests for case in cases)


def outcome(**changes: object) -> Outcome:
    fields = {"status": 0, "stdout": "a\n", "stderr": "", "fired": 1, "processes": (), "temporary": (), "seconds": 1.0}
    return Outcome(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": -15}, "P1: ended with -15 instead of 0"),
        ({"stdout": "b\n"}, "P2, P14: stdout: 'b' instead of 'a'"),
        ({"stderr": "words\n"}, "P2, P3: stderr: 1 lines more"),
        ({"fired": 0}, "the fault fired 0 times"),
        ({"processes": ("sleep",)}, "P15: still running"),
        ({"temporary": ("x",)}, "P15: temporary files"),
    ],
)
def test_what_differs_is_told(changes: dict[str, object], told: str, tmp_path: Path) -> None:
    found = broken(Case("exit7", "before", 1), outcome(), outcome(**changes), tmp_path)
    assert [told in line for line in found] == [True]


def test_files_that_are_not_whole_are_told(tmp_path: Path) -> None:
    (tmp_path / "run/window-1").mkdir(parents=True)
    (tmp_path / "run/window-1/rank-0.trace.json.gz.part").touch()
    found = broken(Case("exit7", "before", 1), outcome(), outcome(), tmp_path)
    assert found == ["P9: a file that nobody knows: window-1/rank-0.trace.json.gz.part"]
