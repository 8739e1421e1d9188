"""A pool of processes on this machine. Unlike that of `concurrent.futures` it knows whose worker died, and ends one."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from redline.errors import InputError, first_line
from redline.job.executors.executor import WorkerDied
from redline.job.read_failures import explained

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Result = TypeVar("Result")
_ENDS_S = 5.0  # for a worker that was told that there is no more work


class ProcessPool(Generic[Result]):
    """Processes that are started as they are needed, and each given one file at a time."""

    def __init__(self, work: Callable[[Path], Result], slots: int) -> None:
        self._work, self.slots = work, slots
        self._idle: list[_Worker[Result]] = []
        self._busy: dict[int, _Worker[Result]] = {}

    def start(self, task: int, path: Path) -> None:
        while True:
            worker = self._idle.pop() if self._idle else _Worker(self._work)
            self._busy[task] = worker
            if worker.give(path):
                return
            worker.end()  # it was killed while it had nothing to do

    def wait(self, timeout_s: float | None) -> Sequence[tuple[int, Result | WorkerDied]]:
        ready = connection.wait([worker.connection for worker in self._busy.values()], timeout_s)
        ended = [task for task, worker in self._busy.items() if worker.connection in ready]
        return [(task, self._outcome(self._busy.pop(task))) for task in ended]

    def abandon(self, task: int) -> None:
        worker = self._busy.pop(task, None)
        if worker is not None:  # else it has ended, and its result is on the way
            worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._busy.values():
            worker.kill()
        for worker in self._idle:
            worker.end()

    def _outcome(self, worker: "_Worker[Result]") -> Result | WorkerDied:
        """Raises what the work raised."""
        try:
            result, error = worker.connection.recv()
        except (EOFError, OSError):
            return WorkerDied(worker.how_it_ended())
        self._idle.append(worker)
        if error is not None:
            raise error
        outcome: Result = result
        return outcome


class _Worker(Generic[Result]):
    """One process, and the pipe to it."""

    def __init__(self, work: Callable[[Path], Result]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self._process.start()
        theirs.close()  # or its death would not end the pipe

    def give(self, path: Path) -> bool:
        """The process was there to take it."""
        with suppress(OSError):
            self.connection.send(path)
            return True
        return False

    def end(self) -> None:
        self.connection.close()
        self._process.join(_ENDS_S)
        self.kill()

    def how_it_ended(self) -> str:
        """Once it has closed its end of the pipe."""
        self._process.join(_ENDS_S)
        code = self._process.exitcode
        self.kill()
        if code is None:
            return "closed its pipe and went on"
        killer = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")
        return f"was ended by {killer}" if code < 0 else f"ended with exit code {code}"

    def kill(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()


def _serve(parent: "connection.Connection", work: Callable[[Path], Result]) -> None:
    """Work on one file after the other until the pipe is closed, by the parent or by its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends its workers
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            parent.send_bytes(_outcome_of(work, parent.recv()))


def _outcome_of(work: Callable[[Path], Result], path: Path) -> "memoryview | bytes":
    """Pickled: the result, and what the work raised. A result that no pipe takes is a bug that costs its file."""
    outcome: tuple[Result | InputError | WorkerDied | None, Exception | None]
    try:
        outcome = (work(path), None)
    except Exception as error:  # noqa: BLE001 (raised again by the parent)
        outcome = (None, error)
    except BaseException as error:  # noqa: BLE001
        outcome = (WorkerDied(f"was ended by {type(error).__name__}: {first_line(error)}"), None)
    try:
        return ForkingPickler.dumps(outcome)
    except Exception as error:  # noqa: BLE001 (of whatever the result is made of)
        return ForkingPickler.dumps((explained(path, error), None))
