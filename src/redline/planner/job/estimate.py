"""A quantity that is not known exactly: the likely value between a low and a high one."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ThreePointEstimate:
    """low <= likely <= high."""

    low: float
    likely: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "ThreePointEstimate":
        return cls(value, value, value)

    def times(self, factor: float) -> "ThreePointEstimate":
        return self.map(lambda value: value * factor)

    def divided_by(self, other: "ThreePointEstimate") -> "ThreePointEstimate":
        """From the least to the most that the two allow; infinite where something is divided by nothing."""
        return ThreePointEstimate(
            _ratio(self.low, other.high), _ratio(self.likely, other.likely), _ratio(self.high, other.low)
        )

    def map(self, rising: Callable[[float], float]) -> "ThreePointEstimate":
        """What a function that only rises makes of it."""
        return ThreePointEstimate(rising(self.low), rising(self.likely), rising(self.high))


def _ratio(value: float, divisor: float) -> float:
    return value / divisor if divisor else float("inf")
