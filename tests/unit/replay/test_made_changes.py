"""What-ifs of made jobs against the same jobs made with the change: a small sample of what `score_replay` scores."""

from dataclasses import replace

import pytest

from bench.replay.score import MADE_CHANGES, MadeChange, made, made_forecast, made_job, total_ns
from redline.replay.forecast import JobReplay, rank_replay
from redline.replay.scenario_text import parse_scenario
from redline.report.diagnose.replay_messages import reason_text
from redline.report.language import speaking
from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import JobSpec, ParallelSizes, Straggler

SAMPLE = {  # seeds on which the replay was developed; of 2 to 8 ranks with data, tensor and pipeline parallelism
    "kernels/2": (3, 5),
    "collectives=0": (3, 5),
    "loader=0": (3, 5),
    "host/2": (3, 5),
    "like the others": (1, 5, 7),
    "network*2": (3,),
}


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in SAMPLE.items() for seed in seeds])
def test_a_what_if_is_what_the_changed_job_takes(name: str, seed: int) -> None:
    error, declined = made_forecast(MADE_CHANGES[name](made_job(seed)))

    assert not declined
    assert abs(error) < 0.01


def test_a_slow_rank_is_held_against_the_ranks_that_run_its_program() -> None:
    """Stages of a pipeline do other work; the median of all ranks is none of theirs."""
    layout = ParallelSizes(dp=2, pp=2)
    sound = JobSpec(ranks=4, steps=3, layers=6, layout=layout, microbatches=2, step_compute_us=4_000)
    slow = JobSpec(
        ranks=4,
        steps=3,
        layers=6,
        layout=layout,
        microbatches=2,
        step_compute_us=4_000,
        stragglers=(Straggler(rank=2, extra_us=2_000, where="input"),),
    )
    error, declined = made_forecast(MadeChange(scenario="rank 2 like the others", asked=slow, true=sound))

    assert not declined
    assert abs(error) < 0.01


def test_a_rank_that_launches_other_work_is_held_against_the_ranks_with_its_exchanges() -> None:
    """Between two exchanges as a whole: this one reads numbers that the others do not read."""
    sound = JobSpec(ranks=4, steps=3, layers=4, step_compute_us=8_000)
    other = replace(sound, faults=Faults(item_reads=20))
    timelines = [*made(sound)[:3], made(other)[3]]
    scenario = parse_scenario("rank 3 like the others")
    (forecast,) = JobReplay([rank_replay(timeline, [scenario]) for timeline in timelines], [scenario]).forecasts()

    true_ns = total_ns(sound)
    assert forecast.measured_total_ns > 1.06 * true_ns
    assert forecast.total_ns == pytest.approx(true_ns, rel=0.03)


def test_a_stage_of_a_pipeline_that_is_one_rank_is_like_no_other() -> None:
    layout = ParallelSizes(pp=2)
    spec = JobSpec(ranks=2, steps=2, layers=4, layout=layout, microbatches=2)
    _, declined = made_forecast(MadeChange(scenario="rank 1 like the others", asked=spec, true=spec))

    assert declined == "rank 1 has exchanges that no other rank has, so there is none that it could be like"
    with speaking("zh"):
        assert reason_text(declined).startswith("rank 1 ")
