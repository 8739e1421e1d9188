"""The units in which FSDP2's `fully_shard` has sharded a model."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import torch


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
