"""A bound is an upper bound: mend what was put into a synthetic job, and no more is gained than its finding says."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redline.job.read_files import JobOptions
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.verbs.diagnose import diagnose
from tests.support.traces.jobspec import JobSpec, Straggler
from tests.support.traces.synthetic import write_job

NOISE = 0.002  # of the step: ends of collectives and clocks differ by microseconds
JOB = JobSpec(ranks=2, steps=4, layers=2, step_compute_us=6_000, kernel_jitter=0.0, host_jitter=0.0)


@cache
def diagnosed(spec: JobSpec) -> DiagnoseResult:
    with TemporaryDirectory() as folder:
        write_job(spec, Path(folder), compress=False)
        return diagnose([folder], options=JobOptions(use_cache=False))


def realised(flawed: JobSpec, mended: JobSpec) -> float:
    before, after = (diagnosed(spec).outline.steps for spec in (flawed, mended))
    return 1 - (after.in_steps_ns / after.steps) / (before.in_steps_ns / before.steps)


def bounds(spec: JobSpec) -> dict[str, float]:
    return {finding.code: finding.alone_share for finding in diagnosed(spec).findings.findings}


def late(*stragglers: Straggler, ranks: int = 2, **changes: float) -> JobSpec:
    return replace(JOB, ranks=ranks, stragglers=stragglers, **changes)  # type: ignore[arg-type]


def each(where: str, extra_us: float, *ranks: int) -> tuple[Straggler, ...]:
    """Another rank in every step, in turn."""
    return tuple(
        Straggler(rank=ranks[number % len(ranks)], extra_us=extra_us, where=where, step=number)  # type: ignore[arg-type]
        for number in range(JOB.steps)
    )


LATE = [
    late(Straggler(rank=1, extra_us=4_000)),
    late(Straggler(rank=3, extra_us=4_000), ranks=4),
    late(Straggler(rank=1, extra_us=4_000, where="host")),
    late(Straggler(rank=0, extra_us=4_000, where="input")),
    late(Straggler(rank=2, extra_us=6_000, where="input"), ranks=4),
    late(Straggler(rank=1, extra_us=2_000), Straggler(rank=2, extra_us=3_000, where="host"), ranks=4),
    late(*each("compute", 3_000, 0, 1)),
    late(*each("host", 3_000, 0, 1, 2, 3), ranks=4),
]


@pytest.mark.parametrize("flawed", LATE)
def test_a_late_rank_costs_the_job_no_more_than_its_bound(flawed: JobSpec) -> None:
    gain = realised(flawed, replace(flawed, stragglers=()))
    assert gain > 0.1
    assert bounds(flawed)["RL-N13"] >= gain - NOISE


@pytest.mark.parametrize("flawed", [spec for spec in LATE if spec.stragglers[0].where == "input"])
def test_a_slow_loader_on_one_rank_is_worth_what_the_job_gains(flawed: JobSpec) -> None:
    """The average over ranks would be a half or a quarter of it."""
    gain = realised(flawed, replace(flawed, stragglers=()))
    known = bounds(flawed)
    assert max(known.get(code, 0.0) for code in ("RL-D01", "RL-D02")) >= gain - NOISE
    first = diagnosed(flawed).findings.findings[0]
    assert first.code.startswith("RL-D")
    assert any("The ranks differ" in sentence.message for sentence in first.evidence)


@pytest.mark.parametrize("buckets", [2, 8])
@pytest.mark.parametrize("gb_per_s", [5.0, 20.0])
def test_hiding_gradients_gains_no_more_than_its_bound(gb_per_s: float, buckets: int) -> None:
    flawed = replace(JOB, buckets=1, link_gb_per_s=gb_per_s, collective_bytes=32 << 20)
    mended = replace(flawed, buckets=buckets, collective_bytes=(32 << 20) // buckets)
    assert bounds(flawed).get("RL-N01", 0.0) >= realised(flawed, mended) - NOISE


@pytest.mark.parametrize("latency_us", [100.0, 400.0])
def test_larger_buckets_gain_no_more_than_the_bound_of_small_ones(latency_us: float) -> None:
    flawed = replace(JOB, buckets=32, collective_bytes=64 << 10, collective_latency_us=latency_us)
    mended = replace(flawed, buckets=1, collective_bytes=2 << 20)
    assert bounds(flawed).get("RL-N01", 0.0) >= realised(flawed, mended) - NOISE


@pytest.mark.parametrize(
    ("late_in", "said"), [((1, 5), "every {period} steps"), ((1, 2), "in {shown} of {steps}"), (tuple(range(8)), "")]
)
def test_it_is_said_in_which_steps_a_finding_shows(late_in: tuple[int, ...], said: str) -> None:
    """And one that only one of four ranks has counts by what the job gains, not by the average rank."""
    stragglers = [Straggler(rank=3, extra_us=4_000, where="input", step=step) for step in late_in]
    findings = diagnosed(replace(JOB, ranks=4, steps=8, stragglers=tuple(stragglers))).findings.findings
    finding = next(finding for finding in findings if finding.code == "RL-D01")
    messages = [evidence.message for evidence in finding.evidence if "The loss shows" in evidence.message]
    assert messages == ([f"The loss shows {said}{'' if said.endswith('steps') else ' steps'}."] if said else [])


def test_bounds_never_add_up_to_more_than_the_step() -> None:
    for spec in LATE:
        findings = diagnosed(spec).findings.findings
        assert sum(finding.share for finding in findings) <= 1 + 1e-9
        assert all(0 <= finding.bound_ns <= finding.alone_ns + 1 for finding in findings)
