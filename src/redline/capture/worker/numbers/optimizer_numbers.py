"""Records gradients before optimizers step, and how far parameters and buffers have moved afterwards."""

from __future__ import annotations

from functools import wraps

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from redline.capture.number_check import GRADIENT, MOVEMENT, START, UNCLIPPED
from redline.capture.worker.counting.calls import keep_from_compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor
    from torch.optim.optimizer import Optimizer

    from redline.capture.worker.numbers.module_names import ModuleNames, NamedCalls
    from redline.capture.worker.numbers.recording import NumbersState

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")


class OptimizerNumbers:
    """The steps of the optimizer that steps first are the steps."""

    def __init__(self, state: NumbersState, names: ModuleNames, calls: NamedCalls, finish: Callable[[], None]) -> None:
        self._state = state
        self._names = names
        self._calls = calls
        self._finish = finish
        self._first: Optimizer | None = None
        self._watch_steps()
        self._watch_scalers()
        watch_clipping(self._about_to_clip)

    def _watch_steps(self) -> None:
        def before(optimizer: Optimizer, args: object, kwargs: object) -> None:
            if self._state.goes_on():
                with self._state.guarded():
                    self._before_step(optimizer)

        def after(optimizer: Optimizer, args: object, kwargs: object) -> None:
            if self._state.goes_on():
                with self._state.guarded():
                    self._after_step(optimizer)

        keep_from_compiler(before)
        keep_from_compiler(after)
        register_optimizer_step_pre_hook(before)
        register_optimizer_step_post_hook(after)

    def _watch_scalers(self) -> None:
        """A scaler leaves out a step whose gradients are not finite."""
        plain = GradScaler.step

        def step(scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = (self._state.step, self._first)
            result = plain(scaler, optimizer, *args, **kwargs)
            if (self._state.step, self._first) == before and optimizer is (self._first or optimizer):
                with self._state.guarded():
                    self._left_out(optimizer)
            return result

        GradScaler.step = step  # type: ignore[method-assign, assignment]

    def _left_out(self, optimizer: Optimizer) -> None:
        self._state.recording.notes[f"the gradient scaler left out step {self._state.step + 1}"] = None
        self._before_step(optimizer)
        self._after_step(optimizer)

    def _before_step(self, optimizer: Optimizer) -> None:
        if self._first is None:
            self._forget_calls_as_steps()
            self._first = optimizer
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which divides by it itself
        factor = 1.0 if scale is None else 1.0 / float(scale)
        parameters = self._parameters_of(optimizer)
        for name, parameter in parameters:
            if not self._state.has(START, name, step=0) and not self._state.has(MOVEMENT, name, step=0):
                self._state.recording.add(0, START, name, parameter)
        for name, parameter in reversed(parameters):
            if parameter.grad is not None:
                self._state.add(GRADIENT, self._again(GRADIENT, name), parameter.grad, factor=factor)

    def _forget_calls_as_steps(self) -> None:
        """Calls of modules were taken for steps before there was an optimizer: they were none."""
        self._state.by_optimizer = True
        if self._state.step:
            self._state.recording.keep_only(self._state.step, START)
            self._state.step = 0

    def _about_to_clip(self, parameters: list[Tensor]) -> None:
        if not self._state.goes_on():
            return
        with self._state.guarded():
            for name, parameter in reversed(self._named(parameters)):
                if parameter.grad is not None and not self._state.has(UNCLIPPED, name):
                    self._state.add(UNCLIPPED, name, parameter.grad)

    def _after_step(self, optimizer: Optimizer) -> None:
        for name, parameter in self._parameters_of(optimizer):
            self._add_movement(name, self._again(MOVEMENT, name), parameter)
        if optimizer is self._first:
            for name, buffer in self._names.buffers():  # such as running means
                self._add_movement(name, name, buffer)
            self._state.step += 1
            if self._state.step >= self._state.check.steps:
                self._finish()

    def _add_movement(self, name: str, recorded_as: str, tensor: Tensor) -> None:
        start = self._state.recording.tensors.get((0, START, name))
        if start is not None:
            self._state.recording.add_difference(self._state.step, MOVEMENT, recorded_as, tensor, start)

    def _again(self, kind: str, name: str) -> str:
        """With a number, where there is one of this name in this step already: its optimizer steps more often."""
        number, known = 1, name
        while self._state.has(kind, known):
            number += 1
            known = f"{name}#{number}"
        return known

    def _parameters_of(self, optimizer: Optimizer) -> list[tuple[str, Tensor]]:
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return self._named(every, type(optimizer).__name__)

    def _named(self, parameters: list[Tensor], owner_name: str = "") -> list[tuple[str, Tensor]]:
        """With their names, in the order in which the forward pass came to them."""
        known: list[tuple[int, str, Tensor]] = []
        for number, parameter in enumerate(parameters):
            found = self._names.of_parameter(parameter)
            if found is None:
                self._names.refresh()
                found = self._names.of_parameter(parameter)
            name, owner = found or (f"{owner_name}.{number}", 0)
            known.append((self._calls.order.get(owner, len(self._calls.order)), name, parameter))
        known.sort(key=lambda entry: entry[0])
        return [(name, parameter) for _, name, parameter in known]


def watch_clipping(about_to_clip: Callable[[list[Tensor]], None]) -> None:
    """Call it with the parameters before any of torch's functions clips their gradients."""
    for name in _CLIPPING:
        plain = getattr(clip_grad, name, None)
        if plain is not None:
            watched = _watched(plain, about_to_clip)
            setattr(clip_grad, name, watched)
            setattr(torch.nn.utils, name, watched)


def _watched(plain: Callable[..., Any], about_to_clip: Callable[[list[Tensor]], None]) -> Callable[..., Any]:
    @wraps(plain)
    def watched(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)  # it may be a generator
        if not torch.compiler.is_compiling():
            about_to_clip(listed)
        return plain(listed, *args, **kwargs)

    return watched
