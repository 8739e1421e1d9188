"""What tests of rules about the host share."""

from tests.conftest import Event, region
from tests.unit.findings.conftest import launched, step
from tests.unit.findings.rules.conftest import two_kernels


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
