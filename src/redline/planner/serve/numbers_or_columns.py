"""Numbers and columns of numbers, alike: the arithmetic of serving does not tell one deployment from many."""

import numpy as np

from redline.model.model import Column, Number


def column(value: Number) -> Column:
    return np.atleast_1d(np.asarray(value, dtype=np.float64))


def ratio(above: Number, below: Number) -> Column:
    """above / below, and 0 where there is nothing below."""
    above, below = column(above), column(below)
    out: Column = np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below != 0)
    return out
