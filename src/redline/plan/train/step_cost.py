"""The predicted cost of steps: time by what it is spent on, memory by what it holds. Columns, one row per layout."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of a step on the slowest stage, by cause. The parts are exclusive: they add up to the step."""

    compute_s: Column
    """Kernels of the forward and backward pass, without what is computed again."""
    recompute_s: Column
    host_s: Column
    """What launching takes beyond what the device needs."""
    head_s: Column
    """Logits and loss."""
    tensor_s: Column
    """Exposed traffic of tensor parallelism."""
    context_s: Column
    expert_s: Column
    pipeline_s: Column
    """Exposed sends between stages."""
    bubble_s: Column
    """Waiting for other stages."""
    gather_s: Column
    """Exposed gathering of weights and scattering of gradients (ZeRO-3)."""
    reduce_s: Column
    """Exposed reduction of gradients, and gathering of updated weights (ZeRO-1)."""
    optimizer_s: Column
    offload_s: Column

    @property
    def step_s(self) -> Column:
        total: Column = np.sum(np.broadcast_arrays(*(getattr(self, f.name) for f in fields(StepTime))), axis=0)
        return total


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """Bytes on the fullest device at the peak of a step, by what they hold."""

    weights_bytes: Column
    gradients_bytes: Column
    optimizer_bytes: Column
    activations_bytes: Column
    head_bytes: Column
    """Logits, their gradient and what the loss keeps."""
    gathers_bytes: Column
    """Whole layers or buckets that are put together for a moment."""
    temporaries_bytes: Column
    """Of the optimizer's step, where that is the peak; and workspaces of libraries."""
    communicators_bytes: Column
    allocator_bytes: Column
    """What the allocator holds beyond what is asked of it."""

    @property
    def peak_bytes(self) -> Column:
        total: Column = np.sum(np.broadcast_arrays(*(getattr(self, f.name) for f in fields(MemoryUse))), axis=0)
        return total

    @property
    def reserved_bytes(self) -> Column:
        """What the allocator holds: torch's "reserved"."""
        return self.peak_bytes - self.communicators_bytes

    @property
    def allocated_bytes(self) -> Column:
        """What the job asked of the allocator: torch's "allocated"."""
        return self.reserved_bytes - self.allocator_bytes


# --- rows of columns --------------------------------------------------------------------------------------------------


Value = TypeVar("Value")
Rows = NDArray[np.intp] | NDArray[np.bool_]


def rows_of(value: Value, rows: Rows) -> Value:
    """The same value with these rows of every column; fields that are single numbers stay as they are."""
    return _with_columns(value, lambda column: column[rows])


def row_of(value: Value, row: int) -> Value:
    """The value of one row: every column becomes a number."""
    return _with_columns(value, lambda column: column[row].item())


def _with_columns(value: Value, taken: Callable[[NDArray[np.float64]], object]) -> Value:
    """Columns of the records that it has as well."""
    parts = {field.name: getattr(value, field.name) for field in fields(value)}  # type: ignore[arg-type]
    columns = {
        name: taken(part) if isinstance(part, np.ndarray) else _with_columns(part, taken)
        for name, part in parts.items()
        if (isinstance(part, np.ndarray) and part.ndim) or is_dataclass(part)
    }
    return replace(value, **columns)  # type: ignore[type-var]
