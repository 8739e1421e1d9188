"""A serving engine schedules and detokenises for 4 ms between decode steps; the twin for 0.2 ms."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="serving/gaps_between_steps", says=("between", "schedul", "host"), kind="generation", style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=1,
        steps=32,  # the gap after the last of them is not recorded
        layers=24,
        step_compute_us=6_000,
        launch_us=2,
        engine=True,
        replay_graph=True,
        input_us=2_000 if flawed else 100,
    )
