"""The device that is measured, and how a call on it is timed."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING

from redline import __version__
from redline.calibration.calibration_record import DeviceInfo
from redline.capture.supervisor.environment import processor_name
from redline.errors import InputError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


class ProbeDevice:
    """A CPU or one CUDA device. `timed_ns` is the only clock of the probes."""

    def __init__(self, kind: str = "") -> None:
        import torch

        self.kind = kind or ("cuda" if torch.cuda.is_available() else "cpu")
        self.torch_device: torch.device = torch.device(self.kind)

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def synchronise(self) -> None:
        if self.is_cuda:
            import torch

            torch.cuda.synchronize()

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        """Nanoseconds for one of `repeats` calls in a row, until the device has done them all."""
        if self.is_cuda:
            return self._on_device_ns(call, repeats)
        count = range(repeats)
        began_ns = time.perf_counter_ns()
        for _ in count:
            call()
        return (time.perf_counter_ns() - began_ns) / repeats

    def _on_device_ns(self, call: Callable[[], object], repeats: int) -> float:
        """By the device's own clock: what the host needs to launch is not in it unless the device waits for it."""
        import torch

        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(repeats):
            call()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) * 1e6 / repeats

    def free_bytes(self) -> int:
        """Memory that a probe may take."""
        if self.is_cuda:
            import torch

            return int(torch.cuda.mem_get_info()[0])
        from redline.capture.process import available_bytes

        return available_bytes()

    def refuse_unless_usable(self) -> None:
        """A driver may list a device that is taken by others, broken, or too new or too old for this torch."""
        import torch

        try:
            torch.ones(1, device=self.torch_device).add_(1)
            self.synchronise()
        except Exception as error:
            hint = "free it, or set CUDA_VISIBLE_DEVICES= (to nothing) to measure the CPU"
            raise InputError(f"calibrate: the GPU cannot be used: {first_line(error)}\n{hint}") from error


def subject_of(device: ProbeDevice) -> DeviceInfo:
    import torch

    name, memory_bytes, multiprocessors = _of_cuda() if device.is_cuda else _of_cpu()
    return DeviceInfo(
        name=name,
        kind=device.kind,
        memory_bytes=memory_bytes,
        multiprocessors=multiprocessors,
        cores=len(os.sched_getaffinity(0)),
        threads=torch.get_num_threads(),
        host=platform.node(),
        software=tuple(_software()),
    )


def _of_cuda() -> tuple[str, int, int]:
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return properties.name, properties.total_memory, properties.multi_processor_count


def _of_cpu() -> tuple[str, int, int]:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return processor_name() or "CPU", memory_bytes, 0


def _software() -> list[tuple[str, str]]:
    import torch

    versions = [("redline", __version__), ("torch", str(torch.__version__)), ("python", platform.python_version())]
    versions += [("cuda", str(torch.version.cuda))] if torch.version.cuda else []
    versions += [("hip", str(torch.version.hip))] if torch.version.hip else []
    return [*versions, ("system", f"{platform.system()} {platform.release()}")]
