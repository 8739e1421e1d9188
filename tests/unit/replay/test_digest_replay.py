"""A replay of digests is exact where nothing changes, and near the replay of their traces where something does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from redline.ledger.rank.digest import Digest, digest_of
from redline.replay.changes import Scenario
from redline.replay.digest_graph import digest_replay, graph_of_digest
from redline.replay.forecast import JobReplay, rank_replay
from redline.replay.replay import replayed
from redline.replay.scenario_text import parse_scenario
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file
from tests.support.replayed_jobs import JOBS, timelines_of
from tests.support.traces.jobspec import JobSpec, Straggler

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
ASKED = (
    "kernels/2",
    "kernels*1.5",
    "collectives=0",
    "network*2",
    "network/2",
    "host/2",
    "loader=0",
    "start=0",
    "rank 1 like the others",
    "kernels/2, network/4",
)


def from_digests(digests: Sequence[Digest], scenarios: Sequence[Scenario]) -> JobReplay:
    return JobReplay([digest_replay(digest, graph_of_digest(digest), scenarios) for digest in digests], scenarios)


def steps_left(replay: JobReplay) -> list[float]:
    """Of each scenario the share of the steps that is left; 0 where it is declined."""
    return [0.0 if each.declined else each.total_ns / each.measured_total_ns for each in replay.forecasts()]


def why_not(timeline: Timeline, asked: str) -> str:
    (forecast,) = from_digests([digest_of(timeline, None)], [parse_scenario(asked)]).forecasts()
    return forecast.declined


@pytest.mark.parametrize("name", JOBS)
def test_no_change_is_the_job_to_the_nanosecond(name: str, tmp_path: Path) -> None:
    replay = from_digests([digest_of(timeline, None) for timeline in timelines_of(JOBS[name], tmp_path)], ())
    edges = replay.job.edges
    times_ns = replayed(edges, replay.plan, edges.delay_ns[:, None], 0)[:, 0]
    assert np.abs(times_ns - replay.job.time_ns).max() == 0


@pytest.mark.parametrize("name", ["one rank", "data parallel", "sharded", "pipeline", "tensor parallel"])
def test_it_is_within_one_percent_of_the_replay_of_traces(name: str, tmp_path: Path) -> None:
    timelines = timelines_of(JOBS[name], tmp_path)
    scenarios = [parse_scenario(text) for text in ASKED]
    fine = steps_left(JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios))
    coarse = steps_left(from_digests([digest_of(timeline, None) for timeline in timelines], scenarios))
    assert coarse == pytest.approx(fine, rel=0.01)
    assert min(left for left in fine if left) < 0.6


def test_a_late_rank_is_told_as_by_traces(tmp_path: Path) -> None:
    straggler = Straggler(rank=1, extra_us=3_000, where="input")
    timelines = timelines_of(JobSpec(ranks=4, steps=3, stragglers=(straggler,)), tmp_path)
    scenarios = [parse_scenario("rank 1 like the others"), parse_scenario("loader=0 on rank 1")]
    fine = steps_left(JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios))
    coarse = steps_left(from_digests([digest_of(timeline, None) for timeline in timelines], scenarios))
    assert max(fine) < 0.95
    assert coarse == pytest.approx(fine, rel=0.05)


def test_a_faster_device_gains_nothing_where_the_host_leads(tmp_path: Path) -> None:
    """While it waits for its host after each kernel."""
    (timeline,) = timelines_of(JobSpec(ranks=1, steps=3, launch_us=300.0), tmp_path)
    digest = digest_of(timeline, None)
    device, host = steps_left(from_digests([digest], [parse_scenario("kernels/2"), parse_scenario("host/2")]))
    assert device > 0.9
    assert host < 0.7


def test_on_a_cpu_computing_is_no_waiting() -> None:
    (timeline,) = read_file(RECORDED / "plain_loop.pt.trace.json.gz").timelines
    scenarios = [parse_scenario("kernels/2"), parse_scenario("host/2")]
    fine = steps_left(JobReplay([rank_replay(timeline, scenarios)], scenarios))
    coarse = steps_left(from_digests([digest_of(timeline, None)], scenarios))
    assert coarse == pytest.approx(fine, rel=0.01)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("loader workers=4", "digests do not say how long the workers of the data loader take"),
        ("kernels(gemm)/2", "digests hold no single kernels or operators: give the traces, or leave the name out"),
        ("remove aten::copy_", "digests hold no single kernels or operators: give the traces, or leave the name out"),
        ("copies=0", "digests do not tell what copies changes: give the traces"),
        ("sync=0", "digests do not tell what sync changes: give the traces"),
        ("collectives(AllGather)=0", "nothing in the trace is changed by collectives(AllGather)"),
        ("rank 0 like the others", "there are no other ranks, of which the median could be taken"),
    ],
)
def test_what_digests_do_not_tell_is_said(asked: str, said: str, tmp_path: Path) -> None:
    (timeline,) = timelines_of(JOBS["one rank"], tmp_path)
    assert why_not(timeline, asked) == said


def test_a_collective_is_meant_by_its_name_however_it_is_spelled(tmp_path: Path) -> None:
    timelines = timelines_of(JOBS["sharded"], tmp_path)
    digests = [digest_of(timeline, None) for timeline in timelines]
    scenarios = [parse_scenario(f"collectives({name})=0") for name in ("AllGather", "all_gather", "reduce")]
    named, spelled, other = steps_left(from_digests(digests, scenarios))
    assert named == spelled != other
    assert 0 < named < 1


def test_what_a_step_takes_the_host_does_not_depend_on_the_device(tmp_path: Path) -> None:
    """And grows with what a launch takes."""

    def host_ns(name: str, launch_us: float, compute_us: float) -> float:
        spec = JobSpec(ranks=1, steps=3, launch_us=launch_us, step_compute_us=compute_us)
        (timeline,) = timelines_of(spec, tmp_path / name)
        return float(np.mean(digest_of(timeline, None).step_host_ns))

    usual = host_ns("usual", 20.0, 10_000.0)
    assert host_ns("slow device", 20.0, 30_000.0) == pytest.approx(usual, rel=0.05)
    assert host_ns("slow host", 40.0, 10_000.0) == pytest.approx(2 * usual, rel=0.15)


def test_without_launches_or_a_gpu_nothing_is_known_of_the_host() -> None:
    (timeline,) = read_file(RECORDED / "plain_loop.pt.trace.json.gz").timelines
    assert digest_of(timeline, None).step_host_ns == ()


@pytest.mark.parametrize(("launch_us", "least"), [(60.0, 0.55), (100.0, 0.88)])
def test_a_host_that_is_hardly_ahead_is_the_next_limit(launch_us: float, least: float, tmp_path: Path) -> None:
    """It did not hold the device up before."""
    (timeline,) = timelines_of(JobSpec(ranks=1, steps=3, launch_us=launch_us), tmp_path)
    scenario = parse_scenario("kernels/2")
    (fine,) = steps_left(JobReplay([rank_replay(timeline, [scenario])], [scenario]))
    (coarse,) = steps_left(from_digests([digest_of(timeline, None)], [scenario]))
    assert fine > least
    assert coarse == pytest.approx(fine, rel=0.04)
