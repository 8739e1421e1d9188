"""All columns of a document: batch after batch, or on several processes where the file is large.

Inflating and cutting stay here; batches are decoded by whoever is free, and merged in the order of the file. A batch
that needs more than decoding is not sound: then reading goes back to it, and it is decoded here as ever, so that
damage is mended as if there were one process.
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

from redline.errors import InputError
from redline.trace.batch_columns import Merger, Packed, Packer
from redline.trace.columns import RawColumns
from redline.trace.decode import Decoder
from redline.trace.decode_worker import PLACE_BYTES, PLACES, READY, REPLY, REQUEST, TEXT_BYTES, packed_if_sound
from redline.trace.document import ChunkBoundary, EventChunk, TraceDocument
from redline.values import dataclass

_MOST_UNSOUND = 3  # batches: more, and going back costs more than the processes save
_AHEAD = 3  # batches for each process, between the first that is not merged and the last that was read
MOST = 3  # more would wait for this process to inflate and merge
_PATIENCE_S = 60.0  # for a batch of some 10 ms: longer, and the process is stuck
_CODE = "import sys; sys.path[:] = {path!r}; from redline.trace.decode_worker import main; main({memory})"


class Worker:
    """A plain child process that decodes. Batches given to it come back in the order in which they were given.

    No pool: that would import the user's script again, a daemon may not have one, and it needs room in /dev/shm.
    """

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


def collected(document: TraceDocument, workers: list[Worker]) -> RawColumns:
    """The columns of all events of a document that can be had; the same with and without workers."""
    decoder, merger = Decoder(document), Merger(document.log)
    batches = _Team(document, decoder, merger, workers).read() if workers else document.batches()
    while True:
        for batch in batches:
            for decoded in decoder.decode(batch):
                merger.add(decoded)
        if not document.begins_again():
            break
        batches = document.further_batches()  # rare, and not worth other processes
    decoder.finish()
    return merger.finish()


class _Member:
    """A worker, or this process, with what its numbers mean."""

    def __init__(self, worker: Worker | None, merger: Merger) -> None:
        self.worker, self._merger = worker, merger
        self.forget()

    def forget(self) -> None:
        """Give up what is under way, and all numbers."""
        if self.worker is not None:
            self.worker.forget()
        self.packer = Packer()
        self._numbers = self._merger.renumberings()

    def merge(self, packed: Packed) -> None:
        self._merger.merge(packed, *self._numbers)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A batch that was read but not merged."""

    batch: EventChunk
    after: ChunkBoundary
    member: _Member
    result: Packed | None  # of this process; a worker is asked for it

    def has_result(self) -> bool:
        return self.member.worker is None or self.member.worker.has_result()

    def fetched(self) -> Packed | None:
        return self.result if self.member.worker is None else self.member.worker.result()


class _Team:
    """Reads ahead, hands out, merges in order."""

    def __init__(self, document: TraceDocument, decoder: Decoder, merger: Merger, workers: list[Worker]) -> None:
        self._document, self._decoder = document, decoder
        self._here = _Member(None, merger)
        self._others = [_Member(worker, merger) for worker in workers]
        self._batches = document.batches()
        self._ahead: deque[_Ahead] = deque()
        self._end: EventChunk | Exception | None = (
            None  # what no worker can do: the last batch, an error, or nothing more
        )
        self._ended = False
        self._unsound = 0

    def read(self) -> Iterator[EventChunk]:
        """Merge what is sound, and yield what is not, to be decoded before the next is asked for."""
        while True:
            self._read_ahead()
            unsound = self._merge_decoded()
            if unsound is not None:
                yield unsound
                if self._unsound > _MOST_UNSOUND or self._decoder.needs_exact or not self._others:
                    yield from self._document.further_batches()
                    return
                self._batches = self._document.further_batches()
            elif self._ended and not self._ahead:
                break
        if isinstance(self._end, Exception):
            raise self._end
        if self._end is not None:
            yield self._end

    def _read_ahead(self) -> None:
        """Give every worker enough to do, then decode a batch here."""
        while self._may_read():
            try:
                batch = next(self._batches, None)
            except (InputError, OSError) as error:  # raised when all that came before it is merged
                self._end, self._ended = error, True
                return
            if batch is None or batch.last:
                self._end, self._ended = batch, True
                return
            member = next(
                (other for other in self._others if other.worker and other.worker.can_take(batch.text)), self._here
            )
            result = None
            if member.worker is not None:
                member.worker.give(batch.text)
            else:
                result = packed_if_sound(member.packer, batch.text)
            self._ahead.append(_Ahead(batch, self._document.mark(), member, result))
            if member is self._here:
                return

    def _may_read(self) -> bool:
        return not self._ended and len(self._ahead) < _AHEAD * (1 + len(self._others))

    def _merge_decoded(self) -> EventChunk | None:
        """Merge what is decoded, from the oldest on; the first batch that is not sound, if one is met."""
        while self._ahead and (self._ahead[0].has_result() or not self._may_read()):
            first = self._ahead.popleft()
            packed = first.fetched()
            if packed is None:
                self._go_back(first.after)
                return first.batch
            first.member.merge(packed)
            self._document.pass_by(first.after)
        return None

    def _go_back(self, mark: ChunkBoundary) -> None:
        """As if nothing had been read beyond."""
        self._others = [other for other in self._others if other.worker and not other.worker.is_dead]
        for member in (self._here, *self._others):
            member.forget()
        self._ahead.clear()
        self._document.go_back(mark)
        self._end, self._ended = None, False
        self._unsound += 1
