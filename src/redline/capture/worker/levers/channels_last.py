"""Lever `channels-last`: the layout in which convolutions are fastest on most devices."""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from redline.capture.worker.levers.call_chain import LAYOUT
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from torch.optim.optimizer import Optimizer

    from redline.capture.worker.levers.call_chain import Call

_DIMENSIONS = 4


class ChannelsLast:
    """Converts when a root is called next, when no backward pass and no optimizer is at work."""

    def __init__(self, value: str) -> None:
        self._roots: list[_Layout] = []
        self._left: dict[str, None] = {}
        self._is_on = False

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            why_not = _why_not(root)
            if why_not:
                self._left[why_not] = None
                return
            layout = _Layout(root, job.optimizers)
            layout.is_on = self._is_on
            self._roots.append(layout)
            job.chains.of(root).put(LAYOUT, layout.around)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on
        for layout in self._roots:
            layout.is_on = on

    def took(self) -> LeverEffect:
        parameters = sum(layout.parameters for layout in self._roots)
        inputs = sum(layout.inputs for layout in self._roots)
        if parameters:
            return LeverEffect(True, f"{parameters} parameters, {inputs} inputs per call in channels-last")
        nothing = "no 4-d parameters in another layout" if self._roots else "no module was called"
        return LeverEffect(False, "; ".join(self._left) or nothing)


class _Layout:
    """The layout of one root, its gradients and optimizer states, and of what it is called with."""

    def __init__(self, root: torch.nn.Module, optimizers: Callable[[], Iterable[Optimizer]]) -> None:
        self._root = root
        self._optimizers = optimizers
        self._converted: list[torch.nn.Parameter] = []
        self.around = self._around  # one object, by which the chain knows it
        self.is_on = False
        self.is_converted = False
        self.parameters = 0
        self.inputs = 0

    def _around(self, call: Call) -> Call:
        def laid_out(*args: Any, **kwargs: Any) -> Any:
            if self.is_on != self.is_converted:
                self._convert()
            if not self.is_on:
                return call(*args, **kwargs)
            self.inputs = 0
            args, kwargs = tree_map(self._input, (args, kwargs))
            return call(*args, **kwargs)

        return laid_out

    def _input(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not _can_be_converted(value):
            return value
        self.inputs += 1
        return value.contiguous(memory_format=torch.channels_last)

    def _convert(self) -> None:
        to = torch.channels_last if self.is_on else torch.contiguous_format
        if self.is_on:
            parameters = torch.nn.Module.parameters(self._root)
            self._converted = [parameter for parameter in parameters if _can_be_converted(parameter)]
        states = {id(state): state for optimizer in self._optimizers() for state in [optimizer.state]}
        for parameter in self._converted:
            parameter.data = parameter.data.contiguous(memory_format=to)
            if parameter.grad is not None:
                parameter.grad.data = parameter.grad.data.contiguous(memory_format=to)
            for state in states.values():
                _convert_state(state.get(parameter, {}), parameter, to)
        if self.is_on:
            self.parameters = sum(not parameter.is_contiguous() for parameter in self._converted)
        self.is_converted = self.is_on


def _convert_state(state: dict[str, Any], parameter: torch.Tensor, to: torch.memory_format) -> None:
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
            state[name] = value.contiguous(memory_format=to)


def _can_be_converted(tensor: torch.Tensor) -> bool:
    """4-d, in the usual layout, and in another one afterwards: a kernel of 1 x 1 has both at once."""
    return (
        tensor.dim() == _DIMENSIONS
        and tensor.is_contiguous()
        and not tensor.is_contiguous(memory_format=torch.channels_last)
    )


def _why_not(root: torch.nn.Module) -> str:
    if isinstance(root, DistributedDataParallel):
        return "refused: DDP has laid out the gradients of the model already; convert it before it is wrapped"
    if any(hasattr(parameter, "device_mesh") for parameter in torch.nn.Module.parameters(root)):
        return "refused: the parameters are sharded; convert the model before it is sharded"
    return ""
