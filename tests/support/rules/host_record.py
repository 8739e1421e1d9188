"""Host evidence as a trace states it, for tests of rules; times in microseconds from the beginning of the trace."""

from collections.abc import Sequence
from typing import Any

BASE_NS = 1_700_000_000_000_000_000


def at_ns(us: float) -> int:
    return BASE_NS + round(us * 1000)


def counters(
    *steps: tuple[float, float], cpu: Sequence[float], waited: Sequence[float], **more: Sequence[float]
) -> Any:
    """Of steps from and to; CPU time and time in the run queue of each."""
    columns = {
        "cpu_ns": cpu,
        "run_queue_ns": waited,
        "process_cpu_ns": more.get("process_cpu", cpu),
    }
    return {
        "begin_ns": [at_ns(begin) for begin, _ in steps],
        "end_ns": [at_ns(end) for _, end in steps],
        **{name: [round(value * 1000) for value in values] for name, values in columns.items()},
    }


def thread(name: str, cpu: float, waited: float = 0, **more: object) -> dict[str, object]:
    return {"name": name, "tid": 1, "cpu_ns": round(cpu * 1000), "run_queue_ns": round(waited * 1000), **more}


def training(cpu: float, waited: float = 0) -> dict[str, object]:
    return thread("MainThread", cpu, waited, python=True, training=True)


def evidence(**parts: object) -> dict[str, Any]:
    """Metadata of a document that holds these parts."""
    return {"baseTimeNanoseconds": BASE_NS, "redline": {"version": 1, **parts}}
