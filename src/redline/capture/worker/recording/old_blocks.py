"""Keeps torch's warning about memory that is older than its recording out of the job's stderr.

Of such blocks that are freed while memory is recorded, torch's CPU allocator warns of the first and then of every
thousandth. The warning is caused at the beginning of a window, where nobody reads it. Then it comes no more unless a
script frees almost a thousand of them in one window.
"""

from __future__ import annotations

import torch

from redline.capture.worker.recording.silence_kineto import hushed

_EVERY = 1000
_AT_ONCE = 50
_WARNING = b"Memory block of unknown size"


class OldBlocks:
    """Blocks from before a recording; each that is freed in it counts towards the next warning."""

    def __init__(self) -> None:
        self._blocks = [torch.UntypedStorage(1) for _ in range(_EVERY)]

    def use_up_warning(self) -> None:
        """Free blocks until torch has warned. What is left of them must live until memory is recorded no more."""
        with hushed() as said:
            del self._blocks[-1:]
            while self._blocks and _WARNING not in said():
                del self._blocks[-_AT_ONCE:]

    def keep(self) -> None:
        """Never free them: where a child was forked in a window, its memory counts as recorded until it ends."""
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._blocks))
