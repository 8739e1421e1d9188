"""Lever `checkpoint`: repeated blocks keep their inputs only, and compute the rest again in the backward pass."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from redline.capture.worker.levers.call_chain import CHECKPOINT
from redline.capture.worker.levers.lever import JobView, LeverEffect
from redline.capture.worker.levers.repeated_blocks import repeated_blocks
from redline.capture.worker.levers.roots import unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain

_CACHES = ("past_key_value", "past_key_values", "layer_past", "cache_params")  # a second pass would fill them twice
_WHY_GATHERING = "left alone: a second pass would update running statistics twice"


class CheckpointedBlocks:
    """Those that are called with a cache, or gather running statistics, are left alone."""

    def __init__(self, value: str) -> None:
        self._chains: list[CallChain] = []
        self._is_on = False
        self._recomputed = 0
        self._gathering = 0  # blocks that are left alone for it
        self._is_traced = False  # torch.compile has made it a part of its graphs
        self._why_not = "no module with parameters was called outside of compiled code"
        self._link = self._around  # one object, by which chains know it

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            blocks = repeated_blocks(unwrapped(root))
            self._why_not = "no block was computed again" if blocks else f"{type(root).__name__} repeats no blocks"
            for block in blocks:
                if _gathers_statistics(block):
                    self._gathering += 1
                    continue
                self._chains.append(job.chains.of(block))
                if self._is_on:
                    self._chains[-1].put(CHECKPOINT, self._link)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on
        self._recomputed = 0 if on else self._recomputed
        for chain in self._chains:
            if on:
                chain.put(CHECKPOINT, self._link)
            else:
                chain.take(CHECKPOINT)

    def took(self) -> LeverEffect:
        left = [f"{self._gathering} blocks {_WHY_GATHERING}"] if self._gathering else []
        if self._recomputed or self._is_traced:
            how = "computed again in the backward pass" if self._recomputed else "in compiled graphs"
            return LeverEffect(True, "; ".join([f"{len(self._chains)} blocks, {how}", *left]))
        return LeverEffect(False, "; ".join(left if left and not self._chains else [self._why_not, *left]))

    def _around(self, call: Call) -> Call:
        def computed(*args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() != -1:
                self._recomputed += 1
            return call(*args, **kwargs)

        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return call(*args, **kwargs)
            if any(kwargs.get(name) is not None for name in _CACHES):
                self._why_not = "blocks are called with a cache, which a second pass would fill twice"
                return call(*args, **kwargs)
            if torch.compiler.is_compiling():  # where nothing may be noted inside of what is checkpointed
                self._is_traced = True
                return checkpoint(call, *args, use_reentrant=False, **kwargs)
            return checkpoint(computed, *args, use_reentrant=False, **kwargs)

        return checkpointed


def _gathers_statistics(block: torch.nn.Module) -> bool:
    """As batch norm does in training mode; frozen, it only reads them."""
    return any(
        isinstance(module, _NormBase) and module.training and module.running_mean is not None
        for module in block.modules()
    )
