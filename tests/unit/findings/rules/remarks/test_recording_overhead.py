"""RL-R06, a remark: recording slowed the host, so that the idle time in the trace is more than that of the job."""

from tests.support.events import Event, document, span
from tests.support.rules.matching import found, launched, matched, step


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
