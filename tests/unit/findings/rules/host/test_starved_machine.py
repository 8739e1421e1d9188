"""RL-H20: the training thread waits for a core."""

from typing import Any

import pytest

from redline.findings.aggregate import findings_of
from redline.ledger.job.first_screen import outline_of
from redline.report.diagnose.finding_messages import verdict_sentence
from tests.support.events import document, op
from tests.support.rules.host_record import counters, evidence, thread, training
from tests.support.rules.matching import claimed_ns, diagnosis, found, matched, step

MACHINE = {"cores_allowed": 2, "cores": 2, "running": 6.0, "ranks": 1}


def job(cpu: float, waited: float, *threads: dict[str, object], **machine: object) -> bytes:
    """Two steps of 1000 us on a CPU, each with an operator of 800 us; counters of each."""
    events = [step(0, 0, 1000), op("aten::mm", 100, 800), step(1, 1000, 1000), op("aten::mm", 1100, 800)]
    parts: dict[str, Any] = {
        "steps": counters((0, 1000), (1000, 2000), cpu=[cpu, cpu], waited=[waited, waited]),
        "threads": [training(2 * cpu, 2 * waited), *threads],
        "machine": {**MACHINE, **machine},
    }
    return document(events, **evidence(**parts))


def test_h20_claims_the_time_in_the_run_queue_evenly() -> None:
    data = job(400, 600)
    assert claimed_ns(data, "RL-H20") == pytest.approx(1_200_000, abs=2_000)
    match = matched(data)["RL-H20"]
    assert match.accounts["compute"] == pytest.approx(0.6 * 1_600_000, rel=0.01)
    assert found(data)["RL-H20"].share == pytest.approx(0.6, abs=0.01)


def test_h20_says_how_much_the_process_got_and_who_else_runs() -> None:
    finding = found(job(400, 600))["RL-H20"]
    values = {name: value for evidence in finding.evidence for name, value in evidence.values.items()}
    assert values["used_cores"] == pytest.approx(0.4)
    assert values["running"] == 6.0


def test_h20_leaves_other_rules_what_is_left() -> None:
    every = found(job(400, 600))
    assert sum(finding.share for finding in every.values()) <= 1


def test_h20_is_silent_on_a_quiet_machine() -> None:
    assert "RL-H20" not in matched(job(930, 60))
    assert "RL-H20" not in matched(document([step(0, 0, 1000), op("aten::mm", 100, 800)]))


def test_h20_leaves_ranks_and_threads_alone_that_share_the_cores_of_the_machine() -> None:
    """Four ranks on two cores wait for each other: nobody else takes anything."""
    assert "RL-H20" not in matched(job(500, 500, ranks=4))
    helpers = [thread("python", 1000, 1000) for _ in range(3)]
    assert "RL-H20" not in matched(job(500, 500, *helpers))


def test_h20_sees_ranks_that_are_bound_to_one_of_several_cores() -> None:
    finding = found(job(500, 500, ranks=2, cores_allowed=1, running=2.0))["RL-H20"]
    assert finding.share == pytest.approx(0.5, abs=0.01)
    assert any("affinity" in evidence.message for evidence in finding.evidence)


def test_h20_counts_what_a_helping_thread_waited_while_the_training_thread_slept() -> None:
    claim = claimed_ns(job(200, 300, thread("python", 400, 600)), "RL-H20")
    assert claim == pytest.approx(2 * (300_000 + 300_000), rel=0.01)


def test_h20_names_a_quota() -> None:
    finding = found(job(400, 600, quota_cores=0.5, throttled_ns=1_000_000))["RL-H20"]
    assert any("quota" in evidence.message for evidence in finding.evidence)


def test_h20_needs_a_kernel_that_counts() -> None:
    parts = {"steps": {"begin_ns": [10**18], "end_ns": [10**18 + 1]}}
    assert "RL-H20" not in matched(document([step(0, 0, 1000), op("aten::mm", 100, 800)], **evidence(**parts)))


def test_a_starved_job_is_neither_healthy_nor_compute_bound() -> None:
    """Operators take 80 % of the step by the clock, of which the thread ran for 40 %."""
    known = diagnosis(job(400, 600))
    outline = outline_of(known)
    findings = findings_of(known, outline)
    assert findings.verdict.starved_share == pytest.approx(0.6, abs=0.01)
    said = verdict_sentence(findings.verdict, findings.findings, outline)
    assert said.startswith("Starved: for 60.0 % of the step the job has no core to run on.")
    assert not findings.verdict.healthy
