"""Values of a plan as JSON has them: dataclasses as objects, numbers of NumPy as numbers, null for what is infinite."""

from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """null where a number is infinite or none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> float | int | None:
    """Layouts count in whole numbers, although they are columns of floats."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
