"""Remarks: what to know before acting on a finding. They claim no time."""

import pytest

from tests.support.events import Event, document, span
from tests.support.rules.matching import FP32, calls, described, found, launched, machine, matched, step

# RL-R06, a remark: recording slowed the host, so that the idle time in the trace is more than that of the job.


def waiting(us: float, *further: Event, **recorded: int) -> bytes:
    """A step of 1000 us in which the device waits so long for the host."""
    return document([step(0, 0, 1000), *launched("gemm", us, 1000 - us, 1, at=us - 2), *further], **recorded)


PYTHON = span("python_function", "train.py(3): step", 0, 900, args={"Python id": 1, "Python parent id": None})
MEMORY: Event = {
    "ph": "i",
    "cat": "cpu_instant_event",
    "name": "[memory]",
    "pid": 100,
    "tid": 1,
    "ts": 5,
    "args": {"Bytes": 1, "Device Id": 0},
}


def test_r06_counts_what_was_recorded() -> None:
    first, second = found(waiting(500, PYTHON, MEMORY))["RL-R06"].evidence
    assert first.values == {"python_calls": 1}
    assert second.values == {"waiting_share": 0.5}
    assert found(waiting(500, MEMORY))["RL-R06"].evidence[0].values == {"events": 1}
    assert "Modules" in found(waiting(500, with_modules=1))["RL-R06"].evidence[0].message


def test_r06_is_silent_where_nothing_costly_was_recorded_or_the_host_keeps_up() -> None:
    assert "RL-R06" not in matched(waiting(500, record_shapes=1))
    assert "RL-R06" not in matched(waiting(90, PYTHON))


# RL-R07, a remark: too few steps, or too different ones, to tell a change from noise.


def steps(*lengths: float) -> bytes:
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        events += [step(number, at, length), *launched("gemm", at + 2, length - 2, number + 1, at=at)]
        at += length
    return document(events)


def test_r07_fires_on_few_or_uneven_steps() -> None:
    assert found(steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}
    # The step of 200 is not of usual length; the others are 120 and 80 in turn: 20 of 100.
    (evidence,) = found(steps(120, 80, 200, 120, 80))["RL-R07"].evidence
    assert evidence.values == {"steps": 5, "spread_share": pytest.approx(0.2)}


def test_r07_is_silent_on_even_steps() -> None:
    assert "RL-R07" not in found(steps(100, 100, 100))
    assert "RL-R07" not in found(steps(300, 100, 105, 95))


def test_r07_counts_the_steps_that_every_rank_has() -> None:
    assert found(steps(100, 100, 100), steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}


# RL-R08, a remark: a fix that was found changes the numbers, so its result is to be compared.


def test_r08_names_the_findings_whose_fix_changes_numbers() -> None:
    data = document(calls(("aten::mm", described(FP32, [64, 64], [64, 64]))))
    codes = found(data, machine=machine(fp32=1, bf16=10))
    assert codes["RL-R08"].evidence[0].values == {"codes": "RL-C02"}
    assert codes["RL-R08"].bound_ns == 0


def test_r08_is_silent_where_no_fix_does() -> None:
    data = document(calls(("aten::relu", described(FP32, [64, 64])), ("aten::relu", described(FP32, [64, 64]))))
    codes = found(data)
    assert "RL-B01" in codes
    assert "RL-R08" not in codes
