"""`redline merge` as users run it: one file for Perfetto, or the reason why not."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from redline.trace.reader import read_file
from tests.support.command_line import run_redline
from tests.support.events import document, op
from tests.support.real_traces import RealTraces
from tests.support.traces.jobspec import JobSpec
from tests.support.traces.synthetic import write_job


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_redline("merge", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=2, steps=2, layers=2, clock_offsets_us=(0.0, 9000.0)), folder)
    return folder


def test_a_job_becomes_one_trace(job: Path, tmp_path: Path) -> None:
    done = run(job, "-o", "merged.json.gz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("merged.json.gz: 2 ranks on one clock, ")
    assert "all read back and counted" in done.stdout
    assert done.stderr.startswith("next: open merged.json.gz in Perfetto")
    record = json.loads(gzip.decompress((tmp_path / "merged.json.gz").read_bytes()))
    names = {event["args"]["name"] for event in record["traceEvents"] if event["name"] == "process_name"}
    assert {"Rank 0", "Rank 1", "Rank 0 GPU 0"} <= names


def test_quiet_says_nothing_on_stderr(job: Path, tmp_path: Path) -> None:
    done = run(job, "-o", tmp_path / "m.json", "-q")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_existing_file_is_replaced_only_by_force(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.json"
    target.write_text("precious")
    done = run(job, "-o", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert "already exists; use --force" in done.stderr
    assert target.read_text() == "precious"
    assert run(job, "-o", target, "--force").returncode == 0


def test_what_does_not_fit_the_budget_is_said(job: Path, tmp_path: Path) -> None:
    done = run(job, "-o", tmp_path / "m.json", "--budget", "200kB")
    assert done.returncode == 0
    assert "left out to stay within the budget: " in done.stdout
    assert (tmp_path / "m.json").stat().st_size <= 200_000


def test_a_budget_that_holds_nothing_is_refused(job: Path, tmp_path: Path) -> None:
    done = run(job, "-o", tmp_path / "m.json", "--budget", "1kB")
    assert (done.returncode, done.stdout) == (2, "")
    assert "raise --budget" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_traces_of_different_times_are_refused(tmp_path: Path) -> None:
    for rank in (0, 1):
        data = document([op("a", 60_000_000 * rank, 1_000_000)], rank=rank, world_size=2)
        (tmp_path / f"rank-{rank}.json").write_bytes(data)
    done = run(tmp_path, "-o", tmp_path / "merged.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("redline: ")
    assert len(done.stderr.splitlines()) == 2
    assert not (tmp_path / "merged.json").exists()


@pytest.mark.parametrize("name", ["merged.txt", "merged", "no/such/folder/merged.json", "."])
def test_a_place_that_cannot_be_is_refused(job: Path, tmp_path: Path, name: str) -> None:
    done = run(job, "-o", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("redline: ")
    assert len(done.stderr.splitlines()) <= 2


def test_merging_twice_into_the_same_folder_does_not_merge_the_merged(tmp_path: Path) -> None:
    write_job(JobSpec(ranks=2, steps=1, layers=1), tmp_path)
    for _ in range(2):
        done = run(".", "-o", "merged.json", "--force", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("merged.json: 2 ranks ")


def test_strict_refuses_damage(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([op("a", 0, 5), {}]))
    done = run(tmp_path / "a.json", "-o", tmp_path / "m.json", "--strict")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "m.json").exists()


@pytest.mark.needs_traces
def test_eight_real_ranks(traces: RealTraces, tmp_path: Path) -> None:
    done = run(traces / "dlrm_8rank_v100", "-o", tmp_path / "merged.json.gz")
    assert done.returncode == 0, done.stderr
    found = read_file(tmp_path / "merged.json.gz").timelines
    assert sorted(timeline.rank for timeline in found) == list(range(8))
    for timeline in found:
        timeline.self_check()
