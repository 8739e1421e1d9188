"""Lever `cudnn-benchmark`: cuDNN tries its algorithms for each new shape of a convolution."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.lever import JobView, LeverEffect

_CONVOLUTIONS = (torch.nn.modules.conv._ConvNd,)


class CudnnBenchmark:
    """It is for models with convolutions on CUDA devices only."""

    def __init__(self, value: str) -> None:
        self._scripts = torch.backends.cudnn.benchmark
        self._is_on = False
        self._has_convolutions = False

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            self._has_convolutions |= any(
                isinstance(module, _CONVOLUTIONS) and module.weight.is_cuda for module in root.modules()
            )

        job.each_root(found)

    def switch(self, on: bool) -> None:
        if on:
            self._scripts = self._scripts if self._is_on else torch.backends.cudnn.benchmark
            torch.backends.cudnn.benchmark = True
        elif self._is_on:
            torch.backends.cudnn.benchmark = self._scripts
        self._is_on = on

    def took(self) -> LeverEffect:
        if self._scripts:
            return LeverEffect(False, "the script has switched it on already")
        if not self._has_convolutions:
            return LeverEffect(False, "there are no convolutions on a CUDA device")
        return LeverEffect(True, "cuDNN tries its algorithms")
