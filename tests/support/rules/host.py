"""Steps for rules about the host, its copies and its allocator."""

from tests.support.events import Event, op, region, span
from tests.support.rules.matching import launched, step

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


def small_kernels(number: int, ts: float, correlation: int) -> list[Event]:
    """A kernel of 5 us every 30 us, each launched 3 us before it runs."""
    return [
        event
        for index in range(number)
        for event in launched("add", ts + 30 * index + 3, 5, correlation + index, at=ts + 30 * index)
    ]


def stepping(*kernels: int) -> list[Event]:
    """Steps of 1000 us, each with so many kernels of 5 us."""
    return [
        event
        for number, count in enumerate(kernels)
        for event in (step(number, 1000 * number, 1000), *small_kernels(count, 1000 * number, 1000 * number + 1))
    ]


def optimizer(name: str, *inside: Event) -> list[Event]:
    """A step of 1000 us with an optimizer from 100 to 600 us, and a kernel before and after."""
    return two_kernels(50, 700, region(f"Optimizer.step#{name}.step", 100, 500), *inside)


def compiled(outer_us: float) -> list[Event]:
    """Two compiled functions at 10 and 200 us; the first lasts so long."""
    return [
        op("Torch-Compiled Region: 0/0", 10, outer_us),
        op("CompiledFunction", 20, 40),
        op("Torch-Compiled Region: 1/0", 200, 190),
        op("CompiledFunction", 300, 40),
    ]


def updates(kernel_name: str, number: int) -> list[Event]:
    """So many kernels of 5 us from 103 us on, one every 12 us."""
    return [
        event
        for index in range(number)
        for event in launched(kernel_name, 103 + 12 * index, 5, 10 + index, at=100 + 12 * index)
    ]
