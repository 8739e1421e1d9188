"""Distinct rows of a few columns of whole numbers."""

import math

import numpy as np

from redline.timeline.table import I64, Column

_MOST_PER_ROW = 4  # possible keys, to be counted instead of sorted


def distinct(*columns: Column) -> tuple[I64, I64]:
    """The distinct rows, as [column, row], and for each row which of them it is; columns are of one length."""
    table = np.stack([column.astype(np.int64, copy=False) for column in columns])
    if not table.shape[1]:
        return table, np.empty(0, np.int64)
    least = table.min(axis=1)
    spans = (table.max(axis=1) - least + 1).tolist()
    if math.prod(spans) >= 2**62:
        rows, which = np.unique(table, axis=1, return_inverse=True)
        return rows, which.reshape(-1).astype(np.int64)
    # One number for each row: sorting numbers is many times faster than sorting rows.
    key = np.zeros(table.shape[1], np.int64)
    for column, low, span in zip(table, least.tolist(), spans, strict=True):
        key = key * span + (column - low)
    keys, which = _numbered(key, math.prod(spans))
    rows = np.empty((len(columns), len(keys)), np.int64)
    for place in reversed(range(len(columns))):
        keys, rest = np.divmod(keys, spans[place])
        rows[place] = rest + least[place]
    return rows, which


def _numbered(key: I64, end: int) -> tuple[I64, I64]:
    """The distinct keys, of which all are below an end, and for each its number; counted, where that beats sorting."""
    if end > _MOST_PER_ROW * len(key):
        keys, which = np.unique(key, return_inverse=True)
        return keys, which.astype(np.int64)
    is_there = np.zeros(end, bool)
    is_there[key] = True
    return np.flatnonzero(is_there), np.cumsum(is_there)[key] - 1
