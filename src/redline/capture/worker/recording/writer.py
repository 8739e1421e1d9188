"""Writes a window's trace beside the job: in a child that nobody waits for, under another name until it is whole.

The child is a fork, so that turning events into JSON does not hold the interpreter lock of the job. It is an orphan
from the start: the script may wait for its own children as it likes. Where a fork is not wanted or not wise,
the JSON is written in place and only compressed in a child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from posix import fork  # the script may have another in its place

from redline.artifacts.masking import JsonMasker
from redline.capture import shared_state as at
from redline.capture.process import (
    FIRST_FOR_THE_OOM_KILLER,
    available_bytes,
    files_may_end_us,
    open_file,
    resident_bytes,
)
from redline.capture.shared_state import window_name
from redline.capture.worker.exception_origin import raised_afterwards, tolerated
from redline.capture.worker.process_context import process_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from redline.capture.settings import Settings
    from redline.capture.worker.process_context import ProcessContext

_PINNED_PAGES_SURVIVE_FORKS = (5, 10)  # before this kernel, memory registered with a network card might not
_CHUNK_BYTES = 1 << 20
_GZIP = 31  # window bits of zlib that stand for a gzip file
_LEVEL = 1  # a third larger than the default, in a seventh of the time


def write_detached(
    context: ProcessContext, number: int, export: Callable[[str], None], member: Callable[[], bytes]
) -> None:
    """Have `export` write the JSON of window `number` to a path, and leave the compressed trace in the run's folder.

    `member` gives one more member of the trace's object, as text. It is asked in the child.
    """
    settings = context.settings
    folder = f"{settings.folder}/{window_name(number)}"
    distributed = process_group()
    rank = settings.rank if distributed is None else int(distributed.get_rank())
    target = f"{folder}/rank-{rank}.trace.json.gz"
    if settings.fork and _may_fork():
        _in_a_child(context, number, lambda: _write(context, number, export, target, member))
    else:
        raw = _export(context, export, target)
        _in_a_child(context, number, lambda: _compress(context, number, raw, target, member))


def _may_fork() -> bool:
    """Not on kernels that break pinned memory, nor where copies of touched pages could exhaust the machine."""
    release = os.uname().release.split(".")
    with tolerated(ValueError, IndexError, OSError):
        if (int(release[0]), int(release[1])) < _PINNED_PAGES_SURVIVE_FORKS:
            return False
        return 2 * resident_bytes() < available_bytes()
    return False


def _in_a_child(context: ProcessContext, number: int, work: Callable[[], None]) -> None:
    """Fork twice: the one that does the work is a stranger to this process, which waits for the other only."""
    with raised_afterwards(), untold():
        child = _fork()
        if child == 0:
            try:
                writer = fork()
                if writer == 0:
                    _alone(context, number, work)
                else:  # known before the job goes on, which may be killed at once
                    context.slot.window(number)[at.EXPORTER] = writer
            except OSError:  # no process is left to have
                context.slot.window(number)[at.STATE] = at.LOST_ERROR
            finally:
                os._exit(0)
        with tolerated(ChildProcessError):  # the script waits for any child
            os.waitpid(child, 0)


def _fork() -> int:
    """Without the warning of newer Pythons about forks of processes with threads: the child touches none of them.

    Python's own way to ignore a warning would make it forget which ones the script has seen, and show them again.
    """
    import warnings

    filters: Any = warnings.filters
    ignored = ("ignore", None, DeprecationWarning, None, 0)
    filters.insert(0, ignored)
    lock = getattr(sys.modules.get("logging"), "_lock", None)
    was_taken = lock is not None and lock._is_owned()
    try:
        return fork()
    finally:
        # It is taken around a fork, before Python 3.13 by functions in Python: what a signal handler raises in the
        # second one leaves it taken, and all other threads that log would wait for ever.
        if lock is not None and not was_taken and lock._is_owned():
            lock.release()
        with tolerated(ValueError):  # another thread has changed them meanwhile
            filters.remove(ignored)


def _alone(context: ProcessContext, number: int, work: Callable[[], None]) -> None:
    window = context.slot.window(number)
    _let_go()
    began_ns = time.perf_counter_ns()
    try:
        work()
    except NotWritten as error:
        window[at.STATE] = error.state
    except OSError:
        window[at.STATE] = at.LOST_SPACE
    except BaseException:  # noqa: BLE001 (nobody is left to raise to)
        window[at.STATE] = at.LOST_ERROR
    window[at.WRITING_CPU_NS] = time.process_time_ns()
    window[at.WRITING_NS] = time.perf_counter_ns() - began_ns  # the last thing that it does


def _let_go() -> None:
    """Hold nothing of the job's: peers must see its connections close, readers the end of its output.

    Signals to its group are for the job, and torchrun ends whole groups. The watcher ends us if need be.
    """
    import resource
    import signal

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, min(most, 1 << 20))
    os.nice(5)
    with suppress(OSError), open_file("/proc/self/oom_score_adj", "w") as file:  # where memory runs out, not the job
        file.write(FIRST_FOR_THE_OOM_KILLER)


def _write(
    context: ProcessContext, number: int, export: Callable[[str], None], target: str, member: Callable[[], bytes]
) -> None:
    _compress(context, number, _export(context, export, target, limit=_limit_files), target, member)


def _export(
    context: ProcessContext, export: Callable[[str], None], target: str, limit: Callable[[int], None] | None = None
) -> str:
    """The JSON of the trace, under a name that no reader takes for a trace."""
    folder = os.path.dirname(target)  # noqa: PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    room = room_bytes(context.settings.folder, context.settings.disk_bytes, context.settings.free_bytes)
    if room <= 0:
        raise NotWritten(at.LOST_SPACE)
    if limit is not None:
        limit(room)
    elif files_may_end_us():  # the exporter writes as much as there is
        raise NotWritten(at.LOST_SPACE)
    raw = f"{target}.raw.part"
    export(raw)
    if not _is_whole(raw):
        size = max(_remove(raw), _remove(f"{raw}.tmp"))
        raise NotWritten(at.LOST_SPACE if size >= room else at.LOST_INCOMPLETE)
    return raw


def _limit_files(most_bytes: int) -> None:
    """In a process of our own: what it writes ends where there is no more room."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY or most_bytes < soft:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))


def _is_whole(path: str) -> bool:
    """The exporter reports no failure: a full disk leaves a file that just ends."""
    try:
        with open_file(path, "rb") as file:
            file.seek(-64, os.SEEK_END)
            return file.read().rstrip().endswith(b"}")
    except OSError:
        return False


def _compress(context: ProcessContext, number: int, raw: str, target: str, member: Callable[[], bytes]) -> None:
    settings = context.settings
    try:
        compress(raw, target, context.slot.window(number), settings, member())
    finally:
        _remove(raw)
    _make_room(context, number, target)


def _make_room(context: ProcessContext, number: int, target: str) -> None:
    """Keep the newest of the windows that were written. The others are gone from the shared state too."""
    written = [window for window in context.slot.windows() if window[at.STATE] == at.WRITTEN]
    for window in written[: -min(context.settings.keep, at.WINDOWS - 1)]:
        former = target.replace(f"/{window_name(number)}/", f"/{window_name(window[at.NUMBER])}/")
        _remove(former)
        with suppress(OSError):  # other ranks have theirs in it
            os.rmdir(os.path.dirname(former))  # noqa: PTH106, PTH120
        window[at.NUMBER] = 0


def _remove(path: str) -> int:
    """How large it was."""
    try:
        size = os.lstat(path).st_size
        os.remove(path)  # noqa: PTH107
    except OSError:
        return 0
    return size


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
    """Children that the script forks: they end as they would without us, and its signals speak of nobody else's.

    Meanwhile a child of ours may end without the script's handler of SIGCHLD being called for it.
    """
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


class NotWritten(Exception):  # noqa: N818 (an outcome)
    """There will be no trace of this window; `state` says why."""

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self.state = state


def compress(raw: str, target: str, window: memoryview[int], settings: Settings, member: bytes = b"") -> None:
    """`raw` to `target`, with what came of it in the words of the window; `member` is put first into its object."""
    from hashlib import sha256

    room = room_bytes(settings.folder, settings.disk_bytes, settings.free_bytes)
    part = f"{target}.part"
    packer, checksum, masker = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP), sha256(), JsonMasker()
    size = raw_size = 0
    try:
        with open_file(raw, "rb") as source, open_file(part, "xb") as file:
            while chunk := source.read(_CHUNK_BYTES):
                if not raw_size:
                    chunk = _with_member(chunk, member)
                raw_size += len(chunk)
                packed = packer.compress(masker.add(chunk))
                size += len(packed)
                if size > room:
                    raise NotWritten(at.LOST_SPACE)
                checksum.update(packed)
                file.write(packed)
            packed = packer.compress(masker.end()) + packer.flush()
            checksum.update(packed)
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)  # noqa: PTH105
    except BaseException:
        if os.path.exists(part):  # noqa: PTH110
            os.remove(part)  # noqa: PTH107
        raise
    window[at.RAW_BYTES], window[at.BYTES] = raw_size, size + len(packed)
    digest = checksum.digest()
    for index in range(4):
        window[at.CHECKSUM + index] = int.from_bytes(digest[8 * index : 8 * index + 8], "little", signed=True)
    if window[at.STATE] != at.DISOWNED:
        window[at.STATE] = at.WRITTEN


def _with_member(text: bytes, member: bytes) -> bytes:
    """The beginning of an object with one more member; on a line of its own, as secrets are masked line by line."""
    before, brace, rest = text.partition(b"{")
    return b"".join((before, brace, b"\n", member, b",", rest)) if member and brace else text


def room_bytes(folder: str, disk_bytes: int, free_bytes: int) -> int:
    """How much may still be written: of the run's share of the disk, and with the floor of free space kept.

    Digests do not count: their watcher has a limit for them, and they would only be more files to look at.
    """
    used = 0
    for path, folders, names in os.walk(folder):
        if path == folder and "digests" in folders:
            folders.remove("digests")
        for name in names:
            with tolerated(OSError):
                used += os.lstat(f"{path}/{name}").st_size
    disk = os.statvfs(folder)
    return min(disk_bytes - used, disk.f_bavail * disk.f_frsize - free_bytes)
