"""Lever `fsdp-prefetch`: each unit of FSDP2 has the next ones gathered ahead, in both passes."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.call_chain import ORDER_SEEN
from redline.capture.worker.levers.lever import JobView, LeverEffect
from redline.capture.worker.levers.sharded_units import sharded_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call
    from redline.capture.worker.levers.sharded_units import ShardedUnit


class PrefetchedUnits:
    """The order is that of a forward pass, which is looked at first."""

    def __init__(self, value: str) -> None:
        self._ahead = int(value)
        self._is_on = False
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
        self._is_on = on
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
