"""The memory that the processes of a job share with the one that watches them: who writes what, and where.

It is no file: the watcher makes it, the job's processes map it through the watcher's entry in /proc, and it is gone
when the last of them is. So a process of the job writes a number per step without a system call, nothing can block it
or fill a disk, and what it wrote is still there after it was killed.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from contextlib import contextmanager

from redline.capture.process import is_alive
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = 4096
FACTS_BYTES = 64 << 10
WINDOWS = 64  # of a rank that are known; the oldest make room for others
WINDOW_WORDS = 16
ENTRIES = 32768  # steps of a rank that have an entry each; after that, an entry holds two, four, ...
CHUNK_ENTRIES = 4096
ENTRY_BYTES = 16

_WRITABLE = 0x200  # of PyMemoryView_FromMemory
_TRIES = 100  # to lock the shared state, a hundredth of a second apart: a process that was stopped may hold it

_WINDOWS_AT = PAGE_BYTES
_FACTS_AT = _WINDOWS_AT + WINDOWS * WINDOW_WORDS * 8
_ENTRIES_AT = _FACTS_AT + FACTS_BYTES
SLOT_BYTES = _ENTRIES_AT + ENTRIES * ENTRY_BYTES

# Words of the page that all ranks share.
REQUESTED = 0  # how many windows were asked for while the job ran
BEGIN = 1  # the step after which the window that was asked for last begins, on every rank
TIMED_NS = 2  # when a window of fixed duration begins on every rank, as no steps were recognised; 0 until it is known
# Of a job on trial: the step with whose end it ends; the first step of its first pair of blocks; how many steps of each
# block count; how many blocks of a pair there are each way. 0 until they are known.
LAST_STEP, FIRST_BLOCK, BLOCK_STEPS, BLOCK_TURNS = 3, 4, 5, 6
# Where levers are tried one after the other: the number of the one on trial, and the step with which that began.
LEVER_NUMBER, LEVER_FROM = 7, 8

# Words of a rank.
PID, STEPS, LAST_NS, PHASE, LOADER_NS, BATCHES, FILLED, STRIDE, STARTED_NS, KIND = range(10)
FACTS_LENGTH, STACKS_FD, WINDOWS_DONE, LEFT, PEAK_BYTES, COST_NS, RANK, RESTART, OFFSPRING, SETTLED = range(10, 20)
PLANNED_AT = 20  # the step before which it learnt of the blocks

BEFORE, WARMING, CAPTURING, AFTER = range(4)  # of PHASE
BY_NOTHING, BY_OPTIMIZER, BY_CALLS, BY_HAND = range(4)  # of KIND: what ends a step

# Words of a window. One whose number is 0 is free.
NUMBER, STATE, FIRST_STEP, CAPTURED_STEPS, FROM_NS, TO_NS, STALL_NS, RAW_BYTES, BYTES, WRITING_NS, EXPORTER = range(11)
WRITING_CPU_NS = 11
CHECKSUM = 12  # four words: the SHA-256 of the file

EXPORTING, WRITTEN, LOST_SPACE, LOST_INCOMPLETE, LOST_ERROR, LOST_KILLED = range(1, 7)  # of STATE
DISOWNED = 7  # what it shows turned out to be no steps of the job

TIMED_WINDOW = 1 << 20  # the number of the window of fixed duration; outside of the shared state it is 0


def window_name(number: int) -> str:
    """The folder of a window, in that of the run."""
    return f"window-{public_number(number)}"


def public_number(number: int) -> int:
    return 0 if number == TIMED_WINDOW else number


class ProcessSlot:
    """The words, windows and steps that one process of the job writes, and its watcher reads."""

    def __init__(self, memory: memoryview[int]) -> None:
        self._memory = memory
        self.words = memory[:PAGE_BYTES].cast("q")
        self._windows = memory[_WINDOWS_AT:_FACTS_AT].cast("q")
        self.entries = memory[_ENTRIES_AT:].cast("q")

    def window(self, number: int) -> memoryview[int]:
        """The words of the window of this number; nothing but zeros where there is none."""
        found = (window for window in self._all_windows() if window[NUMBER] == number)
        return next(found, memoryview(bytearray(8 * WINDOW_WORDS)).cast("q"))

    def new_window(self, number: int) -> memoryview[int]:
        """Words for another window: free ones, or else those of the oldest one."""
        window = min(self._all_windows(), key=lambda window: window[NUMBER])
        window[:] = memoryview(bytes(8 * WINDOW_WORDS)).cast("q")
        window[NUMBER] = number
        return window

    def windows(self) -> Iterator[memoryview[int]]:
        """Those that were begun, oldest first."""
        begun = (window for window in self._all_windows() if window[NUMBER])
        yield from sorted(begun, key=lambda one: one[NUMBER])

    def _all_windows(self) -> Iterator[memoryview[int]]:
        for at in range(0, WINDOWS * WINDOW_WORDS, WINDOW_WORDS):
            yield self._windows[at : at + WINDOW_WORDS]

    def write_facts(self, text: bytes) -> None:
        """Replace the facts; a reader in between sees none rather than half of them."""
        if len(text) <= FACTS_BYTES:
            self.words[FACTS_LENGTH] = 0
            self._memory[_FACTS_AT : _FACTS_AT + len(text)] = text
            self.words[FACTS_LENGTH] = len(text)

    def read_facts(self) -> bytes:
        length = self.words[FACTS_LENGTH]
        return bytes(self._memory[_FACTS_AT : _FACTS_AT + length])

    def steps(self) -> tuple[list[int], list[int], int]:
        """Nanoseconds of the steps and of waiting for data in them, and how many steps share an entry."""
        filled = self.words[FILLED]
        return list(self.entries[0 : 2 * filled : 2]), list(self.entries[1 : 2 * filled : 2]), self.words[STRIDE] or 1


class SharedState:
    """All slots of the processes on this machine, and the words that they share.

    The watcher has all of it in one mapping, however many slots there are. A process of the job maps what it writes to,
    and has it open only while it does something else with it: no descriptor stays, and none can be mistaken for one
    that the script has opened under the same number.
    """

    def __init__(self, path: str, slots: int, descriptor: int | None = None) -> None:
        self.path = path  # where other processes of the same user find it for as long as the watcher lives
        self.slots = slots
        self._descriptor = descriptor  # of the watcher
        self._file: os.stat_result | None = None
        with self._opened() as file:
            self._file = os.fstat(file)
            self._all = _mapped(file, _at(slots)) if descriptor is not None else None
            self.job_words = (
                _mapped(file, PAGE_BYTES).cast("q") if self._all is None else self._all[:PAGE_BYTES].cast("q")
            )

    @classmethod
    def make(cls, slots: int) -> SharedState:
        descriptor = os.memfd_create("redline")
        os.ftruncate(descriptor, _at(slots))
        os.posix_fallocate(descriptor, 0, PAGE_BYTES)
        return cls(f"/proc/{os.getpid()}/fd/{descriptor}", slots, descriptor)

    @classmethod
    def open(cls, path: str, slots: int) -> SharedState:
        return cls(path, slots)

    def close(self) -> None:
        """The job is over, and no process opens it any more; what is mapped can still be read."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def slot(self, number: int) -> ProcessSlot:
        if self._all is not None:
            return ProcessSlot(self._all[_at(number) : _at(number + 1)])
        with self._opened() as file:
            return ProcessSlot(_mapped(file, SLOT_BYTES, _at(number)))

    def claim(self, number: int) -> ProcessSlot:
        """A slot to write to. Its memory is set aside first: writing where there is none would kill the job."""
        with self._opened() as file:
            os.posix_fallocate(file, _at(number), _ENTRIES_AT)
        self.set_aside(number, 0)
        slot = self.slot(number)
        slot.words[STRIDE] = 1
        return slot

    def claim_free(self) -> tuple[int, ProcessSlot]:
        """A slot for a process that nobody expected; OSError where none is free."""
        with self.locked():
            for number, words in enumerate(self.words()):
                if number and (not words[PID] or not (words[STEPS] or is_alive(words[PID]))):
                    slot = self.claim(number)
                    slot.words[:] = memoryview(bytes(PAGE_BYTES)).cast("q")  # another process may have had it
                    slot.words[STRIDE], slot.words[PID] = 1, os.getpid()
                    return number, slot
        raise OSError(errno.ENOSPC, "there are too many processes")

    def words(self) -> list[memoryview[int]]:
        """A copy of the words of every slot."""
        with self._opened() as file:
            return [memoryview(os.pread(file, PAGE_BYTES, _at(number))).cast("q") for number in range(self.slots)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Meanwhile no other process is in such a block, unless one stays in it. OSError where no file can be had."""
        with self._opened() as file:
            for _ in range(_TRIES):
                with tolerated(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.01)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def set_aside(self, number: int, entry: int) -> None:
        """Memory for the chunk of entries that begins with `entry`; OSError where there is none."""
        with self._opened() as file:
            os.posix_fallocate(file, _at(number) + _ENTRIES_AT + entry * ENTRY_BYTES, CHUNK_ENTRIES * ENTRY_BYTES)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._descriptor is not None:
            yield self._descriptor
            return
        file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if self._file is not None and not os.path.samestat(self._file, os.fstat(file)):
                raise OSError(errno.ESTALE, "the watcher is gone")
            yield file
        finally:
            os.close(file)


def _at(number: int) -> int:
    return PAGE_BYTES + number * SLOT_BYTES


def _mapped(file: int, size: int, offset: int = 0) -> memoryview[int]:
    """That part of the file, for as long as the process lives. Python's own `mmap` keeps a descriptor for each."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True).mmap
    system.restype = ctypes.c_void_p
    system.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    address = system(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, offset)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no memory could be mapped")
    view = ctypes.pythonapi["PyMemoryView_FromMemory"]  # looked up so, it is not the one that others use
    view.restype = ctypes.py_object
    view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
    found: memoryview[int] = view(address, size, _WRITABLE)
    return found
