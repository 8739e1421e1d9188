"""What is measured: the device by the name that it gives itself, its memory, and the software around it."""

from __future__ import annotations

import os
import platform

from redline import __version__
from redline.calibration.calibration_record import DeviceInfo
from redline.calibration.device import ProbeDevice
from redline.capture.supervisor.environment import processor_name


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
