"""Lever `matmul-precision`: products of float32 matrices may be computed in a lower precision."""

from __future__ import annotations

import torch

from redline.capture.worker.levers.lever import JobView, LeverEffect

_SIZE = 256  # of a product that shows whether anything changes


class MatmulPrecision:
    """Many devices have no such mode: whether bits change is tried on the devices of the job."""

    def __init__(self, value: str) -> None:
        self._wanted = value
        self._scripts = torch.get_float32_matmul_precision()
        self._is_on = False
        self._devices: dict[torch.device, bool] = {}

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            for parameter in torch.nn.Module.parameters(root):
                if parameter.device not in self._devices:
                    self._devices[parameter.device] = self._changes_bits(parameter.device)
            if self._is_on:
                self.switch(True)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        now = torch.get_float32_matmul_precision()
        if on:
            self._scripts = now if now != self._wanted else self._scripts
            torch.set_float32_matmul_precision(self._wanted)
        elif self._is_on:
            torch.set_float32_matmul_precision(self._scripts)
        self._is_on = on

    def took(self) -> LeverEffect:
        if self._scripts == self._wanted:
            return LeverEffect(False, f"the script has precision {self._wanted!r} already")
        changed = sorted({device.type for device, changes in self._devices.items() if changes})
        if changed:
            return LeverEffect(True, f"float32 products on {', '.join(changed)} have other bits")
        devices = ", ".join(sorted({device.type for device in self._devices})) or "any device"
        return LeverEffect(False, f"float32 products have the same bits on {devices}")

    def _changes_bits(self, device: torch.device) -> bool:
        before = torch.get_float32_matmul_precision()
        products = []
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            square = torch.linspace(-1, 1, _SIZE * _SIZE, device=device, dtype=torch.float32).reshape(_SIZE, _SIZE)
            for precision in ("highest", self._wanted):
                torch.set_float32_matmul_precision(precision)
                products.append(square @ square)
        torch.set_float32_matmul_precision(before)
        return not torch.equal(*products)
