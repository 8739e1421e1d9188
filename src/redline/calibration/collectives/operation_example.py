"""What every rank held before and after a collective on a few numbers, as teaching material."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OperationExample:
    """One operation, on tensors small enough to be read."""

    operation: str
    before: tuple[tuple[int, ...], ...]
    """By rank; empty where a rank gives nothing."""
    after: tuple[tuple[int, ...] | None, ...]
    """By rank; empty where a rank gets nothing, None where what its tensor holds is not defined."""
    correct: bool
    """Whether all of it is what the definition says."""
