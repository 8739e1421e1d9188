"""A replay of no change is the trace, to the nanosecond: of made jobs, of recorded ones, of published traces."""

from pathlib import Path

import numpy as np
import pytest

from redline.replay.forecast import JobReplay, rank_replay
from redline.replay.replay import replayed
from redline.replay.scenario_text import parse_scenario
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file
from tests.support.real_traces import REAL_TRACES, RealTraces
from tests.support.replayed_jobs import JOBS, timelines_of

RECORDED = Path(__file__).parents[2] / "data" / "recorded"


def off_ns(timelines: list[Timeline]) -> int:
    """How far the point that is farthest off is from where it was measured."""
    replay = JobReplay([rank_replay(timeline) for timeline in timelines], ())
    edges = replay.job.edges
    times_ns = replayed(edges, replay.plan, edges.delay_ns[:, None], 0)[:, 0]
    return int(np.abs(times_ns - replay.job.time_ns).max())


@pytest.mark.parametrize("name", JOBS)
def test_made_jobs(name: str, tmp_path: Path) -> None:
    assert off_ns(timelines_of(JOBS[name], tmp_path)) == 0


def test_recorded_jobs() -> None:
    for name in sorted(RECORDED.glob("*.json.gz")):
        assert off_ns(list(read_file(name).timelines)) == 0, name.name
    ranks = [read_file(RECORDED / f"ddp_rank{rank}.pt.trace.json.gz").timelines[0] for rank in range(2)]
    assert off_ns(ranks) == 0


@pytest.mark.needs_traces
@pytest.mark.parametrize(
    "name",
    [
        "h20_ddp_2ranks_merged.json.gz",
        "h800_deepseek_v3_train_dualpipe.json.gz",
        "hta_negative_queue_rank0.json.gz",
        "mi210_gpu_only.json.gz",
        "sglang_qwen3-8b_decode.json.gz",
        "hta_simple_add_cp.json.gz",
    ],
)
def test_published_traces(name: str, traces: RealTraces) -> None:
    for timeline in read_file(traces / name).timelines:
        assert off_ns([timeline]) == 0


@pytest.mark.needs_traces
@pytest.mark.slow
def test_every_published_trace(traces: RealTraces) -> None:
    names = REAL_TRACES.names("*.json.gz")
    for name in names:
        for timeline in read_file(traces / name).timelines:
            assert off_ns([timeline]) == 0, name


@pytest.mark.needs_traces
def test_dlrm_a_common_start_is_worth_a_third_and_free_transfers_nothing(traces: RealTraces) -> None:
    """The step begins 7.5 ms later on rank 7 than on rank 1, and everybody waits; transfers take 0.2 ms."""
    paths = sorted((traces / "dlrm_8rank_v100").iterdir())
    timelines = sorted((read_file(path).timelines[0] for path in paths), key=lambda timeline: timeline.rank)
    assert off_ns(timelines) == 0
    scenarios = [parse_scenario(text) for text in ("start=0", "collectives=0", "kernels/2")]
    replay = JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios)
    start, transfers, kernels = replay.forecasts()
    assert start.gain_share == pytest.approx(0.31, abs=0.01)
    assert 0 <= transfers.gain_share < 0.001
    assert 0 <= kernels.gain_share < 0.001
