"""Keeps what the profiler's C++ code says about itself out of the job's stderr, without losing anybody else's words."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ITS_OWN = re.compile(
    rb"(?:USDT|UST|INFO|STAGE|WARNING|ERROR|VERBOSE):.*\.cpp:\d+\]"
    rb"|Failed to read process name for pid "
    rb"|ERROR: External init callback must run in same thread "  # the first window, in another thread than the import
    rb"|\[W\d{4} [\d:.]+ (?:collection|profiler_kineto|record_function|observer|kineto_\w+)\.cpp:\d+\]"
    rb"|\[W\d{4} [\d:.]+ CPUAllocator\.cpp:\d+\] Memory block of unknown size"
)
_STDERR = 2
_MOST_BYTES = 1 << 20


@contextmanager
def hushed() -> Iterator[Callable[[], bytes]]:
    """Lines of the profiler that reach stderr meanwhile are dropped, all others follow afterwards. Gives what has
    reached it so far."""
    aside = os.memfd_create("redline-stderr")
    try:
        real = os.dup(_STDERR)
    except OSError as error:
        os.close(aside)
        if error.errno != errno.EBADF:
            raise
        yield lambda: b""  # it is closed
        return
    try:  # from the first change on: a signal handler of the script may raise anywhere
        os.dup2(aside, _STDERR)
        yield lambda: os.pread(aside, _MOST_BYTES, 0)
    finally:
        os.dup2(real, _STDERR)
        os.close(real)
        _pass_on(aside)
        os.close(aside)


def _pass_on(aside: int) -> None:
    size = os.lseek(aside, 0, os.SEEK_END)
    if size:
        lines = os.pread(aside, size, 0).splitlines(keepends=True)
        rest = b"".join(line for line in lines if not _ITS_OWN.match(line))
        while rest:
            rest = rest[os.write(_STDERR, rest) :]
