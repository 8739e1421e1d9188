"""A scenario as timelines, and the critical path of steps: what they promise, on made jobs."""

from pathlib import Path

import numpy as np
import pytest

from redline.analysis.rank.host_phases import Phase
from redline.analysis.rank.rank_analysis import analysis_of
from redline.findings.match import COMPUTE
from redline.findings.path_parts import labels_of, parts_of
from redline.findings.replayed import CriticalPathParts
from redline.replay.altered import altered_timelines
from redline.replay.critical_path import critical_path_of, slack_ns
from redline.replay.edges import EdgeKind
from redline.replay.forecast import JobReplay, rank_replay
from redline.replay.hiding import hiding_kernels
from redline.replay.replay import replayed
from redline.replay.scenario_text import parse_scenario
from redline.testing.jobspec import JobSpec, Straggler
from redline.testing.synthetic import write_job
from redline.timeline.timeline import TABLES, Timeline, TimelineOrigin
from redline.trace.reader import read_file
from redline.trace.write import write_timelines
from tests.conftest import RealTraces


def replay_of(spec: JobSpec, folder: Path, *texts: str) -> tuple[list[Timeline], JobReplay]:
    write_job(spec, folder, compress=False)
    timelines = [timeline for path in sorted(folder.glob("rank*.json")) for timeline in read_file(path).timelines]
    scenarios = [parse_scenario(text) for text in texts]
    return timelines, JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios)


def test_an_altered_timeline_has_the_steps_of_its_forecast_and_is_read_like_any_other(tmp_path: Path) -> None:
    timelines, replay = replay_of(JobSpec(ranks=2, steps=3), tmp_path, "kernels*2", "host/2, collectives=0")
    for number, forecast in enumerate(replay.forecasts()):
        altered = altered_timelines(replay, timelines, number)
        for timeline in altered:
            timeline.self_check()
            assert timeline.origin is TimelineOrigin.ALTERED
        again = JobReplay([rank_replay(timeline) for timeline in altered], ())
        starts, ends, _ = again.borders(again.job.time_ns)
        assert int(ends.max() - starts.min()) == pytest.approx(forecast.total_ns, rel=0.002)
        path = tmp_path / f"altered-{number}.json"
        write_timelines(altered, path, made_by="a test")
        read = read_file(path).timelines
        assert [len(timeline.spans) for timeline in read] == [len(timeline.spans) for timeline in altered]
        assert {timeline.origin for timeline in read} == {TimelineOrigin.ALTERED}


def test_with_nothing_changed_every_table_stays_as_it_was(tmp_path: Path) -> None:
    timelines, replay = replay_of(JobSpec(ranks=1, steps=2), tmp_path, "kernels*1")
    (altered,) = altered_timelines(replay, timelines, 0)
    for name in TABLES:
        for column, values in getattr(timelines[0], name).columns().items():
            assert np.array_equal(values, getattr(altered, name).columns()[column]), f"{name}.{column}"


def test_the_critical_path_is_as_long_as_each_step(tmp_path: Path) -> None:
    straggler = Straggler(rank=1, extra_us=4_000)
    _, replay = replay_of(JobSpec(ranks=2, steps=3, stragglers=(straggler,)), tmp_path)
    path = critical_path_of(replay)
    starts, ends, _ = replay.borders(replay.job.time_ns)
    assert np.bincount(path.step, weights=path.dur_ns).tolist() == (ends - starts).tolist()
    computing = path.take(path.kind == EdgeKind.DEVICE)
    on_straggler = computing.dur_ns[computing.rank == 1].sum()
    assert on_straggler > 10 * computing.dur_ns[computing.rank == 0].sum()
    assert next(iter(path.of_kind())) is EdgeKind.DEVICE


def test_what_has_slack_can_be_later_by_it_and_not_by_more(tmp_path: Path) -> None:
    _, replay = replay_of(JobSpec(ranks=1, steps=1, step_compute_us=2_000), tmp_path)
    slack, edges = slack_ns(replay), replay.job.edges
    starts, ends, _ = replay.borders(replay.job.time_ns)
    length_ns = int(ends[-1] - starts[0])
    works = np.flatnonzero(edges.kind == EdgeKind.DEVICE)[::7]
    for edge in works.tolist():
        allowed = int(slack[edges.head[edge]])
        for more, same in ((allowed, True), (allowed + 10, False)):
            delays = edges.delay_ns.copy()
            delays[edge] += more
            times = replayed(edges, replay.plan, delays[:, None], 0)[:, 0]
            _, later, _ = replay.borders(times)
            assert (int(later[-1] - starts[0]) == length_ns) is same


def parts(replay: JobReplay, timelines: list[Timeline], steps: int) -> CriticalPathParts:
    labels = [labels_of(analysis_of(timeline, None)) for timeline in timelines]
    return parts_of(critical_path_of(replay), replay.job, labels, steps)


def test_parts_of_the_path_add_up_to_it_and_name_what_it_runs_through(tmp_path: Path) -> None:
    straggler = Straggler(rank=1, extra_us=4_000)
    timelines, replay = replay_of(JobSpec(ranks=2, steps=2, stragglers=(straggler,)), tmp_path)
    found, path = parts(replay, timelines, 2), critical_path_of(replay)
    assert 2 * sum(part.time_ns for part in found.accounts) == pytest.approx(path.dur_ns.sum())
    assert 2 * sum(part.time_ns for part in found.ranks) == pytest.approx(path.dur_ns[path.rank >= 0].sum())
    assert (found.limit, found.ranks[0].what) == (COMPUTE, "1")
    assert {part.what for part in found.phases} >= {Phase.FORWARD, Phase.BACKWARD}


@pytest.mark.needs_traces
def test_deepseek_computes_on_its_critical_path_and_products_hide_the_exchanges(traces: RealTraces) -> None:
    (timeline,) = read_file(traces / "h800_deepseek_v3_train_dualpipe.json.gz").timelines
    replay = JobReplay([rank_replay(timeline)], ())
    longest = parts(replay, [timeline], 1).accounts[0]
    assert longest.what == COMPUTE
    assert longest.share > 2 / 3
    hiding = hiding_kernels(timeline)[0]
    assert hiding.exchange in ("expert_dispatch", "expert_combine")
    assert "gemm" in hiding.kernel.lower()
