"""Files of other devices and tools, read by the command line; where REDLINE_INPUTS names their folder."""

import csv
import json
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from redline.cli import main
from redline.ledger.rank.activity import activity_of
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file

INPUTS = Path(os.environ.get("REDLINE_INPUTS", "/nonexistent"))
TRACES = Path(os.environ.get("REDLINE_TRACES", "/nonexistent"))
ASCEND = "ascend/alexnet_2ranks_level{level}/rank{rank}_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
MTIA_TRAIN, MTIA_SERVE = "other_devices/mtia_train_rank0.json.gz", "other_devices/mtia_inference.json.gz"
ON_CPU = {"kineto_variants/torch2.13_cpu_python_export.json.gz"}  # of the samples, all there is
CPU_TRACES = (
    "hta_cpu_only_rank34.pt.trace.json.gz",
    "hta_cpu_only_rank34_full.pt.trace.json.gz",
    "hta_no_distributedInfo.json.gz",
    "hta_rank_missing.json.gz",
    "hta_rank_non_gpu.json.gz",
)
OTHER_FORMATS = {
    "nsys": "Nsight Systems",
    "flight_recorder": "flight recorder",
    "nccl": "NCCL Inspector|nccl-tests",
    "rocprof": "rocprofv3",
    "torch_trace": "TORCH_TRACE",
    "xplane": "XLA profiler",
}


def sample(name: str) -> Path:
    path = INPUTS / name
    found = path if path.exists() else path.with_name(path.name + ".gz")
    if not found.exists():
        pytest.skip(f"no sample {name}: set REDLINE_INPUTS to the folder that holds it")
    return found


@dataclass(frozen=True)
class Shown:
    returncode: int
    stdout: str
    stderr: str


def redline(*arguments: object) -> Shown:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([*map(str, arguments), "--jobs", "1"])
    return Shown(code, out.getvalue(), err.getvalue())


def timelines(path: Path) -> tuple[Timeline, ...]:
    return read_file(path).timelines


def truths(path: Path) -> dict[tuple[str, str], float]:
    name = str(path.relative_to(INPUTS))
    with (INPUTS / "truths.csv").open(newline="") as file:
        return {
            (row["scope"], row["metric"]): float(row["value"]) for row in csv.DictReader(file) if row["file"] == name
        }


def busy_us(timeline: Timeline) -> dict[str, float]:
    activity = activity_of(timeline)
    return {
        "all": activity.busy.length_ns / 1000,
        "computing": activity.computing.length_ns / 1000,
        "communicating": activity.communication.where().length_ns / 1000,
        "exposed": activity.communicating.length_ns / 1000,
    }


@pytest.mark.parametrize("folder", ["ascend", "other_devices", "kineto_variants", *OTHER_FORMATS])
def test_no_sample_is_called_a_cpu_that_is_none(folder: str) -> None:
    files = sorted(path for path in sample(folder).rglob("*") if path.is_file())
    for path in files:
        shown = redline("diagnose", path)
        first = (shown.stdout or shown.stderr).partition("\n")[0]
        assert "Traceback" not in shown.stderr, path
        assert ("CPU" in first) == (str(path.relative_to(INPUTS)) in ON_CPU), (path, first)


@pytest.mark.parametrize("name", CPU_TRACES)
def test_a_job_on_cpus_is_still_one(name: str) -> None:
    if not (TRACES / name).exists():
        pytest.skip(f"no real trace {name}: set REDLINE_TRACES to the folder that holds it")
    assert "on CPU (no device work in the trace)" in redline("diagnose", TRACES / name).stdout.partition("\n")[0]


def test_mtia_is_as_busy_as_its_events_say() -> None:
    for name in (MTIA_TRAIN, MTIA_SERVE):
        path = sample(name)
        (timeline,) = timelines(path)  # of one process: the device is no second rank
        told = truths(path)
        busy = busy_us(timeline)
        assert busy["all"] == pytest.approx(
            told["device", "union_without_event_wait"], rel=1e-4
        )  # marks of events count
        assert busy["computing"] == pytest.approx(told["device", "kernel_union"], rel=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("rank", [0, 1])
def test_ascend_is_as_busy_as_its_own_analysis_says(level: int, rank: int) -> None:
    path = sample(ASCEND.format(level=level, rank=rank))
    (timeline,) = timelines(path)
    told = truths(path)
    busy = busy_us(timeline)
    assert busy["computing"] == pytest.approx(told["rank", "compute_union_from_tasks"], rel=1e-4)
    assert busy["communicating"] == pytest.approx(told["rank", "communication_union_from_hccl_lane"], rel=1e-4)
    assert busy["exposed"] == pytest.approx(told["rank", "communication_not_overlapped"], rel=1e-4)


def test_ascend_of_2024_is_as_busy_as_its_tasks() -> None:
    path = sample("ascend/910_small_2024/trace_view.json")
    (timeline,) = timelines(path)
    assert busy_us(timeline)["all"] == pytest.approx(truths(path)["rank", "compute_union_from_tasks"], rel=1e-4)


def test_what_was_not_used_is_listed_with_counts_and_time() -> None:
    shown = json.loads(redline("inspect", sample(ASCEND.format(level=1, rank=0)), "--json").stdout)
    unused: dict[str, Any] = shown["ranks"][0]["unused_in_file"]
    assert {"CANN", "Overlap Analysis", "enqueue", "dequeue"} <= unused.keys()
    assert unused["enqueue"]["spans"] == 159
    assert unused["enqueue"]["time_ns"] == pytest.approx(810_000, rel=0.01)


def test_traces_of_two_jobs_in_a_folder_are_told() -> None:
    folder = sample("other_devices")
    shown = " ".join(redline("diagnose", folder).stdout.split())
    assert "verdict These are traces of 2 jobs or more, recorded hours apart: diagnose each alone. average" in shown
    assert " at most " not in shown  # what is no step of anybody gains nothing by a fix
    assert "\njobs      2, recorded hours apart" in redline("inspect", folder).stdout


@pytest.mark.parametrize("folder", OTHER_FORMATS)
def test_a_file_of_another_tool_is_named_with_what_to_do(folder: str) -> None:
    files = sorted(sample(folder).rglob("*"))
    files = [path for path in files if path.is_file() and path.suffix != ".log" and "reference" not in path.name]
    for path in files:
        shown = redline("inspect", path)
        assert shown.returncode == 2, path
        assert re.search(f"not a trace but .*({OTHER_FORMATS[folder]})", shown.stderr), (path, shown.stderr)
        assert "cut" not in shown.stderr.removeprefix(f"redline: {path}"), path


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("ascend/alexnet_2ranks_db_level1", "a database of Ascend's profiler"),
        ("ascend/four_ranks_level2", "a side file of Ascend's profiler"),
        ("ascend/cluster_analysis_output", "a side file of Ascend's profiler"),
        ("flight_recorder/nccl_16ranks/lock_gil_1st", "flight recorder"),
        ("nsys", "Nsight Systems"),
    ],
)
def test_a_folder_without_a_trace_says_what_is_there(folder: str, what: str) -> None:
    shown = redline("diagnose", sample(folder))
    assert shown.returncode == 2
    assert "no trace in this folder" in shown.stderr
    assert what in shown.stderr


def test_side_files_of_ascend_are_no_failures_of_a_folder() -> None:
    assert "unread" not in redline("inspect", sample("ascend/alexnet_2ranks_level1")).stdout
