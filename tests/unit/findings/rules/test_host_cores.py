"""Threads that wait for a core or for the interpreter lock, and too many or too few of them."""

from typing import Any

import pytest

from redline.findings.aggregate import findings_of
from redline.ledger.job.first_screen import outline_of
from redline.report.diagnose.finding_messages import verdict_sentence
from tests.support.events import document, op, region
from tests.support.rules.host_record import counters, evidence, thread, training
from tests.support.rules.matching import claimed_ns, diagnosis, found, matched, step

# RL-H20: the training thread waits for a core.


MACHINE = {"cores_allowed": 2, "cores": 2, "running": 6.0, "ranks": 1}


def starved_machine_job(cpu: float, waited: float, *threads: dict[str, object], **machine: object) -> bytes:
    """Two steps of 1000 us on a CPU, each with an operator of 800 us; counters of each."""
    events = [step(0, 0, 1000), op("aten::mm", 100, 800), step(1, 1000, 1000), op("aten::mm", 1100, 800)]
    parts: dict[str, Any] = {
        "steps": counters((0, 1000), (1000, 2000), cpu=[cpu, cpu], waited=[waited, waited]),
        "threads": [training(2 * cpu, 2 * waited), *threads],
        "machine": {**MACHINE, **machine},
    }
    return document(events, **evidence(**parts))


def test_h20_claims_the_time_in_the_run_queue_evenly() -> None:
    data = starved_machine_job(400, 600)
    assert claimed_ns(data, "RL-H20") == pytest.approx(1_200_000, abs=2_000)
    match = matched(data)["RL-H20"]
    assert match.accounts["compute"] == pytest.approx(0.6 * 1_600_000, rel=0.01)
    assert found(data)["RL-H20"].share == pytest.approx(0.6, abs=0.01)


def test_h20_says_how_much_the_process_got_and_who_else_runs() -> None:
    finding = found(starved_machine_job(400, 600))["RL-H20"]
    values = {name: value for evidence in finding.evidence for name, value in evidence.values.items()}
    assert values["used_cores"] == pytest.approx(0.4)
    assert values["running"] == 6.0


def test_h20_leaves_other_rules_what_is_left() -> None:
    every = found(starved_machine_job(400, 600))
    assert sum(finding.share for finding in every.values()) <= 1


def test_h20_is_silent_on_a_quiet_machine() -> None:
    assert "RL-H20" not in matched(starved_machine_job(930, 60))
    assert "RL-H20" not in matched(document([step(0, 0, 1000), op("aten::mm", 100, 800)]))


def test_h20_leaves_ranks_and_threads_alone_that_share_the_cores_of_the_machine() -> None:
    """Four ranks on two cores wait for each other: nobody else takes anything."""
    assert "RL-H20" not in matched(starved_machine_job(500, 500, ranks=4))
    helpers = [thread("python", 1000, 1000) for _ in range(3)]
    assert "RL-H20" not in matched(starved_machine_job(500, 500, *helpers))


def test_h20_sees_ranks_that_are_bound_to_one_of_several_cores() -> None:
    finding = found(starved_machine_job(500, 500, ranks=2, cores_allowed=1, running=2.0))["RL-H20"]
    assert finding.share == pytest.approx(0.5, abs=0.01)
    assert any("affinity" in evidence.message for evidence in finding.evidence)


def test_h20_counts_what_a_helping_thread_waited_while_the_training_thread_slept() -> None:
    claim = claimed_ns(starved_machine_job(200, 300, thread("python", 400, 600)), "RL-H20")
    assert claim == pytest.approx(2 * (300_000 + 300_000), rel=0.01)


def test_h20_names_a_quota() -> None:
    finding = found(starved_machine_job(400, 600, quota_cores=0.5, throttled_ns=1_000_000))["RL-H20"]
    assert any("quota" in evidence.message for evidence in finding.evidence)


def test_h20_needs_a_kernel_that_counts() -> None:
    parts = {"steps": {"begin_ns": [10**18], "end_ns": [10**18 + 1]}}
    assert "RL-H20" not in matched(document([step(0, 0, 1000), op("aten::mm", 100, 800)], **evidence(**parts)))


def test_a_starved_job_is_neither_healthy_nor_compute_bound() -> None:
    """Operators take 80 % of the step by the clock, of which the thread ran for 40 %."""
    known = diagnosis(starved_machine_job(400, 600))
    outline = outline_of(known)
    findings = findings_of(known, outline)
    assert findings.verdict.starved_share == pytest.approx(0.6, abs=0.01)
    said = verdict_sentence(findings.verdict, findings.findings, outline)
    assert said.startswith("Starved: for 60.0 % of the step the job has no core to run on.")
    assert not findings.verdict.healthy


# RL-H21: more threads than cores, or fewer while cores are free.


def thread_count_job(
    *,
    threads: int,
    cpu: float,
    process_cpu: float,
    operator: float = 9000,
    helpers: int = 0,
    waited: float = 0,
    **machine: object,
) -> bytes:
    """A step of 20 ms on a CPU with two operators of this length in microseconds."""
    events = [step(0, 0, 20_000), op("aten::mm", 500, operator), op("aten::mm", 10_500, operator)]
    helping = (process_cpu - cpu) / max(helpers, 1)
    parts: dict[str, Any] = {
        "steps": counters((0, 20_000), cpu=[cpu], waited=[waited], process_cpu=[process_cpu]),
        "threads": [training(cpu, waited), *(thread("python", helping) for _ in range(helpers))],
        "machine": {
            "cores_allowed": 2,
            "cores": 2,
            "running": 1.2,
            "ranks": 1,
            "torch_threads": threads,
            **machine,
        },
    }
    return document(events, **evidence(**parts))


def test_h21_claims_what_too_many_threads_cannot_need() -> None:
    """36 ms of CPU time, half of it useful at least: 9 ms of the 20 ms step on two cores."""
    data = thread_count_job(threads=16, cpu=3000, process_cpu=36_000, helpers=15)
    assert claimed_ns(data, "RL-H21") == pytest.approx(11_000_000, rel=0.01)
    (said,) = found(data)["RL-H21"].evidence
    assert said.values["fitting"] == 2


def test_h21_knows_a_quota() -> None:
    data = thread_count_job(
        threads=8, cpu=5000, process_cpu=20_000, helpers=7, cores_allowed=64, cores=64, quota_cores=2.0
    )
    assert claimed_ns(data, "RL-H21") == pytest.approx(15_000_000, rel=0.01)


def test_h21_claims_what_idle_cores_could_do() -> None:
    data = thread_count_job(threads=1, cpu=19_800, process_cpu=19_800)
    assert claimed_ns(data, "RL-H21") == pytest.approx(9_000_000, rel=0.01)
    assert "5 ms" in found(data)["RL-H21"].evidence[0].message


def test_h21_is_silent_where_threads_fit_the_cores() -> None:
    assert "RL-H21" not in matched(thread_count_job(threads=2, cpu=19_000, process_cpu=37_000, helpers=1))
    assert "RL-H21" not in matched(thread_count_job(threads=1, cpu=19_000, process_cpu=19_000, ranks=2))


def test_h21_is_silent_where_ranks_alone_are_more_than_cores() -> None:
    assert "RL-H21" not in matched(thread_count_job(threads=1, cpu=10_000, process_cpu=10_000, ranks=4))


def test_h21_is_silent_where_helpers_do_nothing() -> None:
    assert "RL-H21" not in matched(thread_count_job(threads=16, cpu=19_000, process_cpu=19_100, helpers=15))


@pytest.mark.parametrize(
    "changed", [{"running": 2.0}, {"operator": 4000}, {"waited": 4000}, {"cpu": 9000, "process_cpu": 9000}]
)
def test_h21_is_silent_where_another_thread_would_gain_nothing(changed: dict[str, Any]) -> None:
    assert "RL-H21" not in matched(thread_count_job(**{"threads": 1, "cpu": 15_900, "process_cpu": 15_900, **changed}))


# RL-H22: another Python thread holds the interpreter lock.


def interpreter_lock_job(*events: dict[str, Any], other: float = 6000, sleeps: int = 4, python: bool = True) -> bytes:
    """A step of 20 ms on a CPU: operators take 10 ms, the thread runs for 12 ms and sleeps for 8 ms."""
    parts: dict[str, Any] = {
        "steps": counters((0, 20_000), cpu=[12_000], waited=[0]) | {"voluntary": [sleeps]},
        "threads": [training(12_000), thread("statistics", other, python=python)],
        "machine": {"cores_allowed": 2, "cores": 2},
    }
    mine = [step(0, 0, 20_000), op("aten::mm", 1000, 5000), op("aten::mm", 12_000, 5000)]
    return document([*mine, *events], **evidence(**parts))


def test_h22_claims_the_time_that_the_training_thread_sleeps() -> None:
    assert claimed_ns(interpreter_lock_job(), "RL-H22") == pytest.approx(8_000_000, rel=0.01)
    assert matched(interpreter_lock_job())["RL-H22"].accounts == {"host": pytest.approx(8_000_000, rel=0.01)}


def test_h22_names_the_thread() -> None:
    (said,) = found(interpreter_lock_job())["RL-H22"].evidence
    assert said.values["thread"] == "statistics"


def test_h22_needs_a_busy_python_thread() -> None:
    assert "RL-H22" not in matched(interpreter_lock_job(other=3000))
    assert "RL-H22" not in matched(interpreter_lock_job(python=False))


def test_h22_leaves_long_sleeps_alone_which_the_lock_does_not_cause() -> None:
    assert "RL-H22" not in matched(interpreter_lock_job(sleeps=0))


def test_h22_leaves_waiting_for_data_alone() -> None:
    loading = region("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 6100, 5800)
    assert claimed_ns(interpreter_lock_job(loading), "RL-H22") == pytest.approx(2_200_000, rel=0.01)
