"""Keeps what the profiler's C++ code says about itself out of the job's stderr, without losing anybody else's words."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager, suppress

from redline.capture.process import files_may_end_us

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


@contextmanager
def hushed() -> Iterator[Callable[[], bytes]]:
    """Lines of the profiler that reach stderr meanwhile are dropped, all others follow afterwards. Gives what has
    reached it so far."""
    ends, said = _in_a_pipe() if files_may_end_us() else _in_memory()
    try:
        real = os.dup(_STDERR)
    except OSError as error:
        _close(ends)
        if error.errno != errno.EBADF:
            raise
        yield lambda: b""  # it is closed
        return
    try:  # from the first change on: a signal handler of the script may raise anywhere
        os.dup2(ends[-1], _STDERR)
        yield said
    finally:
        os.dup2(real, _STDERR)
        os.close(real)
        _pass_on(said())
        _close(ends)


def _in_memory() -> tuple[tuple[int, ...], Callable[[], bytes]]:
    file = os.memfd_create("redline-stderr")
    return (file,), lambda: os.pread(file, os.fstat(file).st_size, 0)


def _in_a_pipe() -> tuple[tuple[int, ...], Callable[[], bytes]]:
    """A file in memory is one that has the limit of the size of files. This holds 64 KiB."""
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    heard = bytearray()

    def said() -> bytes:
        with suppress(BlockingIOError):
            while part := os.read(ends[0], 1 << 16):
                heard.extend(part)
        return bytes(heard)

    return ends, said


def _close(ends: tuple[int, ...]) -> None:
    for end in ends:
        os.close(end)


def _pass_on(said: bytes) -> None:
    rest = b"".join(line for line in said.splitlines(keepends=True) if not _ITS_OWN.match(line))
    while rest:
        rest = rest[os.write(_STDERR, rest) :]
