"""The log of a serving engine, a line of JSON per record, and how its watchers hear of calls."""

from __future__ import annotations

import json
import os
import sys
import time
from _thread import start_new_thread
from typing import NamedTuple

from redline.capture.worker.exception_origin import pass_on, tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

    ReadTold = Callable[[Any, FrameType], None]  # the object, and the frame that reads the function

EVERY_S = 0.25  # from one write to the next: what a process that is killed loses at most
MOST_BYTES = 1 << 30  # of a file; what comes then is dropped
MOST_WAITING = 200_000  # records in memory, where the file system hangs


class EngineHooks(NamedTuple):
    """Calls between the watcher of an engine and the rest of watching, in this process."""

    step_ended: Callable[[], None]
    load_told: Callable[[int, int], None]  # requests that run, and that wait, as a step begins
    cost_ns: Callable[[], int]  # that windows have taken so far
    no_timed_window: Callable[[], None]
    safely: Callable[[Callable[[], None]], None]


class EngineLog:
    """The log of this process, and of each that is forked from it, in a file of its own. A record is no system call."""

    def __init__(self, folder: str, kind: str, also: Callable[[], tuple[object, ...] | None] = lambda: None) -> None:
        """`also` is asked for a record before each write, in the thread that writes."""
        self._folder = folder
        self._kind = kind
        self._also = also
        self._pid = 0
        self._records: list[tuple[object, ...]] = []
        self._facts: Mapping[str, object] = {}

    def tell(self, facts: Mapping[str, object]) -> None:
        """Log facts of the engine as a whole."""
        self._facts = {**self._facts, **facts}
        if os.getpid() == self._pid:
            self.add("facts", facts)
        else:
            self._begin()

    def add(self, *record: object) -> None:
        if os.getpid() != self._pid:
            self._begin()
        if len(self._records) < MOST_WAITING:
            self._records.append(record)

    def _begin(self) -> None:
        self._pid = os.getpid()
        head = {"kind": self._kind, "version": 1, "pid": self._pid, "ppid": os.getppid()}
        clocks = {"monotonic_ns": time.monotonic_ns(), "unix_ns": time.time_ns()}
        self._records = [("log", {**head, **clocks})]
        if self._facts:
            self._records.append(("facts", self._facts))
        if self._folder:
            start_new_thread(self._write, (self._pid,))

    def _write(self, pid: int) -> None:
        with tolerated(OSError, ValueError, TypeError):  # nothing of the engine depends on it
            path = f"{self._folder}/{self._kind}-{pid}.jsonl"
            written = 0
            while written < MOST_BYTES:
                more = self._also()
                if more is not None:
                    self.add(*more)
                taken = self._records[:]
                del self._records[: len(taken)]  # what is added meanwhile stays
                if taken:
                    text = "".join(f"{json.dumps(record, separators=(',', ':'), default=str)}\n" for record in taken)
                    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 (pathlib is slow to import)
                        written += file.write(text)
                time.sleep(EVERY_S)
        self._folder = ""


class ToldRead:
    """Stands in a class for a function of it. Whoever reads it from an object gets the function, and that is told."""

    def __init__(self, plain: Any, told: ReadTold) -> None:
        self._plain = plain
        self._told = told

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is not None:
            try:
                self._told(instance, sys._getframe(1))
            except BaseException as error:  # noqa: BLE001 (the engine goes on, and this is not recorded)
                pass_on(error)
        return self._plain.__get__(instance, owner)


def tell_reads(owner: type, name: str, told: ReadTold) -> bool:
    """Tell of each read of this function; false if neither the class nor one that it inherits from has it."""
    for one in owner.__mro__:
        plain = one.__dict__.get(name)
        if isinstance(plain, ToldRead):
            return True
        if plain is not None:
            setattr(one, name, ToldRead(plain, told))
            return True
    return False
