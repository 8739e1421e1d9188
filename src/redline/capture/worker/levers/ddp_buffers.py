"""Lever `no-broadcast-buffers`: ranks of DistributedDataParallel keep buffers of their own."""

from __future__ import annotations

from functools import wraps

from torch.nn.parallel import DistributedDataParallel

from redline.capture.worker.levers.lever import JobView, LeverEffect


class OwnBuffers:
    """DDP asks before each forward pass whether it is to broadcast them; all ranks answer the same."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._passes = 0
        self._kept = 0  # passes before which buffers would have been sent
        self._buffers = 0

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

    def switch(self, on: bool) -> None:
        self._is_on = on
        if on:
            self._passes = self._kept = 0

    def took(self) -> LeverEffect:
        if self._kept:
            return LeverEffect(True, f"{self._buffers} buffers are not broadcast")
        nothing = "DDP broadcasts no buffers" if self._passes else "no DistributedDataParallel was called"
        return LeverEffect(False, nothing)
