"""What `torch.utils.data.DataLoader` delivers at best: batches of a data set that costs nothing.

An item is one tensor that is there already, as large as a picture of 224 x 224. So the time is that of putting 64 of
them together, of handing them over from a worker, and on CUDA of pinning them and copying them to the device.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from redline.calibration.bench import Samples
from redline.calibration.calibration_record import Declined, LoaderPoint

if TYPE_CHECKING:
    import torch

    from redline.calibration.device import ProbeDevice

_SHAPE = (3, 224, 224)
_BATCH = 64
_BATCH_BYTES = _BATCH * 3 * 224 * 224
_WORKERS, _QUICK_WORKERS = (0, 1, 2, 4, 8), (0, 1)
_PASSES, _QUICK_PASSES = 3, 2
_SAMPLES, _QUICK_SAMPLES = 6, 4
_SAMPLE_BATCHES = 4  # several workers hand over several batches at once, so that the time of a single one says little
_PREFETCHED = 2  # by each worker, before the first is asked for: torch's default
_TIMEOUT_S = 30.0
_LEAST_S = 3.0


def loader_points(
    device: ProbeDevice, *, quick: bool, noise: float, left_s: Callable[[], float] = lambda: inf
) -> tuple[tuple[LoaderPoint, ...], tuple[Declined, ...]]:
    """By number of workers, at most one for each processor. Workers that fail are declined.

    None is started when less time is left than they usually need.
    """
    samples: Samples[int] = Samples()
    processors = len(os.sched_getaffinity(0))
    counts = [count for count in (_QUICK_WORKERS if quick else _WORKERS) if count <= processors]
    for _ in range(_QUICK_PASSES if quick else _PASSES):
        for workers in counts:
            if left_s() < _LEAST_S:
                break
            timeout_s = min(_TIMEOUT_S, left_s())
            _take(samples, workers, device, _QUICK_SAMPLES if quick else _SAMPLES, timeout_s)
    samples.forget_single()
    return _points(samples, device, noise), samples.declines()


def _points(samples: Samples[int], device: ProbeDevice, noise: float) -> tuple[LoaderPoint, ...]:
    return tuple(
        LoaderPoint(
            workers=workers,
            pinned=device.is_cuda,
            batch_bytes=_BATCH_BYTES,
            batch_time_ns=samples.estimate(workers, noise),
        )
        for workers in sorted(samples.passes)
    )


def _take(samples: Samples[int], workers: int, device: ProbeDevice, count: int, timeout_s: float = _TIMEOUT_S) -> None:
    about = "data loader with 1 worker" if workers == 1 else f"data loader with {workers} workers"
    if about in samples.declined:
        return
    try:
        samples.add({workers: _batch_times_ns(workers, device, count, timeout_s)})
    except (RuntimeError, OSError) as error:  # no shared memory, no more processes, no answer in time
        samples.declined[about] = _cause(error)
    if about in samples.declined:
        gc.collect()  # the error and the loader hold each other; workers are ended when the loader is given up


def _batch_times_ns(workers: int, device: ProbeDevice, count: int, timeout_s: float) -> list[float]:
    """After the workers have started, and what they had ready by then is used up."""
    ready = _PREFETCHED * workers + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons mind forks beside threads; torch does so
        batches = iter(_loader(workers, device, ready + count * _SAMPLE_BATCHES, timeout_s))
    for _ in range(ready):
        next(batches)
    times_ns = [device.timed_ns(partial(_next_on_device, batches, device), _SAMPLE_BATCHES) for _ in range(count)]
    for _ in batches:
        raise AssertionError("a batch is left")
    return times_ns  # the loader found its end, and there it ends its workers


def _next_on_device(batches: Any, device: ProbeDevice) -> torch.Tensor:
    batch: torch.Tensor = next(batches)
    return batch.to(device.torch_device, non_blocking=True)


def _loader(
    workers: int, device: ProbeDevice, batches: int, timeout_s: float = _TIMEOUT_S
) -> torch.utils.data.DataLoader[torch.Tensor]:
    import torch

    items: Any = _Items(torch.ones(_SHAPE, dtype=torch.uint8), batches * _BATCH)
    return torch.utils.data.DataLoader(
        items,
        batch_size=_BATCH,
        num_workers=workers,
        pin_memory=device.is_cuda,
        timeout=timeout_s if workers else 0,
        prefetch_factor=_PREFETCHED if workers else None,
    )


class _Items:
    """A data set whose items are all the same tensor."""

    def __init__(self, item: torch.Tensor, count: int) -> None:
        self._item, self._count = item, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> torch.Tensor:
        return self._item


def _cause(error: Exception) -> str:
    """The last line: torch puts the traceback of the worker before it."""
    lines = str(error).strip().split("\n")
    return (lines[-1].strip() or type(error).__name__)[:200]
