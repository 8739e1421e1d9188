"""Lets the watcher ask this process where it stands: a signal that nobody else uses dumps all Python stacks.

The handler is C code of faulthandler: it needs neither the interpreter lock nor the main thread, so it answers from a
process that hangs. Nothing happens until the watcher asks.
"""

from __future__ import annotations

import faulthandler
import os
import signal

from redline.capture.process import out_of_the_way
from redline.capture.shared_state import STACKS_FD, ProcessSlot

STACKS_SIGNAL = signal.SIGRTMAX - 3
STACKS_NAME = "redline-stacks"
_FEW_FILES = 256  # that a process may have open: below, all of them are the script's


def has_few_files() -> bool:
    """A file of ours could be one too many (`ulimit -n`)."""
    return os.sysconf("SC_OPEN_MAX") < _FEW_FILES


def answer_with_stacks(slot: ProcessSlot) -> None:
    if has_few_files() or signal.getsignal(STACKS_SIGNAL) is not signal.SIG_DFL:
        return
    descriptor = out_of_the_way(os.memfd_create(STACKS_NAME))
    os.set_blocking(descriptor, False)
    faulthandler.register(STACKS_SIGNAL, file=descriptor, all_threads=True, chain=False)
    slot.words[STACKS_FD] = descriptor
