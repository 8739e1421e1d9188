"""The devices that did the work of a trace."""

import numpy as np

from redline.timeline.table import I64
from redline.timeline.timeline import BUSY_KINDS, Device, Timeline


def device_rows(timeline: Timeline) -> I64:
    """Rows of the work that keeps a device busy."""
    rows = timeline.device_work.row.astype(np.int64)
    return rows[np.isin(timeline.spans.kind[rows], np.array(BUSY_KINDS, np.uint8))]


def devices_of(timeline: Timeline) -> tuple[Device, ...]:
    """The devices that did work, in order; those without a name are left out."""
    used = {timeline.lanes[lane].device for lane in np.unique(timeline.spans.lane[device_rows(timeline)]).tolist()}
    devices = tuple(device for device in _named_devices(timeline) if device.id in used)
    # ROCm numbers devices in two ways; where all are alike it does not matter.
    return devices or (alike_device(timeline) if used else ())


def alike_device(timeline: Timeline) -> tuple[Device, ...]:
    """One of the devices that the trace lists, if all of them have the same name."""
    named = _named_devices(timeline)
    return named[:1] if len({device.name for device in named}) == 1 else ()


def _named_devices(timeline: Timeline) -> tuple[Device, ...]:
    return tuple(device for device in sorted(timeline.metadata.devices, key=lambda device: device.id) if device.name)
