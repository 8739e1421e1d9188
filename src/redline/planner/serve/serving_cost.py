"""The predicted cost of serving, in columns: one row per deployment. Times are in parts by cause that add up."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from redline.model.model import Column


class ServingLimit(IntEnum):
    """Which roof takes the most of a time."""

    COMPUTE = 0
    MEMORY = 1
    COMMUNICATION = 2
    OVERHEAD = 3


@dataclass(frozen=True, kw_only=True)
class PassTime:
    """Seconds of one pass through the model. The parts are exclusive."""

    compute_s: Column
    """Of kernels that the peak limits."""
    memory_s: Column
    """Of kernels that reading weights or caches limits."""
    communication_s: Column
    overhead_s: Column
    """Launches, tiny kernels, host, sampling."""

    @property
    def parts(self) -> tuple[Column, ...]:
        return tuple(np.broadcast_arrays(self.compute_s, self.memory_s, self.communication_s, self.overhead_s))

    @property
    def total_s(self) -> Column:
        total: Column = np.sum(self.parts, axis=0)
        return total

    @property
    def limit(self) -> Column:
        """Which Limit, per row."""
        most: Column = np.argmax(np.stack(self.parts), axis=0).astype(np.float64)
        return most

    def times(self, factor: Column) -> "PassTime":
        return PassTime(
            compute_s=self.compute_s * factor,
            memory_s=self.memory_s * factor,
            communication_s=self.communication_s * factor,
            overhead_s=self.overhead_s * factor,
        )

    def plus(self, other: "PassTime") -> "PassTime":
        return PassTime(
            compute_s=self.compute_s + other.compute_s,
            memory_s=self.memory_s + other.memory_s,
            communication_s=self.communication_s + other.communication_s,
            overhead_s=self.overhead_s + other.overhead_s,
        )


@dataclass(frozen=True, kw_only=True)
class ServeOutcome:
    """Of one copy of the model, under steady traffic."""

    batch: Column
    """Sequences in a decode step: what is asked for, or what memory has room for."""
    most: Column
    """Sequences that memory has room for at once."""
    fits: Column
    """1 where the weights and at least one sequence have room."""
    ttft_s: Column
    """Mean time to the first token, with waiting."""
    tpot_s: Column
    """Mean time per further token, with the prompts of others that come between."""
    step: PassTime
    """One decode step alone."""
    prompt: PassTime
    """The pass over one prompt alone."""
    tokens_per_s: Column
    """Output tokens of the copy."""
    tokens_per_s_device: Column
    tokens_per_s_user: Column
    latency_s: Column
    """Mean time from a request to its last token."""
    weights_bytes: Column
    """Per device."""
    cache_bytes: Column
    """Per device, when `batch` sequences are half way through their output."""
