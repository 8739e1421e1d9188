"""RL-H21: more threads than cores, or fewer while cores are free."""

from typing import Any

import pytest

from tests.support.events import document, op
from tests.support.rules.host_record import counters, evidence, thread, training
from tests.support.rules.matching import claimed_ns, found, matched, step


def job(
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
    data = job(threads=16, cpu=3000, process_cpu=36_000, helpers=15)
    assert claimed_ns(data, "RL-H21") == pytest.approx(11_000_000, rel=0.01)
    (said,) = found(data)["RL-H21"].evidence
    assert said.values["fitting"] == 2


def test_h21_knows_a_quota() -> None:
    data = job(threads=8, cpu=5000, process_cpu=20_000, helpers=7, cores_allowed=64, cores=64, quota_cores=2.0)
    assert claimed_ns(data, "RL-H21") == pytest.approx(15_000_000, rel=0.01)


def test_h21_claims_what_idle_cores_could_do() -> None:
    data = job(threads=1, cpu=19_800, process_cpu=19_800)
    assert claimed_ns(data, "RL-H21") == pytest.approx(9_000_000, rel=0.01)
    assert "5 ms" in found(data)["RL-H21"].evidence[0].message


def test_h21_is_silent_where_threads_fit_the_cores() -> None:
    assert "RL-H21" not in matched(job(threads=2, cpu=19_000, process_cpu=37_000, helpers=1))
    assert "RL-H21" not in matched(job(threads=1, cpu=19_000, process_cpu=19_000, ranks=2))


def test_h21_is_silent_where_ranks_alone_are_more_than_cores() -> None:
    assert "RL-H21" not in matched(job(threads=1, cpu=10_000, process_cpu=10_000, ranks=4))


def test_h21_is_silent_where_helpers_do_nothing() -> None:
    assert "RL-H21" not in matched(job(threads=16, cpu=19_000, process_cpu=19_100, helpers=15))


@pytest.mark.parametrize(
    "changed", [{"running": 2.0}, {"operator": 4000}, {"waited": 4000}, {"cpu": 9000, "process_cpu": 9000}]
)
def test_h21_is_silent_where_another_thread_would_gain_nothing(changed: dict[str, Any]) -> None:
    assert "RL-H21" not in matched(job(**{"threads": 1, "cpu": 15_900, "process_cpu": 15_900, **changed}))
