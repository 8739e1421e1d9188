"""What the record of a run says beside its traces, sound or not."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from redline.capture.run_record import NAME, RankRecord, RunRecord, to_json
from redline.trials.run_facts import ALLOCATED, NO_RUN, RESERVED, RESIDENT, run_facts_of


def rank(number: int, peak_bytes: int, facts: dict[str, Any]) -> RankRecord:
    times = dict.fromkeys(("step_ns", "step_p10_ns", "step_p90_ns", "slowest_ns", "step_mean_ns", "step_wait_ns"))
    counts = dict.fromkeys(("restart", "steps", "input_wait_ns", "batches", "capture_cost_ns"), 0)
    known: dict[str, Any] = {**times, **counts, "host": "node", "pid": 7, "step_kind": "optimizer", "finished": True}
    return RankRecord(rank=number, peak_bytes=peak_bytes, windows=(), notes=(), facts=facts, **known)


def traces(folder: Path, *ranks: RankRecord, **changed: Any) -> list[Path]:
    record = RunRecord(
        command=("/usr/bin/python", "train.py"),
        folder=str(folder),
        launcher="python",
        world=1,
        started="2026-11-17T18:43:39Z",
        wall_ns=1,
        exit_code=0,
        signal=None,
        ranks=ranks,
        machine={"cpu": "Xeon", "cores": 2, "system": "Linux"},
        settings={},
    )
    (folder / NAME).write_text(json.dumps(to_json(record) | changed))
    window = folder / "window-1"
    window.mkdir()
    return [window / "rank-0.trace.json.gz"]


def allocator(allocated: object, reserved: object) -> dict[str, Any]:
    return {"memory": {"allocated_bytes.all.peak": allocated, "reserved_bytes.all.peak": reserved}}


def test_the_highest_peak_of_all_ranks_counts(tmp_path: Path) -> None:
    known = run_facts_of(traces(tmp_path, rank(0, 300, allocator(70, 90)), rank(1, 200, allocator(80, 85))))
    assert known.peak_bytes == {RESIDENT: 300, ALLOCATED: 80, RESERVED: 90}


def test_a_run_on_a_cpu_has_the_memory_of_its_processes_alone(tmp_path: Path) -> None:
    known = run_facts_of(traces(tmp_path, rank(0, 300, {"memory": {}, "versions": {"torch": "2.13"}})))
    assert known.peak_bytes == {RESIDENT: 300}
    assert known.context == {
        "command": "train.py",
        "CPU": "Xeon",
        "cores": "2",
        "system": "Linux",
        "version of torch": "2.13",
    }


@pytest.mark.parametrize(
    "facts",
    [{"memory": 7}, allocator("many", -5), allocator(10**30, [1]), {"versions": 3}, {"versions": {"torch": [1]}}],
)
def test_facts_that_cannot_be_are_left_out(facts: dict[str, Any], tmp_path: Path) -> None:
    assert run_facts_of(traces(tmp_path, rank(0, 0, facts))).peak_bytes == {}


def test_traces_that_no_run_left_have_none(tmp_path: Path) -> None:
    assert run_facts_of([tmp_path / "trace.json"]) == NO_RUN
    broken = traces(tmp_path, ranks=[asdict(rank(0, 0, {})) | {"pid": "?"}])
    assert run_facts_of(broken) == NO_RUN
