"""Memory that this process has used on its accelerator, and what filled it when there was none left."""

from __future__ import annotations

import os

import torch

from redline.capture.process import peak_bytes
from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.recording.writer import room_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.process_context import ProcessContext

_MOST_TENSORS = 20
_MOST_EVENTS = 100_000  # of the allocator: some ten steps, and about 50 MB of the host's memory


def uses_cuda() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def of_allocator() -> dict[str, int]:
    """Counters of the accelerator's allocator; asking it costs no synchronisation."""
    if not uses_cuda():
        return {}
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")
    return {name: int(stats.get(name, 0)) for name in names}


def most_bytes() -> int:
    """The most that the job has needed of the memory that it can run out of: the accelerator's, else the process's."""
    return of_allocator().get("reserved_bytes.all.peak", 0) or peak_bytes()


def record_history() -> None:
    """Every event of CUDA's allocator with its stack, from when the job first uses CUDA: a snapshot then tells why
    memory ran out. Where the script records by itself, it stays as the script has it."""

    def begin() -> None:
        with tolerated(Exception):  # it is called by torch as it initialises CUDA: what fails there fails the job
            is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
            if is_on is None or not is_on():
                torch.cuda.memory._record_memory_history(stacks="python", max_entries=_MOST_EVENTS)

    torch.cuda._lazy_call(begin)


def ran_out(error: BaseException | None) -> bool:
    """The process ended with this."""
    if error is None:
        return False
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def largest_tensors() -> list[dict[str, object]]:
    """Live tensors by shape and type, the largest first: they filled the memory."""
    import gc

    found: dict[tuple[tuple[int, ...], str, int], int] = {}
    for tracked in gc.get_objects():
        if type(tracked) in (torch.Tensor, torch.nn.Parameter):
            key = (
                tuple(tracked.shape),
                str(tracked.dtype).removeprefix("torch."),
                tracked.element_size() * tracked.numel(),
            )
            found[key] = found.get(key, 0) + 1
    largest = sorted(found.items(), key=lambda item: -item[0][2] * item[1])[:_MOST_TENSORS]
    return [
        {"shape": list(shape), "type": kind, "bytes": size, "count": count} for (shape, kind, size), count in largest
    ]


def dump_snapshot(context: ProcessContext) -> str:
    """Every block of CUDA's allocator, as PyTorch's own viewer reads it; its name in the folder, or "" without one."""
    settings = context.settings
    if not settings.folder or room_bytes(settings.folder, settings.disk_bytes, settings.free_bytes) <= 0:
        return ""
    name = f"memory-rank-{settings.rank}.pickle"
    part = f"{settings.folder}/{name}.part"
    torch.cuda.memory._dump_snapshot(part)
    os.replace(part, f"{settings.folder}/{name}")  # noqa: PTH105
    return name
