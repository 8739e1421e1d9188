"""RL-P01: stages of a pipeline wait for each other."""

from dataclasses import replace
from pathlib import Path

import pytest

from redline.findings.finding import Finding
from redline.job.read_files import JobOptions
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, op
from tests.support.rules.communication import STEP_US, base, exchanged, job, values
from tests.support.rules.matching import found, launched, step
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, write_job


def staged(rank: int, micro_batches: int = 3) -> list[Event]:
    """Rank 0 computes 100 us for each micro-batch and sends it; rank 1 receives all of them from the start on."""
    events = [step(0, 0, STEP_US)]
    for number in range(micro_batches):
        sent = 110 + 110 * number
        if rank == 0:
            events += [
                op("aten::mm", sent - 105, 10),
                *launched("gemm", sent - 100, 100, 10 * number + 1, at=sent - 103),
            ]
            events += exchanged(sent, 10, 10 * number + 2, at=sent - 50, name="send", Dst_Rank=1)
        else:
            begin = 10 + 110 * number
            events += exchanged(begin, sent + 10 - begin, 10 * number + 1, at=begin - 5, name="recv", Src_Rank=0)
    if rank == 1:
        events += [op("aten::softmax", 890, 5), *launched("softmax", 900, 50, 99, at=892)]
    return events


def test_p01_claims_waiting_for_what_others_send() -> None:
    finding = found(*job(staged))["RL-P01"]
    assert finding.alone_ns == finding.bound_ns == 300_000  # rank 1 waits 100 us for each of three
    assert finding.accounts == {"peer wait": 150_000}
    known = values(finding)
    assert (known["stages"], known["micro_batches"], known["bubble_share"]) == (2, 3, pytest.approx(1 / 4))


def test_p01_is_silent_about_ranks_that_do_the_same_work() -> None:
    """A ring, as of context parallelism: both send and receive, and compute the same."""

    def ring(rank: int) -> list[Event]:
        other = 1 - rank
        begin = 500 if rank else 100
        return [
            *base(computing_us=101),
            *exchanged(begin, 600 - begin, 2, at=50, name="send", Dst_Rank=other),
            *exchanged(600 + begin, 600 - begin, 3, at=60, name="recv", Src_Rank=other),
        ]

    assert "RL-P01" not in found(*job(ring))


def test_p01_is_silent_without_waiting() -> None:
    def prompt(rank: int) -> list[Event]:
        name, partner = ("recv", {"Src_Rank": 0}) if rank else ("send", {"Dst_Rank": 1})
        work = [op("aten::mm" if rank else "aten::softmax", 40, 10), *launched("other", 110, 400, 3, at=45)]
        return [*base(computing_us=101), *work, *exchanged(600, 50, 2, at=50, name=name, **partner)]

    assert "RL-P01" not in found(*job(prompt))


PIPELINE = JobSpec(ranks=4, steps=2, layers=4, layout=ParallelSizes(pp=4), microbatches=2, step_compute_us=4000)


def of_pipeline(spec: JobSpec, folder: Path) -> Finding | None:
    write_job(spec, folder)
    findings = diagnose([folder], options=JobOptions(use_cache=False)).findings.findings
    return next((finding for finding in findings if finding.code == "RL-P01"), None)


def test_p01_finds_the_bubble_of_a_synthetic_pipeline(tmp_path: Path) -> None:
    finding = of_pipeline(PIPELINE, tmp_path)
    assert finding is not None
    known = values(finding)
    assert (known["stages"], known["micro_batches"], known["bubble_share"]) == (4, 2, pytest.approx(3 / 5))
    assert "rank" not in known


def test_p01_says_nothing_of_the_bubble_that_enough_micro_batches_leave(tmp_path: Path) -> None:
    enough = replace(PIPELINE, microbatches=16, step_compute_us=40_000, collective_latency_us=5)
    assert of_pipeline(enough, tmp_path / "even") is None
    uneven = replace(enough, stragglers=(Straggler(rank=3, extra_us=15_000),))
    finding = of_pipeline(uneven, tmp_path / "uneven")
    assert finding is not None
    assert values(finding)["rank"] == "3"
    assert values(finding)["longest_ns"] > 1.3 * values(finding)["median_ns"]
