"""What tests of rules about the host, its copies and its allocator share. Imported by name."""

from tests.conftest import Event, span
from tests.unit.findings.conftest import launched, step

READ, WRITE = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"
PINNED_WRITE = "Memcpy HtoD (Pinned -> Device)"


def call(name: str, ts: float, dur: float) -> Event:
    return span("cuda_runtime", name, ts, dur)


def two_kernels(first_ends: float, second_launched: float, *between: Event, length: float = 1000) -> list[Event]:
    """A step with a kernel that runs until `first_ends`, then one of 100 us that is launched at `second_launched`."""
    return [
        step(0, 0, length),
        *launched("gemm", 3, first_ends - 3, 1, at=0),
        *between,
        *launched("gemm", second_launched + 3, 100, 2, at=second_launched),
    ]


def later_step(*between: Event) -> list[Event]:
    """A quiet step, then one with a gap from 1103 to 1703 us."""
    return [
        *two_kernels(800, 850),
        step(1, 1000, 1000),
        *launched("gemm", 1003, 100, 3, at=1000),
        *between,
        *launched("gemm", 1703, 100, 4, at=1700),
    ]


def later(event: Event, us: float) -> Event:
    """The same again, launched by a call of its own."""
    args = {**event["args"], "correlation": event["args"]["correlation"] + 1000}
    return {**event, "ts": event["ts"] + us, "args": args}
