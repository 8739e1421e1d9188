"""Which ranks' raw traces are worth keeping: a late one, a slow one, and none where all are alike."""

from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.job.read_files import JobOptions
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.outlier_ranks import _median_of_others, ranks_that_stand_out
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

RANKS = 8


def standing_out(folder: Path, *stragglers: Straggler) -> dict[int, str]:
    write_job(JobSpec(ranks=RANKS, steps=2, layers=1, stragglers=stragglers), folder)
    paths = [folder / f"rank-{rank}.pt.trace.json.gz" for rank in range(RANKS)]
    return dict(ranks_that_stand_out(combine(digest_job(paths, None, JobOptions(jobs=1, use_cache=False)).digests)))


@pytest.mark.parametrize(
    ("stragglers", "expected"),
    [((), {}), ((Straggler(rank=5, extra_us=3000),), {5: "late"})],
)
def test_a_late_rank_stands_out_and_none_of_ranks_that_are_alike(
    tmp_path: Path, stragglers: tuple[Straggler, ...], expected: dict[int, str]
) -> None:
    assert standing_out(tmp_path, *stragglers) == expected


def test_a_rank_that_nobody_waits_for_stands_out_by_its_own_step(tmp_path: Path) -> None:
    job = tmp_path / "job"
    write_job(JobSpec(ranks=1, steps=2, layers=1), job)
    late = Straggler(rank=0, extra_us=5000, where="host")
    write_job(JobSpec(ranks=1, steps=2, layers=1, stragglers=(late,)), tmp_path / "slower")
    trace = (job / "rank-0.pt.trace.json.gz").read_bytes()
    for rank in (1, 2):
        (job / f"rank-{rank}.pt.trace.json.gz").write_bytes(trace)
    (tmp_path / "slower" / "rank-0.pt.trace.json.gz").rename(job / "rank-3.pt.trace.json.gz")
    paths = [job / f"rank-{rank}.pt.trace.json.gz" for rank in range(4)]
    diagnosis = combine(digest_job(paths, None, JobOptions(jobs=1, use_cache=False)).digests)
    assert list(ranks_that_stand_out(diagnosis).values()) == ["slow"]


@given(st.lists(st.floats(1, 10**12), min_size=2, max_size=9), st.data())
def test_the_others_are_all_but_one(times_ns: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(times_ns) - 1))
    others = times_ns[:place] + times_ns[place + 1 :]
    assert _median_of_others(sorted(times_ns), times_ns[place]) == median(others)
