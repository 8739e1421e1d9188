"""`redline plan validate`: how well plans predict the published measurements that are in the package."""

from __future__ import annotations

from redline.planner.validation.validate import (
    Scatter,
    Validation,
    memory_points,
    serving_points,
    step_points,
    validate,
)

__all__ = ["Scatter", "Validation", "memory_points", "serving_points", "step_points", "validate"]
