"""Children that the script forks: they end as they would without us, and its signals speak of nobody else's."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from contextlib import contextmanager

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class OrderlyEnd:
    """Lets a forked child end once a profiler has been on in its parent.

    The profiler keeps a thread, which the child does not have; a destructor of the C++ library waits for that thread
    when the child exits in the orderly way, and would wait for ever. So such a child flushes what it has to flush and
    leaves before destructors run, as children of `multiprocessing` do.
    """

    def __init__(self) -> None:
        self._libc: ctypes.CDLL | None = None

    def prepare(self) -> None:
        """In the process that profiles, so that nothing is left to load in the child."""
        if self._libc is None:
            libc = ctypes.CDLL(None)
            if hasattr(libc, "on_exit") and hasattr(libc, "__cxa_atexit"):
                self._libc = libc

    def arrange(self) -> None:
        """In the child. What is registered last is called first: flush the streams of C, then leave with the status."""
        libc = self._libc
        if libc is not None:
            libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
            flush_all = ctypes.cast(libc.fflush, ctypes.c_void_p)
            getattr(libc, "__cxa_atexit")(flush_all, None, None)  # written out, its name would be mangled


@contextmanager
def untold() -> Iterator[None]:
    """Meanwhile a child of ours may end without the script's handler of SIGCHLD being called for it."""
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler)
        if _has_ended_child():  # one of the script's own, of which it was not told
            signal.raise_signal(signal.SIGCHLD)


def _has_ended_child() -> bool:
    with tolerated(ChildProcessError):
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False
