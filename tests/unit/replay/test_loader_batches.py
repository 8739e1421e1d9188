"""What more workers of the data loader gain, on made jobs whose loader is known; and when that does not show."""

from dataclasses import replace
from pathlib import Path

import pytest

from redline.replay.forecast import Forecast, JobReplay, rank_replay
from redline.replay.rank_graph import NOT_COUNTED, NOT_WAITED, loader_batches
from redline.replay.scenario_text import parse_scenario
from redline.timeline.host_evidence import LoaderFacts
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file
from tests.support.traces.jobspec import JobSpec
from tests.support.traces.synthetic import write_job

STEPS = 5
WORK_US = 6_000.0
LOADING_US = 12_000.0


def timeline_of(folder: Path, *, input_us: float = LOADING_US, workers: bool = False, steps: int = STEPS) -> Timeline:
    spec = JobSpec(ranks=1, steps=steps, layers=4, step_compute_us=WORK_US, input_us=input_us, loader_workers=workers)
    write_job(spec, folder, compress=False)
    (timeline,) = read_file(next(folder.glob("rank*.json"))).timelines
    return timeline


def with_workers(timeline: Timeline, workers: int) -> Timeline:
    """As if `redline run` had recorded how many there are."""
    facts = replace(timeline.evidence.facts, loaders=(LoaderFacts(workers=workers),))
    return replace(timeline, evidence=replace(timeline.evidence, facts=facts))


def forecasts(timeline: Timeline, *texts: str) -> list[Forecast]:
    scenarios = [parse_scenario(text) for text in texts]
    return list(JobReplay([rank_replay(timeline, scenarios)], scenarios).forecasts())


def apart_ns(forecast: Forecast) -> float:
    """The usual step, once the first batch is there."""
    return float(forecast.step_ns[1:].mean())


def test_one_worker_beside_the_loop_hides_work_behind_loading_and_four_hide_all_of_it(tmp_path: Path) -> None:
    one, four, free = forecasts(timeline_of(tmp_path), "loader workers=1", "loader workers=4", "loader=0")

    assert apart_ns(one) == pytest.approx(LOADING_US * 1_000, rel=0.05)
    assert apart_ns(four) == apart_ns(free)
    assert apart_ns(free) < 0.7 * apart_ns(one)


def test_as_many_workers_as_there_are_change_nothing_and_twice_as_many_halve_the_interval(tmp_path: Path) -> None:
    timeline = with_workers(timeline_of(tmp_path, workers=True), 2)
    same, twice, free = forecasts(timeline, "loader workers=2", "loader workers=3", "loader=0")

    assert apart_ns(same) == pytest.approx(float(same.measured_step_ns[1:].mean()), rel=0.02)
    assert apart_ns(twice) == pytest.approx(apart_ns(same) * 2 / 3, rel=0.02)
    assert apart_ns(free) < apart_ns(twice)


def test_fewer_workers_are_slower(tmp_path: Path) -> None:
    timeline = with_workers(timeline_of(tmp_path, workers=True), 4)
    (fewer,) = forecasts(timeline, "loader workers=2")

    assert apart_ns(fewer) == pytest.approx(2 * float(fewer.measured_step_ns[1:].mean()), rel=0.02)


def test_without_their_number_it_is_declined(tmp_path: Path) -> None:
    (declined,) = forecasts(timeline_of(tmp_path, workers=True), "loader workers=4")

    assert declined.declined == NOT_COUNTED
    assert declined.gain_ns == 0


def test_where_the_loop_does_not_wait_it_is_declined(tmp_path: Path) -> None:
    timeline = with_workers(timeline_of(tmp_path, input_us=100.0, workers=True), 2)
    (declined,) = forecasts(timeline, "loader workers=4")

    assert declined.declined == NOT_WAITED


def test_without_a_loader_nothing_is_changed(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, steps=1)
    (declined,) = forecasts(timeline, "loader workers=4")

    assert loader_batches(timeline) is None
    assert declined.declined == "nothing in the trace is changed by loader workers"
