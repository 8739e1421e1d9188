"""Levers on optimizers: `fused`, `foreach`, `capturable`, `clip-foreach` and `zero-grad-none`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import signature
from weakref import WeakKeyDictionary, ref

import torch
from torch.nn.utils import clip_grad
from torch.optim.optimizer import (
    Optimizer,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._foreach_utils import _has_foreach_support

from redline.capture.worker.counting.calls import keep_from_compiler
from redline.capture.worker.levers.lever import JobLever, JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from redline.capture.levers import Lever

_KERNELS = ("fused", "foreach")  # of which one is on at a time
_ON_DEVICE = ("fused", "capturable")  # they have the count of steps on the device
_set_by: WeakKeyDictionary[Optimizer, str] = WeakKeyDictionary()  # the lever that has chosen its kernels
_OF_GRADIENTS = "get_total_norm"  # is given gradients, the others parameters
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", _OF_GRADIENTS)


@dataclass
class _Known:
    """An optimizer that has stepped, or is about to."""

    name: str
    alive: ref[Optimizer]
    was: list[dict[str, Any]] = field(default_factory=list)  # the flags of its groups as the script set them
    is_set: bool = False
    why_not: str = ""
    took: bool = False
    has_sparse: bool | None = None  # gradients; None until it has stepped with some


class OptimizerKernels(JobLever):
    """Sets a flag of the groups of parameters before an optimizer steps, and sets it back as the script had it."""

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._flag = flag = lever.kind.name
        self._flags = _KERNELS if flag in _KERNELS else (flag,)  # that are set together
        self._known: dict[int, _Known] = {}

    def install(self, job: JobView) -> None:
        def before(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            job.safely(partial(self._before, optimizer, has_closure=closure is not None))

        def after(optimizer: Optimizer, args: object, kwargs: object) -> None:
            job.safely(partial(self._after, optimizer))

        for hook in (before, after):
            keep_from_compiler(hook)
        register_optimizer_step_pre_hook(before)
        register_optimizer_step_post_hook(after)

    def forget(self) -> None:
        """Each optimizer is changed when it steps next, in the thread in which it does."""
        for known in self._known.values():
            known.took, known.why_not = False, ""

    def took(self) -> LeverEffect:
        took = sorted({known.name for known in self._known.values() if known.took})
        left = sorted({f"{known.name} {known.why_not}" for known in self._known.values() if known.why_not})
        done = [f"{name}: {self._flag}" for name in took]
        return LeverEffect(bool(took), "; ".join([*done, *left]) or "no optimizer has stepped with it")

    def _of(self, optimizer: Optimizer) -> _Known:
        known = self._known.get(id(optimizer))
        if known is None or known.alive() is not optimizer:
            known = self._known[id(optimizer)] = _Known(type(optimizer).__name__, ref(optimizer))
        return known

    def _before(self, optimizer: Optimizer, *, has_closure: bool) -> None:
        known = self._of(optimizer)
        if self._is_on:
            if has_closure and known.has_sparse is None:
                return  # which makes the gradients, so that only the end of the step shows them
            if not known.is_set and not known.why_not:
                known.why_not = self._why_not(optimizer) or ("has sparse gradients" if known.has_sparse else "")
                other = _set_by.get(optimizer, self._flag)
                if self._flag in _KERNELS and other != self._flag:
                    known.why_not = f"has lever {other} on: each would set the other's flag back"
            if not known.why_not:
                self._set(optimizer, known)
        elif known.is_set:
            self._set_back(optimizer, known)

    def _after(self, optimizer: Optimizer) -> None:
        known = self._of(optimizer)
        known.has_sparse = known.has_sparse or _has_sparse_gradients(optimizer)
        if self._is_on and known.is_set:
            known.took = all(group.get(self._flag) for group in optimizer.param_groups)

    def _why_not(self, optimizer: Optimizer) -> str:
        groups = optimizer.param_groups
        if not type(optimizer).step.__module__.startswith("torch.optim."):
            return "is not of torch.optim"
        if not all(self._flag in group for group in groups):
            return f"has no {self._flag} implementation"
        if any(group.get("differentiable") for group in groups):
            return "is differentiable"
        if all(group[self._flag] for group in groups):
            return f"is {self._flag} already"
        if _has_sparse_gradients(optimizer):
            return "has sparse gradients"
        return self._why_not_here(optimizer, [parameter for group in groups for parameter in group["params"]])

    def _why_not_here(self, optimizer: Optimizer, parameters: list[torch.Tensor]) -> str:
        if self._flag == "foreach":
            return _why_not_foreach(optimizer.param_groups)
        return _why_not_fused(optimizer, parameters) if self._flag == "fused" else _why_not_capturable(parameters)

    def _set(self, optimizer: Optimizer, known: _Known) -> None:
        """Groups may come later, and others overwrite what is in them."""
        groups = optimizer.param_groups
        for group in groups[len(known.was) :]:
            known.was.append({flag: group[flag] for flag in self._flags if flag in group})
        for group in groups:
            if not group[self._flag]:
                group.update({flag: flag == self._flag for flag in self._flags if flag in group})
                if self._flag in _ON_DEVICE:
                    _move_counters(optimizer, group, to_device=True)
        known.is_set = True
        if self._flag in _KERNELS:
            _set_by[optimizer] = self._flag

    def _set_back(self, optimizer: Optimizer, known: _Known) -> None:
        for group, flags in zip(optimizer.param_groups, known.was, strict=False):
            group.update(flags)
            if self._flag in _ON_DEVICE and not any(group.get(flag) for flag in _ON_DEVICE):
                _move_counters(optimizer, group, to_device=False)
        known.was.clear()
        known.is_set = False
        if self._flag in _KERNELS:
            _set_by.pop(optimizer, None)


def _has_sparse_gradients(optimizer: Optimizer) -> bool:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return any(parameter.grad is not None and parameter.grad.is_sparse for parameter in parameters)


def _move_counters(optimizer: Optimizer, group: dict[str, Any], *, to_device: bool) -> None:
    """Fused kernels read the count of steps on the device; others would wait for the device to read it."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        step = state.get("step")
        if isinstance(step, torch.Tensor):
            device = parameter.device if to_device else torch.device("cpu")
            state["step"] = step.to(device=device, dtype=_get_scalar_dtype(is_fused=to_device))


def _why_not_fused(optimizer: Optimizer, parameters: list[torch.Tensor]) -> str:
    try:
        for parameter in parameters:
            _device_dtype_check_for_fused(parameter, cuda_unsupported=isinstance(optimizer, torch.optim.Adagrad))
    except RuntimeError:
        kinds = sorted({f"{one.device.type} {one.dtype}".replace("torch.", "") for one in parameters})
        return f"has no fused kernel for {', '.join(kinds)}"
    return ""


def _why_not_capturable(parameters: list[torch.Tensor]) -> str:
    can = _get_capturable_supported_devices()
    others = sorted({parameter.device.type for parameter in parameters} - set(can))
    return f"has parameters on {', '.join(others)}, where nothing is captured" if others else ""


def _why_not_foreach(groups: list[dict[str, Any]]) -> str:
    if any(group.get("fused") for group in groups):
        return "is fused, which goes further"
    if any(isinstance(group.get("lr"), torch.Tensor) and not group.get("capturable") for group in groups):
        return "has its learning rate in a tensor"
    defaults = [group for group in groups if group["foreach"] is None]
    is_default = [_default_to_fused_or_foreach(group["params"], False, use_fused=False)[1] for group in defaults]
    if len(defaults) == len(groups) and all(is_default):
        return "uses foreach by default here"
    return ""


class ForeachClipping(JobLever):
    """Lever `clip-foreach`: torch's functions that clip gradients take all tensors at a time.

    Where the script says `foreach=False`; torch's own default is to do so where it can.
    """

    _changed, _why_not = 0, ""

    def install(self, job: JobView) -> None:
        for name in _CLIPPING:
            plain = getattr(clip_grad, name, None)
            if plain is not None:
                clip = self._wrapped(plain)
                setattr(clip_grad, name, clip)
                setattr(torch.nn.utils, name, clip)

    def forget(self) -> None:
        self._changed, self._why_not = 0, ""

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, "gradients are clipped all at a time")
        return LeverEffect(False, self._why_not or "no function of torch has clipped gradients")

    def _wrapped(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        known = signature(plain)

        @wraps(plain)
        def clip(*args: Any, **kwargs: Any) -> Any:
            if not self._is_on or torch.compiler.is_compiling():
                return plain(*args, **kwargs)
            try:
                arguments = known.bind(*args, **kwargs).arguments
            except TypeError:  # the script has it wrong, and shall hear it from torch
                return plain(*args, **kwargs)
            first = next(iter(known.parameters))
            given = arguments[first]
            arguments[first] = given if isinstance(given, torch.Tensor) else list(given)
            if self._may_change(plain.__name__, arguments[first], arguments.get("foreach")):
                arguments["foreach"] = True
                self._changed += 1
            return plain(**arguments)

        return clip

    def _may_change(self, name: str, given: torch.Tensor | list[torch.Tensor], foreach: bool | None) -> bool:
        tensors = [given] if isinstance(given, torch.Tensor) else given
        if name != _OF_GRADIENTS:
            tensors = [parameter.grad for parameter in tensors if parameter.grad is not None]
        devices = {tensor.device for tensor in tensors}
        if foreach is not False:
            self._why_not = "the script leaves it to torch, which does so where it can"
        elif not all(
            _has_foreach_support([tensor for tensor in tensors if tensor.device == device], device)
            for device in devices
        ):
            self._why_not = "torch cannot do so for these devices or classes of tensors"
        elif tensors:
            return True
        return False


class ZeroGradToNone(JobLever):
    """Lever `zero-grad-none`: gradients are dropped where the script has them filled with zeros.

    `zero_grad` of optimizers and modules, however it is called.
    """

    _changed = _calls = 0

    def install(self, job: JobView) -> None:
        Optimizer.zero_grad = self._wrapped(Optimizer.zero_grad)  # type: ignore[method-assign]
        torch.nn.Module.zero_grad = self._wrapped(torch.nn.Module.zero_grad)  # type: ignore[method-assign]

    def forget(self) -> None:
        self._changed = self._calls = 0

    def took(self) -> LeverEffect:
        if self._changed:
            return LeverEffect(True, "zero_grad(set_to_none=False) drops gradients")
        return LeverEffect(False, "gradients are dropped already" if self._calls else "zero_grad was not called")

    def _wrapped(self, plain: Callable[..., None]) -> Any:
        @wraps(plain)
        def zero_grad(owner: Any, set_to_none: bool = True) -> None:
            if self._is_on:
                self._calls += 1
                self._changed += not set_to_none
            plain(owner, set_to_none=set_to_none or self._is_on)

        return zero_grad
