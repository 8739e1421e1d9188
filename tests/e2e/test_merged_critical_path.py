"""`redline merge --critical-path`: the path of each step as a track of the merged file, read back from it."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.findings import path_track
from redline.job.read_files import JobOptions
from redline.report.inspect import document_of
from redline.report.terminal import text_of
from redline.report.written import document_of_merge
from redline.verbs.inspect import inspect
from redline.verbs.merge import merge
from tests.support.command_line import run_redline
from tests.support.real_traces import RealTraces
from tests.support.traces.jobspec import JobSpec, Straggler
from tests.support.traces.synthetic import write_job

READING = JobOptions(jobs=1, use_cache=False)
_Slice = Mapping[str, Any]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    straggler = Straggler(rank=1, extra_us=4_000)
    write_job(JobSpec(ranks=2, steps=3, layers=2, stragglers=(straggler,), clock_offsets_us=(0.0, 9000.0)), folder)
    return folder


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_bytes())["traceEvents"]
    return events


def drawn(events: Sequence[_Slice]) -> tuple[list[_Slice], list[_Slice]]:
    """Slices of steps, and those inside them."""
    (pid,) = [event["pid"] for event in events if event.get("args") == {"name": "critical path"} and not event["tid"]]
    path = [event for event in events if event["pid"] == pid and event["ph"] == "X"]
    return [one for one in path if one["name"].startswith("step ")], [
        one for one in path if not one["name"].startswith("step ")
    ]


def end(one: _Slice) -> float:
    return round(float(one["ts"]) + float(one.get("dur", 0.0)), 3)


def assert_steps_are_full(steps: Sequence[_Slice], parts: Sequence[_Slice]) -> None:
    """From border to border, without a gap."""
    left = deque(parts)  # in order of steps
    for step in steps:
        at = step["ts"]
        while left and left[0]["tid"] == step["tid"] and left[0]["ts"] == at < end(step):
            at = end(left.popleft())
        assert at == end(step)
    assert not left


def test_the_path_of_each_step_is_in_the_file_and_on_the_clock_of_its_kernels(job: Path, tmp_path: Path) -> None:
    merged = merge([job], tmp_path / "merged.json", options=READING, critical_path=True)
    events = events_of(tmp_path / "merged.json")
    steps, parts = drawn(events)
    assert [step["name"] for step in steps] == ["step 1", "step 2", "step 3"]
    assert merged.drawn == len(steps) + len(parts)
    assert_steps_are_full(steps, parts)
    kernels = {
        (event["pid"] // 1000, event["name"], round(event["ts"], 3), end(event))
        for event in events
        if event.get("cat") == "kernel"
    }
    computing = [one for one in parts if one["name"].startswith("compute: ")]
    on_straggler = [one for one in computing if one["name"].endswith("(rank 1)")]
    assert sum(one["dur"] for one in on_straggler) > 0.8 * sum(one["dur"] for one in computing)
    for one in computing[1:-1]:
        name, _, rank = one["name"].removeprefix("compute: ").rpartition(" (rank ")
        assert any(
            kernel[:2] == (int(rank[:-1]), name) and kernel[2] <= one["ts"] and end(one) <= kernel[3]
            for kernel in kernels
        )
    assert "critical path of the steps: " in text_of(document_of_merge(merged))


def test_it_changes_nothing_for_what_reads_the_file(job: Path, tmp_path: Path) -> None:
    for name, with_path in (("plain", False), ("drawn", True)):
        (tmp_path / name).mkdir()
        merge([job], tmp_path / name / "merged.json", options=READING, critical_path=with_path)
    plain, with_path_drawn = (
        redline.diagnose(tmp_path / name / "merged.json", options=READING) for name in ("plain", "drawn")
    )
    assert with_path_drawn.diagnosis.in_steps.tolist() == plain.diagnosis.in_steps.tolist()
    assert [rank.ledger.window_ns for rank in with_path_drawn.diagnosis.ranks] == [
        rank.ledger.window_ns for rank in plain.diagnosis.ranks
    ]
    text = text_of(document_of(inspect([tmp_path / "drawn" / "merged.json"], READING)))
    assert "2 ranks" in text
    assert "none: everything in the traces was used as written" in text


def test_a_job_that_is_not_explained_is_merged_without_it(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_track, "too_large", lambda ranks, edges: "the job has 2 ranks" if ranks > 1 else "")
    merged = merge([job], tmp_path / "merged.json", options=READING, critical_path=True)
    assert "no critical path: the job has 2 ranks" in text_of(document_of_merge(merged))
    assert merged.ranks == (0, 1)


def test_a_bug_in_it_costs_the_path_alone(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(path_track, "labels_of", failing)
    merged = merge([job], tmp_path / "merged.json", options=READING, critical_path=True)
    assert "ZeroDivisionError: oh" in merged.no_path
    assert merged.ranks == (0, 1)


def test_on_a_cpu_its_parts_are_operators(tmp_path: Path) -> None:
    trace = Path("tests/data/recorded/plain_loop.pt.trace.json.gz").absolute()
    done = run_redline("merge", trace, "-o", "merged.json", "--critical-path", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "slices, in the process above the ranks" in done.stdout
    steps, parts = drawn(events_of(tmp_path / "merged.json"))
    assert_steps_are_full(steps, parts)
    assert any(one["name"].startswith("compute: aten::") for one in parts)
    assert not any("(rank" in one["name"] for one in parts)


@pytest.mark.needs_traces
def test_of_a_real_trace(traces: RealTraces, tmp_path: Path) -> None:
    merge([traces / "mi300_ddp_resnet18.json.gz"], tmp_path / "m.json", options=READING, critical_path=True)
    steps, parts = drawn(events_of(tmp_path / "m.json"))
    assert steps
    assert_steps_are_full(steps, parts)
