"""A memory timeline that torch exported (`export_memory_timeline` to raw.json.gz): changes of bytes by category."""

from pathlib import Path

import msgspec
import numpy as np

from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.table import I64, Column, Table, column
from redline.trace.inflate import Limits, contents

_LIMITS = Limits(inflated_bytes=1 << 30)
_BEGINNING = b"[["
_CHANGE = tuple[int, int, int, int]  # when, what, how many bytes more or less, of which category
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "none")
"""As torch numbers them."""


class MemoryChanges(Table):
    """In the order of time; what was there before the recording comes first."""

    at_ns: I64 = column(np.int64)
    bytes: I64 = column(np.int64)
    category: Column = column(np.int64)


def looks_like_memory_timeline(path: Path) -> bool:
    """Whether a file begins as a list of lists; InputError where it cannot be opened."""
    try:
        for content in contents(path, _LIMITS):
            return content.stream.read(len(_BEGINNING)) == _BEGINNING
    except OSError:
        return False
    return False


def read_memory_timeline(path: Path) -> MemoryChanges:
    """InputError, in one line, where the file is damaged."""
    for content in contents(path, _LIMITS):
        pieces = []
        while piece := content.stream.read(1 << 20):
            pieces.append(piece)
        try:
            changes = np.array(msgspec.json.decode(b"".join(pieces), type=list[_CHANGE]), np.int64).reshape(-1, 4)
        except (msgspec.MsgspecError, OverflowError, ValueError) as error:
            raise RefusedInputError(f"{path}: not a whole memory timeline of torch ({error}).") from error
        is_known = (changes[:, 3] >= 0) & (changes[:, 3] < len(CATEGORIES)) & (np.abs(changes[:, 2]) < 1 << 50)
        if not is_known.all() or not len(changes):
            raise InputError(f"{path}: a memory timeline with categories or sizes that torch does not write.")
        order = np.argsort(changes[:, 0], kind="stable")
        return MemoryChanges(at_ns=changes[order, 0], bytes=changes[order, 2], category=changes[order, 3])
    raise NotATraceError(f"{path}: the file is empty.")
