"""Levers on DistributedDataParallel and on FSDP2: buckets, buffers, hooks, and what is gathered when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from redline.capture.worker.levers.lever import (
    ORDER_SEEN,
    SHARDS_SEEN,
    JobLever,
    JobView,
    LeverEffect,
    change_arguments,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.levers import Lever
    from redline.capture.worker.levers.lever import Call

_SIZE = "bucket_cap_mb"
_DEFAULT_MB = 25
_MIB = 1 << 20


class DdpOption(JobLever):
    """An argument of the constructor; DDP tells it in its own log."""

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._argument = lever.kind.argument
        self._value = int(lever.value) if lever.value else True
        self._made: list[Any] = []
        self._why_not = "the script makes no DistributedDataParallel"

    def install(self, job: JobView) -> None:
        def change(module: object, arguments: dict[str, Any]) -> None:
            job.safely(partial(self._change, module, arguments))

        change_arguments(DistributedDataParallel, 0, change)

    def took(self) -> LeverEffect:
        logs = [module._get_ddp_logging_data() for module in self._made]
        is_size = self._argument == _SIZE
        logged, wanted = ("bucket_cap_bytes", self._value * _MIB) if is_size else (self._argument, int(self._value))
        if not any(int(log.get(logged, -1)) == wanted for log in logs):
            return LeverEffect(False, self._why_not)
        sizes = next(log for log in logs).get("rebuilt_bucket_sizes") or logs[0].get("bucket_sizes", "")
        return LeverEffect(True, f"{self._argument}={self._value}; buckets of {sizes} bytes")

    def _change(self, module: object, arguments: dict[str, Any]) -> None:
        if not self._is_on:
            return
        default: bool | int = _DEFAULT_MB if self._argument == _SIZE else False
        given = arguments.get(self._argument)
        given = default if given is None else given
        if given == self._value:
            self._why_not = f"the script has {self._argument}={self._value} already"
        elif self._argument == _SIZE and _bytes(arguments["module"]) <= min(given, self._value) * _MIB:
            self._why_not = f"all gradients fit into one bucket of {min(given, self._value)} MiB"
        else:
            arguments[self._argument] = self._value
            self._made.append(module)


def _bytes(module: torch.nn.Module) -> int:
    trained = [parameter for parameter in torch.nn.Module.parameters(module) if parameter.requires_grad]
    return sum(parameter.numel() * parameter.element_size() for parameter in trained)


class GradientsInBf16(JobLever):
    """Lever `bf16-hook`: DistributedDataParallel sends gradients in bfloat16.

    A communication hook that means what torch's own does; that one refuses gloo by its name.
    """

    _sent = 0
    _why_not = "no DistributedDataParallel was called"

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for module in root.modules():
                if self._is_on and isinstance(module, DistributedDataParallel):
                    self._register(module)

        job.each_root(found)

    def took(self) -> LeverEffect:
        return LeverEffect(True, "buckets are sent in bfloat16") if self._sent else LeverEffect(False, self._why_not)

    def _register(self, module: DistributedDataParallel) -> None:
        types = {parameter.dtype for parameter in module.parameters() if parameter.requires_grad}
        if module._comm_hooks:
            self._why_not = "the script has a communication hook of its own"
        elif torch.float32 not in types:
            self._why_not = "no gradients are in float32"
        else:
            module.register_comm_hook(module.process_group, self._hook())
            self._why_not = "no gradients were sent"

    def _hook(self) -> Any:
        def send_in_bf16(group: Any, bucket: Any) -> Any:
            gradients = bucket.buffer()
            self._sent += 1
            sent = gradients.to(torch.bfloat16).div_(group.size())
            received = dist.all_reduce(sent, group=group, async_op=True).get_future()
            return received.then(lambda done: gradients.copy_(done.value()[0]))

        send_in_bf16.__annotations__ = {}  # which DDP compares with classes of its own
        return send_in_bf16


class OwnBuffers(JobLever):
    """Lever `no-broadcast-buffers`: ranks of DistributedDataParallel keep buffers of their own.

    DDP asks before each forward pass whether it is to broadcast them; all ranks answer the same.
    """

    _passes = _buffers = 0
    _kept = 0  # passes before which buffers would have been sent

    def install(self, job: JobView) -> None:
        plain = DistributedDataParallel.will_sync_module_buffers

        @wraps(plain)
        def will_sync(module: DistributedDataParallel) -> bool:
            would = bool(plain(module))
            if not self._is_on:
                return would
            self._passes += 1
            if would:
                self._kept += 1
                self._buffers = len(module.modules_buffers)
            return False

        DistributedDataParallel.will_sync_module_buffers = will_sync  # type: ignore[method-assign]

    def forget(self) -> None:
        self._passes = self._kept = 0

    def took(self) -> LeverEffect:
        if self._kept:
            return LeverEffect(True, f"{self._buffers} buffers are not broadcast")
        nothing = "DDP broadcasts no buffers" if self._passes else "no DistributedDataParallel was called"
        return LeverEffect(False, nothing)


@dataclass(frozen=True)
class ShardedUnit:
    """A module whose parameters are gathered together, and what FSDP knows of it."""

    module: Any
    state: Any
    groups: tuple[Any, ...]  # of parameters
    is_outermost: bool


def sharded_units(root: torch.nn.Module) -> list[ShardedUnit]:
    """Those that have parameters of their own; none where the model is not sharded so."""
    modules = [module for module in root.modules() if hasattr(type(module), "set_modules_to_forward_prefetch")]
    units = []
    for module in modules:
        state: Any = module._get_fsdp_state()  # type: ignore[operator]
        groups = getattr(state, "_fsdp_param_groups", None)
        if groups is None:  # until torch 2.12 there was one
            groups = [] if state._fsdp_param_group is None else [state._fsdp_param_group]
        if groups:
            units.append(ShardedUnit(module, state, tuple(groups), module is modules[0]))
    return units


class KeptParameters(JobLever):
    """Lever `fsdp-keep`: parameters that FSDP2 has gathered stay whole between the forward and the backward pass.

    What `reshard_after_forward=False` means, set on units that are sharded already.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._kept: list[tuple[Any, Any]] = []  # groups of parameters, and how they were to be sharded again
        self._whole = 0  # groups, when a forward pass ended
        self._why_not = "no model is sharded by fully_shard"

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            units = sharded_units(root)
            groups = [group for unit in units if not _stays_anyway(unit) for group in unit.groups]
            changed = [group for group in groups if group.post_forward_mesh_info is not None]
            if changed:
                self._kept += [(group, group.post_forward_mesh_info) for group in changed]
                job.chains.of(root).put(SHARDS_SEEN, self._around)
            elif units:
                self._why_not = "no parameters are sharded again before the backward pass"
            self.switch(self._is_on)

        job.each_root(found)

    def forget(self) -> None:
        self._whole = 0

    def switch(self, on: bool) -> None:
        super().switch(on)
        for group, sharded in self._kept:
            group.post_forward_mesh_info = None if on else sharded

    def took(self) -> LeverEffect:
        if self._whole:
            return LeverEffect(True, f"{self._whole} units stay gathered until the backward pass")
        return LeverEffect(False, "no unit was called" if self._kept else self._why_not)

    def _around(self, call: Call) -> Call:
        def looked_at(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            if self._is_on and not torch.compiler.is_compiling():
                self._whole = sum(group.is_unsharded for group, _ in self._kept)
            return output

        return looked_at


def _stays_anyway(unit: ShardedUnit) -> bool:
    """The outermost unit is needed first in the backward pass: FSDP keeps it, unless it is told otherwise."""
    return unit.is_outermost and getattr(unit.state, "_auto_reshard_after_forward", True)


class PrefetchedUnits(JobLever):
    """Lever `fsdp-prefetch`: each unit of FSDP2 has the next ones gathered ahead, in both passes.

    The order is that of a forward pass, which is looked at first.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._ahead = int(lever.value)
        self._plans: list[_Ahead] = []
        self._why_not = "no model is sharded by fully_shard"

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            units = sharded_units(root)
            inner = [unit for unit in units if not unit.is_outermost]
            if any(unit.state._states_to_forward_prefetch for unit in units):
                self._why_not = "the script says itself what is gathered ahead"
            elif units and len(inner) <= 1:
                self._why_not = "there is one unit only to gather ahead"
            elif units:
                plan = _Ahead(units, self._ahead, is_on=self._is_on)
                self._plans.append(plan)
                job.chains.of(root).put(ORDER_SEEN, plan.around)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        super().switch(on)
        for plan in self._plans:
            plan.switch(on)

    def took(self) -> LeverEffect:
        if not self._plans:
            return LeverEffect(False, self._why_not)
        units = sum(plan.units_ahead() for plan in self._plans)
        if not units:
            return LeverEffect(False, "no forward pass has ended with it")
        return LeverEffect(True, f"{units} units are gathered up to {self._ahead} ahead")


class _Ahead:
    """The units of one model."""

    def __init__(self, units: list[ShardedUnit], ahead: int, *, is_on: bool) -> None:
        self._units = units
        self._ahead = ahead
        self._is_on = is_on
        self._order: list[Any] = []  # modules, as they were called
        self._passes = 0  # with it in force
        self.around = self._around  # one object, by which the chain knows it

    def switch(self, on: bool) -> None:
        self._is_on = on
        self._passes = 0 if on else self._passes
        if self._order:
            self._set()

    def units_ahead(self) -> int:
        return len(self._order) if self._passes else 0

    def _around(self, call: Call) -> Call:
        def looked_at(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            if torch.compiler.is_compiling():
                return output
            if self._order:
                self._passes += self._is_on
            else:
                self._order = self._called()
                self._set()
            return output

        return looked_at

    def _called(self) -> list[Any]:
        module_of = {id(group): unit.module for unit in self._units if not unit.is_outermost for group in unit.groups}
        order = self._units[0].groups[0].comm_ctx.post_forward_order
        return list(dict.fromkeys(module_of[id(group)] for group in order if id(group) in module_of))

    def _set(self) -> None:
        """With nothing to gather ahead FSDP does as ever."""
        outermost = [unit.module for unit in self._units if unit.is_outermost]
        order = [*outermost, *self._order]
        for at, module in enumerate(order):
            after = order[at + 1 : at + 1 + self._ahead]
            before = self._order[: max(len(self._order) if at == 0 and outermost else at - len(outermost), 0)]
            module.set_modules_to_forward_prefetch(after if self._is_on else [])
            module.set_modules_to_backward_prefetch(before[::-1][: self._ahead] if self._is_on else [])
