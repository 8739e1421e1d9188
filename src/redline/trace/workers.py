"""Processes that decode batches of one file for this one: started, asked, and done without when they die.

They are plain child processes: no pool that would import the user's script again, that a daemon may not have, or that
needs room in /dev/shm.
"""

import mmap
import os
import pickle
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

from redline.trace.batch_columns import Packed
from redline.trace.decode_worker import PLACE_BYTES, PLACES, READY, REPLY, REQUEST, TEXT_BYTES

MOST = 3  # more would wait for this process to inflate and merge
_PATIENCE_S = 60.0  # for a batch of some 10 ms: longer, and the process is stuck
_CODE = "import sys; sys.path[:] = {path!r}; from redline.trace.decode_worker import main; main({memory})"


class Worker:
    """One process. Batches given to it come back in the order in which they were given."""

    def __init__(self) -> None:
        self._memory = os.memfd_create("redline")
        try:
            os.ftruncate(self._memory, PLACES * PLACE_BYTES)  # taken only as far as it is used
            self._shared = mmap.mmap(self._memory, PLACES * PLACE_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", _CODE.format(path=sys.path, memory=self._memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._memory],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # it multiplies nothing
                bufsize=0,
            )
        except BaseException:
            os.close(self._memory)
            raise
        self._free = deque(range(PLACES))
        self._asked: deque[int] = deque()  # places whose reply is to come
        self._results: deque[Packed | None] = deque()
        self._is_ready = self.is_dead = False
        self._epoch = 0

    def can_take(self, text: bytes) -> bool:
        self._look(0)
        return self._is_ready and not self.is_dead and bool(self._free) and len(text) <= TEXT_BYTES

    def forget(self) -> None:
        """Wait for what is under way and drop it; all numbers that it gave are void."""
        while self._asked:
            self._look(_PATIENCE_S)
        self._results.clear()
        self._epoch += 1

    def give(self, text: bytes) -> None:
        place = self._free.popleft()
        begin = place * PLACE_BYTES
        self._shared[begin : begin + len(text)] = text
        self._asked.append(place)
        with suppress(BrokenPipeError):
            os.write(self._stdin, REQUEST.pack(place, len(text), self._epoch))

    def has_result(self) -> bool:
        self._look(0)
        return bool(self._results)

    def result(self) -> Packed | None:
        """The oldest that was not fetched yet; None where the batch is not sound, or the process died over it."""
        while not self._results:
            self._look(_PATIENCE_S)
        return self._results.popleft()

    def _look(self, timeout_s: float) -> None:
        """Take what replies there are, waiting for one at most so long."""
        while not self.is_dead and (self._asked or not self._is_ready):
            if not select.select([self._stdout], [], [], timeout_s)[0]:
                if timeout_s:
                    self._bury()
                return
            reply = os.read(self._stdout, REPLY.size)
            if len(reply) < REPLY.size:
                self._bury()
            elif not self._is_ready:
                self._is_ready = reply == READY
            else:
                self._take(REPLY.unpack(reply)[0])
                timeout_s = 0

    def _take(self, length: int) -> None:
        place = self._asked.popleft()
        begin = place * PLACE_BYTES + TEXT_BYTES
        self._results.append(None if length < 0 else pickle.loads(memoryview(self._shared)[begin : begin + length]))
        self._free.append(place)

    def _bury(self) -> None:
        self.is_dead = True
        self._results += [None] * len(self._asked)
        self._asked.clear()

    @property
    def _stdin(self) -> int:
        return cast(int, self._process.stdin.fileno())  # type: ignore[union-attr]  # it is a pipe

    @property
    def _stdout(self) -> int:
        return cast(int, self._process.stdout.fileno())  # type: ignore[union-attr]  # it is a pipe

    def close(self) -> None:
        self._process.kill()
        with self._process:  # closes its pipes and waits
            pass
        self._shared.close()
        os.close(self._memory)


@contextmanager
def workers(number: int) -> Iterator[list[Worker]]:
    """So many processes, or as many as can be started: reading goes on without them."""
    started: list[Worker] = []
    try:
        with suppress(OSError, ValueError, TypeError):  # no more processes, descriptors or memory; no interpreter
            started.extend(Worker() for _ in range(min(number, MOST)))
        yield started
    finally:
        for worker in started:
            worker.close()
