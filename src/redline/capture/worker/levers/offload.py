"""Lever `offload`: what the backward pass needs waits for it in the memory of the host."""

from __future__ import annotations

import torch
from torch.autograd.graph import saved_tensors_hooks

from redline.capture.worker.levers.call_chain import OFFLOAD
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain

_LEAST_BYTES = 1 << 20  # of a tensor that is worth a copy


class OffloadedActivations:
    """As torch.autograd.graph.save_on_cpu, but for parameters, which stay, and small tensors."""

    def __init__(self, value: str) -> None:
        self._chains: list[CallChain] = []
        self._is_on = False
        self._why_not = "no module with parameters was called outside of compiled code"
        self._link = self._around  # one object, by which chains know it
        self.bytes = 0  # moved in the last forward pass

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            if not any(parameter.is_cuda for parameter in torch.nn.Module.parameters(root)):
                self._why_not = "the model is not on a CUDA device: nothing is to be moved"
                return
            self._why_not = "no tensor of 1 MiB or more was kept for the backward pass"
            self._chains.append(job.chains.of(root))
            self.switch(self._is_on)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on
        self.bytes = 0 if on else self.bytes
        for chain in self._chains:
            if on:
                chain.put(OFFLOAD, self._link)
            else:
                chain.take(OFFLOAD)

    def took(self) -> LeverEffect:
        if self.bytes:
            return LeverEffect(True, f"{self.bytes / (1 << 20):,.0f} MiB per forward pass wait in host memory")
        return LeverEffect(False, self._why_not)

    def _around(self, call: Call) -> Call:
        def offloaded(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return call(*args, **kwargs)
            self.bytes = 0
            with saved_on_host(self):
                return call(*args, **kwargs)

        return offloaded


def saved_on_host(told: OffloadedActivations, device: str = "cuda") -> saved_tensors_hooks:
    """Tensors of this kind of device that are kept for the backward pass are on the host until then."""

    def pack(tensor: torch.Tensor) -> Any:
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != device or isinstance(tensor, torch.nn.Parameter) or size < _LEAST_BYTES:
            return tensor
        told.bytes += size
        host = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=device != "cpu")
        return tensor.device, host.copy_(tensor)

    def unpack(packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        place, host = packed
        tensor: torch.Tensor = host.to(place, non_blocking=True)
        return tensor

    return saved_tensors_hooks(pack, unpack)
