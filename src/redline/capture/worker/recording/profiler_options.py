"""Settings of torch.profiler that not every version of torch has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def experimental_options(*, stacks: bool, on_device: bool) -> Any:
    """As many of the wished ones as this torch knows; None where it has no such settings at all, or no device.

    Without a device there are no streams to wait for, and torch 2.13 keeps 20 kB of each window for ever when it is
    given any of these settings.

    Events of synchronisation (torch 2.1) say which stream waits for which event. With `trace_only` (torch 2.13) no
    Python object is made of every event; stacks need those.
    """
    if not on_device:
        return None
    try:
        from torch._C._profiler import _ExperimentalConfig
    except ImportError:
        return None
    waits: dict[str, Any] = {"enable_cuda_sync_events": True}
    for options in ({**waits, "trace_only": not stacks}, waits, {}):
        try:
            return _ExperimentalConfig(**options)
        except TypeError:  # it does not know one of them
            continue
    return None
