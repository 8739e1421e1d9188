"""Writes a window's trace beside the job: in a child that nobody waits for, under another name until it is whole.

The child is a fork, so that turning events into JSON does not hold the interpreter lock of the job. It is an orphan
from the start: the script may wait for its own children as it likes. Where a fork is not wanted or not wise,
the JSON is written in place and only compressed in a child.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from posix import fork  # the script may have another in its place

from redline.capture.process import (
    FIRST_FOR_THE_OOM_KILLER,
    available_bytes,
    files_may_end_us,
    open_file,
    resident_bytes,
)
from redline.capture.shared_state import (
    EXPORTER,
    LOST_ERROR,
    LOST_INCOMPLETE,
    LOST_SPACE,
    NUMBER,
    STATE,
    WINDOWS,
    WRITING_CPU_NS,
    WRITING_NS,
    WRITTEN,
    window_name,
)
from redline.capture.worker.exception_origin import raised_afterwards, tolerated
from redline.capture.worker.recording.compress import NotWritten, compress, room_bytes
from redline.capture.worker.recording.forked_children import untold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from redline.capture.worker.process_context import ProcessContext

_PINNED_PAGES_SURVIVE_FORKS = (5, 10)  # before this kernel, memory registered with a network card might not


def write_detached(
    context: ProcessContext, number: int, export: Callable[[str], None], member: Callable[[], bytes]
) -> None:
    """Have `export` write the JSON of window `number` to a path, and leave the compressed trace in the run's folder.

    `member` gives one more member of the trace's object, as text. It is asked in the child.
    """
    settings = context.settings
    folder = f"{settings.folder}/{window_name(number)}"
    rank = _rank(settings.rank)
    target = f"{folder}/rank-{rank}.trace.json.gz"
    if settings.fork and _may_fork():
        _in_a_child(context, number, lambda: _write(context, number, export, target, member))
    else:
        raw = _export(context, export, target)
        _in_a_child(context, number, lambda: _compress(context, number, raw, target, member))


def _rank(from_launcher: int) -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return from_launcher


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
                    context.slot.window(number)[EXPORTER] = writer
            except OSError:  # no process is left to have
                context.slot.window(number)[STATE] = LOST_ERROR
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
        window[STATE] = error.state
    except OSError:
        window[STATE] = LOST_SPACE
    except BaseException:  # noqa: BLE001 (nobody is left to raise to)
        window[STATE] = LOST_ERROR
    window[WRITING_CPU_NS] = time.process_time_ns()
    window[WRITING_NS] = time.perf_counter_ns() - began_ns  # the last thing that it does


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
        raise NotWritten(LOST_SPACE)
    if limit is not None:
        limit(room)
    elif files_may_end_us():  # the exporter writes as much as there is
        raise NotWritten(LOST_SPACE)
    raw = f"{target}.raw.part"
    export(raw)
    if not _is_whole(raw):
        size = max(_remove(raw), _remove(f"{raw}.tmp"))
        raise NotWritten(LOST_SPACE if size >= room else LOST_INCOMPLETE)
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
    """Of the windows that were written, the newest are kept. The others are gone from the shared state too."""
    written = [window for window in context.slot.windows() if window[STATE] == WRITTEN]
    for window in written[: -min(context.settings.keep, WINDOWS - 1)]:
        former = target.replace(f"/{window_name(number)}/", f"/{window_name(window[NUMBER])}/")
        _remove(former)
        with suppress(OSError):  # other ranks have theirs in it
            os.rmdir(os.path.dirname(former))  # noqa: PTH106, PTH120
        window[NUMBER] = 0


def _remove(path: str) -> int:
    """How large it was."""
    try:
        size = os.lstat(path).st_size
        os.remove(path)  # noqa: PTH107
    except OSError:
        return 0
    return size
