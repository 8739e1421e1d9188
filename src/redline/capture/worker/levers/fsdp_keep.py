"""Lever `fsdp-keep`: parameters that FSDP2 has gathered stay whole between the forward and the backward pass."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.call_chain import SHARDS_SEEN
from redline.capture.worker.levers.lever import JobView, LeverEffect
from redline.capture.worker.levers.sharded_units import sharded_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call
    from redline.capture.worker.levers.sharded_units import ShardedUnit


class KeptParameters:
    """What `reshard_after_forward=False` means, set on units that are sharded already."""

    def __init__(self, value: str) -> None:
        self._is_on = False
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

    def switch(self, on: bool) -> None:
        self._whole = 0 if on else self._whole
        self._is_on = on
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
