"""What small things cost, whatever the size of the data: Python, operators, autograd, modules, launches.

Every time is without that of the loop that takes it: an empty function is timed among the others and subtracted.
Nothing is stated to take less than a tenth of a nanosecond. `record.rate(1, point.time_ns)` says how many go into a
second.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from redline.calibration.bench import BenchmarkCase, Samples
from redline.calibration.calibration_record import Estimate, OverheadPoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.calibration.device import ProbeDevice

    Call = Callable[[], object]

MEANINGS = {
    "python_add": "Python adds two numbers",
    "python_call": "Python calls a function that does nothing",
    "dispatch": "an operator on one number on the CPU, into a tensor that is there already",
    "tiny_op": "an operator on one number on the device, into a new tensor",
    "item": "one number of a tensor becomes one of Python",
    "module_call": "a module is called that does nothing",
    "linear_tiny": "a linear layer of 8 features, forward only",
    "autograd_op": "an operator on one number, forward and backward",
    "launch": "a kernel that does next to nothing, launched behind others",
    "launch_latency": "such a kernel launched, and waited for",
    "synchronise": "waiting for a device that has nothing to do",
    "graph_replay": "such a kernel, as one of many in a CUDA graph",
    "copy_one": "one number copied from the host to the device",
}
"""What each name stands for, in the order of reports. Those from `launch` on are of CUDA only."""

_LOOP = "timing loop"
_LEAST_NS = 0.1
_UNROLLED = 10
_GRAPH_KERNELS = 100
_IN_ONE_CALL = {"python_add": _UNROLLED, "python_call": _UNROLLED, "graph_replay": _GRAPH_KERNELS}
"""How often a call of the probe does what is named; once if it is not here."""


def cases(device: ProbeDevice, *, quick: bool) -> list[BenchmarkCase[str]]:
    """The same when quick. CUDA graphs are asked for on a CPU too: so they are declined there, not just missing."""
    makers = _on_host() | _on_device(device) | (_on_cuda(device) if device.is_cuda else {})
    small = [BenchmarkCase(key=name, prepare=make, about=MEANINGS.get(name, name)) for name, make in makers.items()]
    return [*small, BenchmarkCase(key="graph_replay", prepare=partial(_graph_replay, device), about="CUDA graphs")]


def points(samples: Samples[str], *, noise: float) -> tuple[OverheadPoint, ...]:
    if _LOOP not in samples.passes:
        return ()
    loop = samples.estimate(_LOOP, noise)
    return tuple(
        OverheadPoint(name=name, time_ns=_without(loop, samples.estimate(name, noise), _IN_ONE_CALL.get(name, 1)))
        for name in MEANINGS
        if name in samples.passes
    )


def _without(loop: Estimate, call: Estimate, count: int) -> Estimate:
    """The ends of the interval assume the worst of both."""
    return Estimate(
        value=max(_LEAST_NS, (call.value - loop.value) / count),
        low=max(_LEAST_NS, (call.low - loop.high) / count),
        high=max(_LEAST_NS, (call.high - loop.low) / count),
        samples=call.samples,
        outliers=call.outliers,
    )


# --- what is timed ----------------------------------------------------------------------------------------------------


def _nothing() -> None:
    pass


def _ten_calls(nothing: Call = _nothing) -> None:
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()
    nothing()


def _ten_adds(first: float = 0.5, other: float = 1.5) -> float:
    return first + other + other + other + other + other + other + other + other + other + other


def _on_host() -> dict[str, Callable[[], Call]]:
    import torch

    def dispatch() -> Call:
        first, other, result = torch.ones(3, 1)
        return partial(torch.add, first, other, out=result)

    return {
        _LOOP: lambda: _nothing,
        "python_add": lambda: _ten_adds,
        "python_call": lambda: _ten_calls,
        "dispatch": dispatch,
    }


def _on_device(device: ProbeDevice) -> dict[str, Callable[[], Call]]:
    import torch

    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(shape, device=device.torch_device)

    def linear() -> Call:
        layer = torch.nn.Linear(8, 8, device=device.torch_device).requires_grad_(requires_grad=False)
        return partial(layer, ones(1, 8))

    def autograd() -> Call:
        weight = ones(1).requires_grad_()

        def forward_and_backward() -> None:
            (weight * weight).backward()

        return forward_and_backward

    return {
        "tiny_op": lambda: partial(torch.add, ones(1), ones(1)),
        "item": lambda: ones(1).item,
        "module_call": lambda: partial(torch.nn.Identity(), ones(1)),
        "linear_tiny": linear,
        "autograd_op": autograd,
    }


# --- CUDA -------------------------------------------------------------------------------------------------------------


def _on_cuda(device: ProbeDevice) -> dict[str, Callable[[], Call]]:
    import torch

    number = torch.ones(1, device=device.torch_device)

    def latency() -> None:
        number.add_(1)
        torch.cuda.synchronize()

    return {
        "launch": lambda: partial(number.add_, 1),
        "launch_latency": lambda: latency,
        "synchronise": lambda: torch.cuda.synchronize,
        "copy_one": lambda: partial(number.copy_, torch.ones(1)),
    }


def _graph_replay(device: ProbeDevice) -> Call:
    """Work is tried on another stream before it is captured, as torch's documentation asks for."""
    import torch

    if not device.is_cuda:
        raise RuntimeError("this is a CPU")
    number = torch.ones(1, device=device.torch_device)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        number.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_GRAPH_KERNELS):
            number.add_(1)

    def replay() -> torch.Tensor:
        graph.replay()
        return number  # the graph writes into it, but does not keep it

    return replay
