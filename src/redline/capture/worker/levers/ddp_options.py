"""Levers `bucket-mb`, `bucket-view` and `static-graph`: other arguments for DistributedDataParallel."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn.parallel import DistributedDataParallel

from redline.capture.worker.levers.constructor import change_arguments
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEFAULT_MB = 25
_MIB = 1 << 20


class DdpOption:
    """An argument of the constructor, with the name under which DDP tells it in its own log."""

    def __init__(self, argument: str, logged: str, value: bool | int) -> None:
        self._argument = argument
        self._logged = logged
        self._value = value
        self._is_on = False
        self._made: list[Any] = []
        self._why_not = "the script makes no DistributedDataParallel"

    def install(self, job: JobView) -> None:
        def change(module: object, arguments: dict[str, Any]) -> None:
            job.safely(partial(self._change, module, arguments))

        change_arguments(DistributedDataParallel, 0, change)

    def switch(self, on: bool) -> None:
        self._is_on = on

    def took(self) -> LeverEffect:
        logs = [module._get_ddp_logging_data() for module in self._made]
        wanted = self._value * _MIB if self._argument == "bucket_cap_mb" else int(self._value)
        if not any(int(log.get(self._logged, -1)) == wanted for log in logs):
            return LeverEffect(False, self._why_not)
        sizes = next(log for log in logs).get("rebuilt_bucket_sizes") or logs[0].get("bucket_sizes", "")
        return LeverEffect(True, f"{self._argument}={self._value}; buckets of {sizes} bytes")

    def _change(self, module: object, arguments: dict[str, Any]) -> None:
        if not self._is_on:
            return
        default: bool | int = _DEFAULT_MB if self._argument == "bucket_cap_mb" else False
        given = arguments.get(self._argument)
        given = default if given is None else given
        if given == self._value:
            self._why_not = f"the script has {self._argument}={self._value} already"
        elif self._argument == "bucket_cap_mb" and _bytes(arguments["module"]) <= min(given, self._value) * _MIB:
            self._why_not = f"all gradients fit into one bucket of {min(given, self._value)} MiB"
        else:
            arguments[self._argument] = self._value
            self._made.append(module)


def _bytes(module: torch.nn.Module) -> int:
    trained = [parameter for parameter in torch.nn.Module.parameters(module) if parameter.requires_grad]
    return sum(parameter.numel() * parameter.element_size() for parameter in trained)
