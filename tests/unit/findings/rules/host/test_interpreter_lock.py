"""RL-H22: another Python thread holds the interpreter lock."""

from typing import Any

import pytest

from tests.support.events import document, op, region
from tests.support.rules.host_record import counters, evidence, thread, training
from tests.support.rules.matching import claimed_ns, found, matched, step


def job(*events: dict[str, Any], other: float = 6000, sleeps: int = 4, python: bool = True) -> bytes:
    """A step of 20 ms on a CPU: operators take 10 ms, the thread runs for 12 ms and sleeps for 8 ms."""
    parts: dict[str, Any] = {
        "steps": counters((0, 20_000), cpu=[12_000], waited=[0]) | {"voluntary": [sleeps]},
        "threads": [training(12_000), thread("statistics", other, python=python)],
        "machine": {"cores_allowed": 2, "cores": 2},
    }
    mine = [step(0, 0, 20_000), op("aten::mm", 1000, 5000), op("aten::mm", 12_000, 5000)]
    return document([*mine, *events], **evidence(**parts))


def test_h22_claims_the_time_that_the_training_thread_sleeps() -> None:
    assert claimed_ns(job(), "RL-H22") == pytest.approx(8_000_000, rel=0.01)
    assert matched(job())["RL-H22"].accounts == {"host": pytest.approx(8_000_000, rel=0.01)}


def test_h22_names_the_thread() -> None:
    (said,) = found(job())["RL-H22"].evidence
    assert said.values["thread"] == "statistics"


def test_h22_needs_a_busy_python_thread() -> None:
    assert "RL-H22" not in matched(job(other=3000))
    assert "RL-H22" not in matched(job(python=False))


def test_h22_leaves_long_sleeps_alone_which_the_lock_does_not_cause() -> None:
    assert "RL-H22" not in matched(job(sleeps=0))


def test_h22_leaves_waiting_for_data_alone() -> None:
    loading = region("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 6100, 5800)
    assert claimed_ns(job(loading), "RL-H22") == pytest.approx(2_200_000, rel=0.01)
