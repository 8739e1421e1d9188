"""The doubling test: twice the batch in hardly more time means that the time was overhead, not work.

With a time of overhead + work * batch, the ratio of both times is 1 + the share of the work: 1 where all is overhead, 2
where all is work. Overhead is here whatever does not grow with the batch: Python, operators, launches, and the reading
of weights that a larger batch shares.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget, take
from redline.calibration.calibration_record import Doubling
from redline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redline.calibration.device import ProbeDevice

    Step = Callable[[int], Callable[[], object]]
    """Makes ready what a step with so large a batch needs, and gives the step."""

_PASSES = 3
_EVEN_RATIO = 1.5
_BATCHES, _QUICK_BATCHES = (1, 4, 16, 64, 256, 1024), (1, 16, 128, 1024)
_LAYERS = 3
_CPU_WIDTH, _CUDA_WIDTH = 64, 1024


def doubling(step: Step, batch: int, device: ProbeDevice, effort: TimingBudget, noise: float) -> Doubling:
    """The test of one step, by samples with the batch and with twice as much in turn."""
    samples: Samples[int] = Samples()
    for _ in range(_PASSES):
        take(_cases(step, [batch]), device, effort, samples)
    doublings = _doublings(samples, [batch], noise)
    if not doublings:
        what, why = next(iter(samples.declined.items()))
        raise InputError(f"{what} cannot be timed: {why}. Give a smaller batch, or a step that runs by itself.")
    return doublings[0]


def is_overhead(doubling: Doubling) -> bool:
    """Tell whether more of the time is overhead than work: that is so below a ratio of 1.5, halfway between 1 and 2."""
    return doubling.ratio < _EVEN_RATIO


def overhead_up_to(points: Sequence[Doubling]) -> int | None:
    """The largest batch that is mostly overhead, as are all smaller ones. None where not even the smallest is."""
    largest = None
    for point in sorted(points, key=lambda point: point.batch):
        if not is_overhead(point):
            break
        largest = point.batch
    return largest


# --- of this machine --------------------------------------------------------------------------------------------------


def cases(device: ProbeDevice, *, quick: bool) -> list[BenchmarkCase[int]]:
    """Of a small network, from one row to a thousand: up to where this machine has more overhead than work in it."""
    return _cases(_network(device), _QUICK_BATCHES if quick else _BATCHES)


def points(samples: Samples[int], *, noise: float) -> tuple[Doubling, ...]:
    return _doublings(samples, sorted(samples.passes), noise)


def _network(device: ProbeDevice) -> Step:
    """Linear layers and activations, forward only."""
    import torch

    width = _CUDA_WIDTH if device.is_cuda else _CPU_WIDTH
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(_LAYERS)]
    network = torch.nn.Sequential(*layers).to(device.torch_device).requires_grad_(requires_grad=False)
    return lambda batch: partial(network, torch.ones(batch, width, device=device.torch_device))


def _cases(step: Step, batches: Sequence[int]) -> list[BenchmarkCase[int]]:
    """A batch and its double are neighbours, so that they are timed close to each other."""
    both = dict.fromkeys(size for batch in batches for size in (batch, 2 * batch))
    return [
        BenchmarkCase(key=size, prepare=partial(step, size), about=f"a step with a batch of {size}") for size in both
    ]


def _doublings(samples: Samples[int], batches: Sequence[int], noise: float) -> tuple[Doubling, ...]:
    return tuple(
        Doubling(
            batch=batch, time_ns=samples.estimate(batch, noise), doubled_time_ns=samples.estimate(2 * batch, noise)
        )
        for batch in batches
        if batch in samples.passes and 2 * batch in samples.passes
    )
