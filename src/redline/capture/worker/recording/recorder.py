"""torch.profiler for one window: warm up, start, mark steps, stop, hand the result to a writer."""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from mmap import mmap

import torch
import torch.autograd.profiler as autograd_profiler
from torch.profiler import record_function, supported_activities
from torch.profiler.profiler import _KinetoProfile

from redline.capture.process import files_may_end_us, is_alive, resident_bytes, room_bytes
from redline.capture.shared_state import EXPORTER, EXPORTING, STATE
from redline.capture.worker.exception_origin import arrived, tolerated
from redline.capture.worker.recording.writer import OrderlyEnd, write_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from redline.capture.worker.process_context import ProcessContext
    from redline.capture.worker.recording.host_evidence import EvidenceRecorder

_GUARDED = ("_prepare_profiler", "_enable_profiler", "_disable_profiler")
_ITS_OWN = re.compile(
    rb"(?:USDT|UST|INFO|STAGE|WARNING|ERROR|VERBOSE):.*\.cpp:\d+\]"
    rb"|Failed to read process name for pid "
    rb"|ERROR: External init callback must run in same thread "  # the first window, in another thread than the import
    rb"|\[W\d{4} [\d:.]+ (?:collection|profiler_kineto|record_function|observer|kineto_\w+)\.cpp:\d+\]"
    rb"|\[W\d{4} [\d:.]+ CPUAllocator\.cpp:\d+\] Memory block of unknown size"
)
_STDERR = 2
_EVERY = 1000
_AT_ONCE = 50
_WARNING = b"Memory block of unknown size"
_LEAST_BYTES = 256 << 20  # that are left where a window opens
_LEFT_BYTES = 64 << 20  # and at each of its steps
_RESERVE_BYTES = 32 << 20
_SHARE = 4  # to close a window takes about as much again as its events, for some moments twice


class Recorder:
    """The one profiler that is ours; it gives way to any other."""

    def __init__(self, context: ProcessContext, give_way: Callable[[], None], evidence: EvidenceRecorder) -> None:
        self._context = context
        self._evidence = evidence
        self._give_way = give_way
        self._profiler: Any = None
        self._started = False
        self._marked: Any = None
        self._marks = 0
        self._ours = False  # what calls the profiler just now is us
        self._another = False  # the script's own profiler is prepared or on
        self.room = WindowRoom(context.settings.memory_bytes)
        self._last_window = 0
        self._children = OrderlyEnd()
        self._old_blocks: OldBlocks | None = None
        self._guard()

    def _guard(self) -> None:
        """Two profilers in one process end in a crash, and starting the second says nothing. So every start is seen."""
        for name in _GUARDED:
            setattr(autograd_profiler, name, self._seen(name, getattr(autograd_profiler, name)))
        # It imports torch's compiler first. With stacks, a window would record a million calls of that.
        prepare: Any = self._seen("prepare_trace", _KinetoProfile.prepare_trace)
        setattr(_KinetoProfile, "prepare_trace", prepare)  # noqa: B010 (mypy knows no other way)

    def _seen(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def seen(*args: object, **kwargs: object) -> Any:
            if not self._ours:
                if name != "_disable_profiler":
                    self._give_way()
                self._another = name != "_disable_profiler"
            return call(*args, **kwargs)

        return seen

    def is_taken(self) -> bool:
        """Another profiler of the process is on, or CUDA records a graph, in which nothing may start."""
        if self._another or autograd_profiler._is_profiler_enabled or torch._C._autograd._profiler_enabled():
            return True
        return torch.cuda.is_available() and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()

    def is_writing(self) -> bool:
        """The window before is still being written."""
        if not self._last_window:
            return False
        window = self._context.slot.window(self._last_window)
        return window[STATE] == EXPORTING and is_alive(window[EXPORTER])

    def forget(self) -> None:
        """In a child that the script forked. While we record, it would record as well, without an end."""
        self._evidence.abandon()
        self._children.arrange()
        if self._old_blocks is not None:
            self._old_blocks.keep()
        if self._started:
            torch._C._autograd._clear_callbacks()  # type: ignore[attr-defined]
            autograd_profiler._is_profiler_enabled = False
            self._started = False

    def warm_up(self) -> None:
        settings = self._context.settings
        self._children.prepare()
        self.room.take()
        self._profiler = _KinetoProfile(
            activities=supported_activities(),
            record_shapes=settings.shapes,
            with_stack=settings.stacks,
            profile_memory=settings.memory,
            experimental_config=experimental_options(stacks=settings.stacks, on_device=len(supported_activities()) > 1),
        )
        try:
            self._calling(self._prepare)
        except BaseException as error:
            if arrived(error) is None:  # nothing is prepared: to start it, even to end it, would crash
                self._profiler = None
            raise

    def _prepare(self) -> None:
        """Do as `prepare_trace`, which would import torch's compiler for seconds, only to ask for a setting of it."""
        if "torch._inductor" in sys.modules:
            self._profiler.prepare_trace()
            return
        settings = self._context.settings
        self._profiler.profiler = autograd_profiler.profile(
            use_device=self._profiler.use_device,
            record_shapes=settings.shapes,
            with_stack=settings.stacks,
            profile_memory=settings.memory,
            use_kineto=True,
            experimental_config=self._profiler.experimental_config,
        )
        self._profiler.profiler._prepare_trace()

    def start(self, step: int) -> None:
        """Record, with marks of steps from this one on; none where it is 0."""
        self.room.check()
        self._started = True
        self._old_blocks = OldBlocks() if self._context.settings.memory else None
        self._calling(self._profiler.start_trace)
        if self._old_blocks is not None:
            self._old_blocks.use_up_warning()
        self._marks = 0
        self._evidence.window_opened()
        if step:
            self._mark(step)

    def next_step(self, step: int) -> None:
        self._unmark()
        self._evidence.step_ended()
        self._mark(step)

    def _mark(self, step: int) -> None:
        self._marked = record_function(f"ProfilerStep#{step}")
        with _behind_dispatch_modes():
            self._marked.__enter__()

    def _unmark(self) -> None:
        marked, self._marked = self._marked, None
        if marked is not None:
            with _behind_dispatch_modes():
                marked.__exit__(None, None, None)
            self._marks += 1

    def stop(self) -> int:
        """Stop; how many steps were captured, the last perhaps in part."""
        self.room.give_back()
        self._unmark()
        self._evidence.window_closed()
        self._calling(self._profiler.stop_trace)
        self._old_blocks = None
        self._started = False
        return self._marks

    def write(self, number: int) -> None:
        self._last_window = number
        profiler, self._profiler = self._profiler, None
        write_detached(self._context, number, profiler.export_chrome_trace, self._evidence.take().as_member)

    def abandon(self) -> None:
        """Stop without a result, whatever state the profiler is in."""
        self._evidence.abandon()
        self.room.give_back()
        profiler, self._profiler = self._profiler, None
        if profiler is None or profiler.profiler is None:
            return
        with tolerated(Exception):  # it failed before already
            self._unmark()
            if not self._started:
                self._calling(profiler.start_trace, aloud=True)
        with tolerated(Exception):
            if torch._C._autograd._profiler_enabled():
                self._calling(profiler.stop_trace, aloud=True)
        with tolerated(Exception):  # where not even that could be done
            if torch._C._autograd._profiler_enabled():
                self._calling(torch._C._autograd._disable_profiler, aloud=True)
            if autograd_profiler._is_profiler_enabled:  # it was interrupted after it had stopped
                autograd_profiler._run_on_profiler_stop()
        self._old_blocks = None
        self._started = False

    def _calling(self, call: Callable[[], object], *, aloud: bool = False) -> None:
        """`aloud` if it has to be, where no file can be had to keep stderr aside: a profiler must not stay on."""
        self._ours = True
        called = False
        try:
            with tolerated(OSError) if aloud else nullcontext(), hushed():
                called = True
                call()
            if not called:
                call()
        finally:
            self._ours = False


def _behind_dispatch_modes() -> AbstractContextManager[object]:
    """Meanwhile no TorchDispatchMode of the script sees operators: a mark is one, and modes count or change them."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    return torch._C._ExcludeDispatchKeyGuard(keys | torch._C.DispatchKeySet(torch._C.DispatchKey.PythonTLSSnapshot))


def experimental_options(*, stacks: bool, on_device: bool) -> Any:
    """Those of the wished options that this torch knows; None where it has no such settings at all, or no device.

    Without a device there are no streams to wait for, and torch 2.13 keeps 20 kB of each window for ever when it is
    given any of these settings.

    Events of synchronisation (torch 2.1) say which stream waits for which event. With `trace_only` (torch 2.13) no
    Python object is made of every event; stacks need those.
    """
    if not on_device:
        return None
    try:
        from torch._C._profiler import _ExperimentalConfig
    except ImportError:
        return None
    waits: dict[str, Any] = {"enable_cuda_sync_events": True}
    for options in ({**waits, "trace_only": not stacks}, waits, {}):
        try:
            return _ExperimentalConfig(**options)
        except TypeError:  # it does not know one of them
            continue
    return None


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


# Of such blocks that are freed while memory is recorded, torch's CPU allocator warns of the first and then of every
# thousandth. The warning is caused at the beginning of a window, where nobody reads it. Then it comes no more unless a
# script frees almost a thousand of them in one window.
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


# Torch's profiler cannot be refused memory: a thread of it that gets none for its variables aborts the process. So a
# window opens only far from every limit, and is closed when the job has come nearer. To close it takes memory as well,
# which is set aside while the window is open, as address space that nothing is written to.
class NoRoom(Exception):  # noqa: N818 (an outcome)
    """The process is too near to a limit of its memory."""


class WindowRoom:
    """Memory for a window. A limit that the process comes near costs the window, never the job."""

    def __init__(self, most_bytes: int) -> None:
        self._allowed_bytes = most_bytes
        self._most_bytes = 0
        self._resident_bytes = 0
        self._reserve: mmap | None = None

    def take(self) -> None:
        """When a window is about to open. Raises NoRoom."""
        room = room_bytes()
        if room < _LEAST_BYTES:
            raise NoRoom(f"{max(room, 0) >> 20} MiB of memory are left, and a window needs {_LEAST_BYTES >> 20}")
        self._resident_bytes = resident_bytes()
        self._most_bytes = min(self._allowed_bytes, room // _SHARE)
        self._reserve = mmap(-1, _RESERVE_BYTES)

    def check(self) -> None:
        """Raise NoRoom where a limit has come near since."""
        if room_bytes() < _LEFT_BYTES:
            raise NoRoom("a limit of its memory came near while a window was about to open")

    def why_over(self) -> str:
        """Why the window has to be closed now, for which there is some memory then; empty where it may go on."""
        grown_bytes = resident_bytes() - self._resident_bytes
        if grown_bytes > self._allowed_bytes:
            return "it took more memory than --max-memory allows"
        if grown_bytes <= self._most_bytes and room_bytes() >= _LEFT_BYTES:
            return ""
        self.give_back()
        return "the process comes near its memory limit"

    def give_back(self) -> None:
        """The window is about to be closed."""
        reserve, self._reserve = self._reserve, None
        if reserve is not None:
            reserve.close()
