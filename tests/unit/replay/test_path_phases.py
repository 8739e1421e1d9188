"""The phases that a critical path runs through are those of the steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from redline.findings.replay_job import forecasts_of
from redline.findings.replayed import ReplayedJob, ReplayedScenario
from redline.verbs.diagnose import diagnose

RECORDED = Path(__file__).parents[2] / "data" / "recorded"


@pytest.mark.parametrize("name", ["plain_loop", "accumulate"])
def test_on_a_cpu_the_path_is_in_each_phase_for_as_long_as_the_step(name: str) -> None:
    """One thread after the other computes, so that all of the step is on the path."""
    found = diagnose(RECORDED / f"{name}.pt.trace.json.gz", forecast=True)
    assert found.replayed is not None
    assert found.replayed.path is not None
    on_path = {part.what: part.share for part in found.replayed.path.phases}
    of_step = {str(row.phase): row.share for row in found.diagnosis.phases if row.time_ns}
    assert on_path == pytest.approx(of_step, abs=0.01)
    assert len(of_step) > 2


def test_a_job_that_is_not_replayed_hears_why_once() -> None:
    """Not again with each finding and each scenario."""
    found = diagnose(RECORDED / "plain_loop.pt.trace.json.gz")
    why = "it was not replayed"
    scenarios = tuple(
        ReplayedScenario(name=f"compute/{times}", step_ns=1e6, after_ns=1e6, declined=why) for times in (2, 3)
    )
    replayed = ReplayedJob(declined=why, asked=scenarios)
    assert forecasts_of(found.findings, replayed) == {}
    assert replace(found, replayed=replayed).rendered("text").count(why) == 1
