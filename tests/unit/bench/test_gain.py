"""The realised gain: medians of interleaved runs, with an interval that widens with their spread."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cases import Case
from bench.gain import measured_gain
from bench.label import Label

CASE = Case(name="x", kind="job", path=Path("jobs/x.py"), label=Label(cause="host/x", says=()), summary="")


def report(step_ns: int, steps: int = 24, calls: int = 1, spread: int = 0) -> dict[str, Any]:
    """Of a run whose optimizers are called `calls` times a step."""
    ends = [100]
    for step in range(steps):
        ends += [ends[-1] + (step_ns + spread * (step % 3 - 1)) // calls] * calls
    return {"wall_ns": [0, *ends[1:], ends[-1] + 5], "cpu_ns": [0, *ends[1:], ends[-1] + 5], "steps": steps}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}

    def finished(words: list[str], case: Case, timeout_s: float) -> tuple[int, str]:
        twin = "flawed" if "flawed" in words else "healthy"
        Path(words[-1]).write_text(json.dumps(made[twin]), encoding="utf-8")
        return 0, ""

    monkeypatch.setattr("bench.gain.finished", finished)
    return made


def test_the_gain_is_what_the_healthy_twin_saves(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    reports.update(flawed=report(1_000_000), healthy=report(600_000))
    gain = measured_gain(CASE, tmp_path, repeats=2)
    assert gain.wall == pytest.approx(0.4)
    assert (gain.wall_low, gain.wall_high) == pytest.approx((0.4, 0.4))
    assert (gain.flawed_ms, gain.healthy_ms) == pytest.approx((1.0, 0.6))


def test_the_interval_holds_the_gain_of_steps_that_differ(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    reports.update(flawed=report(1_000_000, spread=200_000), healthy=report(600_000, spread=100_000))
    gain = measured_gain(CASE, tmp_path, repeats=2)
    assert gain.wall_low < 0.4 < gain.wall_high


def test_a_job_without_an_optimizer_is_timed_whole(reports: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    whole = {"wall_ns": [0, 24_000_000], "cpu_ns": [0, 12_000_000], "steps": 24}
    reports.update(flawed=whole, healthy=report(500_000))
    gain = measured_gain(CASE, tmp_path, repeats=1)
    assert gain.flawed_ms == pytest.approx(1.0)
    assert gain.wall == pytest.approx(0.5, abs=0.01)
