"""Verbs on a store give what they give on files."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redline.artifacts import DIGEST_ENDING
from redline.errors import UsageError
from redline.job.read_files import JobOptions
from redline.storage import path_of
from redline.trace import cache
from redline.verbs.compare import compare
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest
from redline.verbs.inspect import inspect
from redline.verbs.merge import merge
from tests.support.command_line import ROOT

Put = Callable[[str, bytes], None]
RECORDED = sorted((ROOT / "tests" / "data" / "recorded").glob("slow_loader_rank*"))
ALONE = JobOptions(jobs=1)  # the memory of this process is the store


@pytest.fixture
def job(put: Put) -> str:
    for path in RECORDED:
        put(f"memory://job/{path.name}", path.read_bytes())
    return "memory://job"


def without_place(text: str) -> str:
    return text.replace(f"{RECORDED[0].parent}/", "").replace("memory://job/", "")


def test_a_diagnosis_is_the_same(job: str) -> None:
    local = diagnose(RECORDED, options=ALONE).rendered("json")
    assert "memory://job/slow_loader_rank0" in diagnose(job, options=ALONE).rendered("json")
    assert without_place(diagnose(job, options=ALONE).rendered("json")) == without_place(local)


def test_what_is_known_by_its_state_is_not_fetched_again(
    put: Put, faulty: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "WORTH_BYTES", 0)
    for path in RECORDED:
        put(f"faulty://job/{path.name}", path.read_bytes())
    time.sleep(0.1)  # what changed a moment ago is not kept
    first = diagnose("faulty://job", options=ALONE).rendered("json")
    fetched = len(faulty.reads)  # type: ignore[attr-defined]
    assert diagnose("faulty://job", options=ALONE).rendered("json") == first
    beginnings = len(RECORDED)  # by which merged traces are told
    assert len(faulty.reads) - fetched == beginnings  # type: ignore[attr-defined]


def test_an_object_that_never_comes_costs_its_rank(put: Put, faulty: type) -> None:
    for path in RECORDED:
        put(f"faulty://job/{path.name}", path.read_bytes())

    def cut(kind: str, data: bytes) -> bytes:
        return data[:100] if data == RECORDED[1].read_bytes() else data

    faulty.fails = cut  # type: ignore[attr-defined]
    result = diagnose("faulty://job", options=JobOptions(jobs=1, use_cache=False))
    assert len(result.diagnosis.ranks) == len(RECORDED) - 1
    assert [failure.path for failure in result.failures] == [f"faulty://job/{RECORDED[1].name}"]
    assert "100 bytes came instead of" in result.failures[0].message


def test_digests_inspection_merging_and_comparison(job: str) -> None:
    made = digest([job], "memory://digests", options=ALONE)
    assert [str(path) for path in made.paths] == [f"memory://digests/rank-0000{rank}{DIGEST_ENDING}" for rank in (0, 1)]
    from_digests = diagnose("memory://digests", options=ALONE)
    assert [rank.origin.source for rank in from_digests.diagnosis.ranks] == [f"{job}/{it.name}" for it in RECORDED]
    assert [rank.source.path for rank in inspect([job], ALONE).ranks] == [f"{job}/{path.name}" for path in RECORDED]
    merged = merge([job], "memory://out/merged.json.gz", options=ALONE)
    assert merged.path == "memory://out/merged.json.gz"
    assert path_of(merged.path).stat().st_size > 1000
    assert compare(job, RECORDED, options=ALONE).names[0] == job
    from_digests.save("memory://out/report.json")
    assert path_of("memory://out/report.json").is_file()


def test_a_merged_trace_beside_the_traces_is_no_rank(job: str) -> None:
    merge([job], f"{job}/merged.json.gz", options=ALONE)
    assert len(diagnose(job, options=ALONE).diagnosis.ranks) == len(RECORDED)


def test_what_a_running_job_writes_is_on_this_machine(tmp_path: Path) -> None:
    from redline.capture.supervisor.environment import choose

    message = (
        "run: the folder of a run is written while the job runs, so s3://bucket/run cannot be it; name one of this"
    )
    with pytest.raises(UsageError, match=message):
        choose("train.py", None, "s3://key:hunter22@bucket/run")
    assert choose("train.py", None, str(tmp_path)) == tmp_path
