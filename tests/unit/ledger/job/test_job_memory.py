"""The memory of a job: the same from digests as from traces, with the fullest rank and the one that grows."""

from dataclasses import replace
from pathlib import Path

from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.job_memory import JobMemory
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest
from tests.support.memory_jobs import HEALTHY, MIB, Job, said

OPTIONS = JobOptions(jobs=1, use_cache=False)
JOBS = (HEALTHY, replace(HEALTHY, parameters=80), replace(HEALTHY, kept=3))


def memory_of(folder: Path, *jobs: Job) -> JobMemory:
    said(folder, *jobs)
    memory = diagnose(folder, options=OPTIONS).diagnosis.memory
    assert memory is not None
    return memory


def test_digests_and_traces_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    direct = memory_of(tmp_path / "traces", *JOBS)
    digest([tmp_path / "traces"], tmp_path / "digests", options=OPTIONS)
    through_files = diagnose(tmp_path / "digests", options=OPTIONS)
    assert through_files.diagnosis.memory == direct
    assert [device.rank for device in direct.devices] == [0, 1, 2]


def test_the_fullest_is_told_whole_and_what_grows_on_another_rank_is_seen(tmp_path: Path) -> None:
    memory = memory_of(tmp_path, *JOBS)
    assert memory.fullest is not None
    assert (memory.fullest.rank, memory.fullest.growth) == (1, ())
    assert memory.fullest.peak.holders
    assert not any(device.peak.holders for device in memory.devices if device is not memory.fullest)
    assert memory.growing is not None
    assert (memory.growing.rank, memory.growing.growth_bytes_per_step) == (2, 3 * MIB)


def test_once_combined_a_digest_has_no_memory_of_its_own(tmp_path: Path) -> None:
    """Names in it would not be seen by who takes them out of results."""
    said(tmp_path, *JOBS)
    digests = digest_job(sorted(tmp_path.glob("*.json")), None, OPTIONS).digests
    assert all(made.memory for made in digests)
    assert not any(rank.memory for rank in combine(digests).ranks)
