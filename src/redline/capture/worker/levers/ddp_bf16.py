"""Lever `bf16-hook`: DistributedDataParallel sends gradients in bfloat16."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GradientsInBf16:
    """A communication hook that means what torch's own does; that one refuses gloo by its name."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._sent = 0
        self._why_not = "no DistributedDataParallel was called"

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for module in root.modules():
                if self._is_on and isinstance(module, DistributedDataParallel):
                    self._register(module)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        self._is_on = on

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
