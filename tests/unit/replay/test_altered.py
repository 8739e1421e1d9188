"""A scenario as timelines, and the critical path of steps: what they promise, on made jobs."""

from pathlib import Path

import numpy as np
import pytest

from redline.findings.match import COMPUTE
from redline.findings.path_parts import labels_of, parts_of
from redline.findings.replay_job import beside_path
from redline.findings.replayed import CriticalPathParts
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.rank_analysis import analysis_of
from redline.replay.altered import altered_timeline
from redline.replay.critical_path import critical_path_of, slack_ns
from redline.replay.edges import EdgeKind
from redline.replay.forecast import JobReplay, ScenarioReplay, rank_replay
from redline.replay.replay import replayed
from redline.replay.scenario_text import parse_scenario
from redline.timeline.timeline import TABLES, Kind, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.perfetto import write_timelines
from redline.trace.reader import read_file
from tests.support.real_traces import RealTraces
from tests.support.traces.jobspec import JobSpec, Straggler
from tests.support.traces.synthetic import write_job


def replay_of(spec: JobSpec, folder: Path, *texts: str) -> tuple[list[Timeline], JobReplay]:
    write_job(spec, folder, compress=False)
    timelines = [timeline for path in sorted(folder.glob("rank*.json")) for timeline in read_file(path).timelines]
    scenarios = [parse_scenario(text) for text in texts]
    return timelines, JobReplay([rank_replay(timeline, scenarios) for timeline in timelines], scenarios)


def altered(timelines: list[Timeline], replay: JobReplay, scenario: ScenarioReplay) -> list[Timeline]:
    return [altered_timeline(timeline, replay.job, place, scenario) for place, timeline in enumerate(timelines)]


def test_an_altered_timeline_has_the_steps_of_its_forecast(tmp_path: Path) -> None:
    timelines, replay = replay_of(JobSpec(ranks=2, steps=3), tmp_path, "kernels*2", "host/2, collectives=0")
    for scenario in replay.each():
        moved = altered(timelines, replay, scenario)
        for timeline in moved:
            timeline.self_check()
            assert timeline.origin is TimelineOrigin.ALTERED
            assert timeline.changes == (scenario.forecast.scenario.name,)
        again = JobReplay([rank_replay(timeline) for timeline in moved], ())
        starts, ends, _ = again.borders(again.job.time_ns)
        assert int(ends.max() - starts.min()) == pytest.approx(scenario.forecast.total_ns, rel=0.002)


def assert_read_back(before: Timeline, path: Path) -> None:
    """To the nanosecond, and all that tells what ran."""
    write_timelines([before], path, made_by="a test")
    (after,) = read_file(path).timelines
    assert after.origin is TimelineOrigin.ALTERED
    assert (after.changes, after.rank) == (before.changes, before.rank)
    assert (after.metadata.host, after.metadata.group_ranks) == (before.metadata.host, before.metadata.group_ranks)
    for kind in Kind:
        rows = [timeline.spans.rows_of(kind) for timeline in (before, after)]
        when = [
            sorted(
                zip(
                    (timeline.zero_ns + timeline.spans.start_ns[here]).tolist(),
                    timeline.spans.dur_ns[here].tolist(),
                    map(timeline.text, timeline.spans.name[here].tolist()),
                    strict=True,
                )
            )
            for timeline, here in zip((before, after), rows, strict=True)
        ]
        assert when[0] == when[1], kind
    assert len(np.unique(after.spans.lane)) == len(np.unique(before.spans.lane))
    assert (before.steps.end_ns - before.steps.start_ns).tolist() == (
        after.steps.end_ns - after.steps.start_ns
    ).tolist()
    launched = [timeline.device_work.launch >= 0 for timeline in (before, after)]
    assert launched[0].sum() == launched[1].sum()


def test_what_is_written_is_read_back_to_the_nanosecond(tmp_path: Path) -> None:
    timelines, replay = replay_of(JobSpec(ranks=2, steps=3), tmp_path, "kernels*1.37, host/3")
    (scenario,) = replay.each()
    for timeline in altered(timelines, replay, scenario):
        assert_read_back(timeline, tmp_path / f"altered-{timeline.rank}.json.gz")


@pytest.mark.needs_traces
def test_so_is_a_real_trace(traces: RealTraces, tmp_path: Path) -> None:
    (timeline,) = read_file(traces / "h20_single.json.gz").timelines
    scenarios = [parse_scenario("kernels*1.37")]
    replay = JobReplay([rank_replay(timeline, scenarios)], scenarios)
    (scenario,) = replay.each()
    assert_read_back(altered([timeline], replay, scenario)[0], tmp_path / "altered.json.gz")


def test_with_nothing_changed_every_table_stays_as_it_was(tmp_path: Path) -> None:
    timelines, replay = replay_of(JobSpec(ranks=1, steps=2), tmp_path, "kernels*1")
    (scenario,) = replay.each()
    (moved,) = altered(timelines, replay, scenario)
    for name in TABLES:
        for column, values in getattr(timelines[0], name).columns().items():
            assert np.array_equal(values, getattr(moved, name).columns()[column]), f"{name}.{column}"


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
def test_deepseek_computes_on_its_critical_path(traces: RealTraces) -> None:
    (timeline,) = read_file(traces / "h800_deepseek_v3_train_dualpipe.json.gz").timelines
    replay = JobReplay([rank_replay(timeline)], ())
    longest = parts(replay, [timeline], 1).accounts[0]
    assert longest.what == COMPUTE
    assert longest.share > 2 / 3


@pytest.mark.needs_traces
def test_what_is_beside_the_path_can_take_longer_by_its_slack_and_no_more(traces: RealTraces) -> None:
    (timeline,) = read_file(traces / "h800_deepseek_v3_train_dualpipe.json.gz").timelines
    replay = JobReplay([rank_replay(timeline)], ())
    edges, labels = replay.job.edges, labels_of(analysis_of(timeline, None))
    steps_ns = [int(borders.max()) for borders in replay.borders(replay.job.time_ns)[:2]]
    slack = slack_ns(replay)
    beside = beside_path(replay, [labels], 1)
    assert any(schema.collective_of(one.what) in ("expert_dispatch", "expert_combine") for one in beside)
    for one in beside:
        named = np.array([text == one.what for text in labels.texts])[labels.row_name]
        pieces = np.flatnonzero(np.isin(edges.kind, (EdgeKind.DEVICE, EdgeKind.TRANSFER)) & named[edges.row])
        (least,) = pieces[slack[edges.head[pieces]] == one.slack_ns][:1]
        for more, same in ((one.slack_ns, True), (one.slack_ns + 10, False)):
            delays = edges.delay_ns.copy()
            delays[least] += more
            times = replayed(edges, replay.plan, delays[:, None], 0)[:, 0]
            assert ([int(borders.max()) for borders in replay.borders(times)[:2]] == steps_ns) is same
