"""Ranks that wait for others: late ranks, stages of a pipeline, ranks without a core."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.findings.finding import Finding
from redline.findings.rule import MatchTotals
from redline.findings.rules.communication_waits import late_ranks
from redline.job.read_files import JobOptions
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, document, op
from tests.support.rules.communication import STEP_US, base, exchanged, job, late, messages, values
from tests.support.rules.host_record import counters, evidence, training
from tests.support.rules.matching import found, launched, step
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, write_job

# RL-N13: ranks wait in collectives for others that come late.


def test_n13_names_the_late_rank_and_its_cause() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(300, 300, 300))))["RL-N13"]
    assert finding.alone_ns == finding.bound_ns == 300_000  # of every step of rank 0, which the job gains
    assert finding.accounts == {"peer wait": 150_000}
    assert {place.rank for place in finding.places} == {0}
    known = values(finding)
    assert (known["rank"], known["last"], known["operations"], known["caused_share"]) == ("1", 3, 3, 1.0)
    assert (known["cause_ns"], known["late_ns"], known["waiting_ns"]) == (300_000, 300_000, 150_000)
    assert "computes {cause_ns} longer" in messages(finding)
    assert "the same rank" in messages(finding)


def test_n13_says_if_it_is_in_the_first_step_only() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400, 0, 0))))["RL-N13"]
    assert "is late in the first step only" in messages(finding)


def test_n13_says_if_only_one_step_was_seen() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400,))))["RL-N13"]
    assert "only one step" in messages(finding)


def test_n13_is_silent_where_all_come_together() -> None:
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(0, 0, 0))))
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(50, 50, 50))))  # 2.5 % of the step on average


def test_n13_is_silent_about_a_rank_alone() -> None:
    assert "RL-N13" not in found(document(late(0, after_us=(300, 300)), world_size=2))


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        ("before the window", "late when the window began"),
        ("compute", "computes"),
        ("communication", "communicates"),
        ("input", "its data loader"),
        ("host", "for the host"),
        ("other", "traces do not show"),
    ],
)
@pytest.mark.parametrize("pattern", ["fixed", "rotating", "first step only", "one step seen"])
def test_n13_has_words_for_every_cause_and_pattern(cause: str, says: str, pattern: str) -> None:
    names = {"rank": "7", "cause": cause, "pattern": pattern, "also": "3"}
    numbers = ("last", "operations", "caused_share", "cause_ns", "late_ns", "first_step_share", "also_share")
    figures = {**dict.fromkeys(numbers, 1.0), "kinds": 2.0, "speed_share": 0.25}
    seen = MatchTotals(ranks=8, steps=8, step_ns=1e6, bound_ns=1e5, alone_ns=1e5, figures=figures, names=names)
    first, why, when, also, speed, kinds = late_ranks.explain(seen)
    assert speed.values["speed_share"] == 0.25
    assert says in why.message
    assert pattern != "rotating" or "late rank changes" in when.message
    assert (first.values["rank"], also.values["also"], kinds.values["kinds"]) == ("7", "3", 2.0)


@pytest.mark.parametrize(
    ("after_us", "says"),
    [
        ((0, 300, 0, 300, 0, 300), "every {period} steps"),
        ((0, 300, 300, 0, 0, 300), "{shown} of {steps} steps"),
    ],
)
def test_n13_says_in_which_steps_a_rank_is_late(after_us: tuple[float, ...], says: str) -> None:
    finding = found(*job(lambda rank: late(rank, after_us=after_us)))["RL-N13"]
    assert says in messages(finding)
    assert values(finding).get("period", 2) == 2
    assert values(finding).get("shown", 3) == 3


@pytest.mark.parametrize("where", ["compute", "host", "input"])
def test_n13_finds_the_straggler_of_a_synthetic_job(tmp_path: Path, where: Any) -> None:
    spec = JobSpec(ranks=4, steps=3, layers=2, step_compute_us=2000, buckets=1)
    write_job(replace(spec, stragglers=(Straggler(rank=2, extra_us=800, where=where),)), tmp_path)
    findings = {one.code: one for one in diagnose([tmp_path], options=JobOptions(use_cache=False)).findings.findings}
    assert values(findings["RL-N13"])["rank"] == "2"
    assert findings["RL-N13"].alone_ns == pytest.approx(800_000, rel=0.1)  # what the job gains
    assert {place.rank for place in findings["RL-N13"].places} <= {0, 1, 3}


# RL-P01: stages of a pipeline wait for each other.


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


# RL-N30: ranks wait in collectives for ranks that have no core.


STEPS = 3


def starved_ranks_job(*, waited: float) -> list[bytes]:
    """Two ranks; rank 1 comes 300 us late in each step of 1000 us, and waited for a core for so long in each."""
    return [_rank(0, 0), _rank(1, waited)]


def _rank(rank: int, waited: float) -> bytes:
    borders = [(1000 * number, 1000 * (number + 1)) for number in range(STEPS)]
    parts: dict[str, Any] = {
        "steps": counters(*borders, cpu=[1000 - waited] * STEPS, waited=[waited] * STEPS),
        "threads": [training((1000 - waited) * STEPS, waited * STEPS)],
        "machine": {"cores_allowed": 8, "cores": 8, "running": 20.0, "ranks": 2},
    }
    return document(late(rank, after_us=(300,) * STEPS), rank=rank, world_size=2, **evidence(**parts))


def test_n30_claims_waiting_for_a_rank_without_a_core() -> None:
    every = found(*starved_ranks_job(waited=300))
    assert every["RL-H20"].ranks == 1
    assert every["RL-N30"].accounts["peer wait"] == pytest.approx(150_000, rel=0.02)  # 300 us on one of two ranks
    assert every["RL-N13"].bound_ns == pytest.approx(0, abs=1)


def test_n30_claims_no_more_than_the_rank_waited_for_a_core() -> None:
    every = found(*starved_ranks_job(waited=150))
    assert every["RL-N30"].accounts["peer wait"] == pytest.approx(75_000, rel=0.02)
    assert every["RL-N13"].bound_ns == pytest.approx(150_000, rel=0.02)  # on the job, not on its average rank


def test_n30_is_silent_where_no_rank_is_starved() -> None:
    every = found(*starved_ranks_job(waited=20))
    assert "RL-N30" not in every
    assert every["RL-N13"].bound_ns == 300_000
