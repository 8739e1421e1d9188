"""`redline run`: start a job unchanged, watch it, capture a few steps, and leave a folder that `diagnose` reads."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from redline.artifacts import write_atomic
from redline.errors import OutputError
from redline.launch.board import Board
from redline.launch.outside import folder as run_folder
from redline.launch.outside.command import Command
from redline.launch.outside.environment import Position, position
from redline.launch.outside.leave import leave_behind, make_folder, remove_if_nothing_happened
from redline.launch.outside.machine import machine
from redline.launch.outside.record import rank_record
from redline.launch.outside.requests import Requests
from redline.launch.outside.stall import Stall, StallWatch
from redline.launch.outside.supervise import Ended, Supervisor, make_board
from redline.launch.run_record import RankRecord, RunRecord
from redline.launch.settings import Settings

_MOST_RESTARTS = 8  # that have memory of their own; later ones share it
_MOST_OFFSPRING = 64  # processes with torch that a job starts by itself, or as many as there are cores

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A job that is over."""

    record: RunRecord
    ended: Ended
    folder: Path | None
    """None where nothing could be written."""
    speaks: bool
    """Whether this process is the one of the job that tells the user."""


@dataclass(frozen=True, kw_only=True)
class Watching:
    """How to watch, beyond what the processes of the job are told."""

    stall_after_s: float = 0.0
    capture_signal: int | None = None
    stalled: Callable[[Stall, Path | None], None] = lambda stall, path: None


def run(command: Command, settings: Settings, named: str | None = None, watching: Watching | None = None) -> Ran:
    """Run the job to its end. It runs whatever happens to us."""
    watching = watching or Watching()
    where = None if command.elastic else position()
    folder, notes = make_folder(run_folder.choose(command.script, where, named, command.job), fresh=where is None)
    settings.follow = where is None and not command.elastic
    expected = command.processes * (1 + min(command.restarts, _MOST_RESTARTS))
    board = make_board(expected + (max(_MOST_OFFSPRING, os.cpu_count() or 1) if settings.follow else 0))
    if board is None:
        notes.append("no shared memory could be had; the job ran unwatched")
    _tell(settings, command, where, folder, board)
    job = _Job(command, settings, board, folder, watching)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ended = job.supervisor.run()
    if job.requests is not None:
        job.unharmed(job.requests.forget)
    own = job.records()
    record = RunRecord(
        command=command.arguments,
        folder=str(folder or ""),
        launcher="torchrun" if command.elastic else where.launcher if where else "python",
        world=job.unharmed(lambda: _world(own, where)) or 1,
        started=started,
        wall_ns=ended.ended_ns - ended.started_ns,
        exit_code=ended.exit_code,
        signal=_signal_name(ended),
        ranks=own,
        machine=job.unharmed(lambda: machine(own)) or {},
        settings={name: value for name, value in vars(settings).items() if name not in ("board", "folder")},
        watcher_cpu_ns=time.process_time_ns(),
        notes=(*notes, *job.troubles.values()),
        stalls=tuple(_without_stacks(stall) for stall in job.stalls),
    )
    if folder is not None and named is None and where is None and remove_if_nothing_happened(folder, record):
        folder = None
    if folder is not None:
        slots, helpers = job.supervisor.slots(), job.supervisor.helpers()
        record = job.unharmed(lambda: leave_behind(folder, record, slots, helpers, where)) or record
    return Ran(record=record, ended=ended, folder=folder, speaks=where is None or where.rank == 0)


class _Job:
    """The supervisor with what it does from time to time."""

    def __init__(
        self, command: Command, settings: Settings, board: Board | None, folder: Path | None, watching: Watching
    ) -> None:
        self.supervisor = Supervisor(command, settings, board, self._tick)
        self.supervisor.capture_signal = watching.capture_signal
        self.supervisor.capture_asked = self._ask
        self.stalls: list[Stall] = []
        self.troubles: dict[str, str] = {}
        self.requests = Requests(folder, board, self.supervisor.slots) if folder and board else None
        self._folder = folder
        self._watching = watching
        self._stall_watch = StallWatch(self.supervisor.slots, watching.stall_after_s, self._stalled)

    def _tick(self) -> None:
        if self.requests is not None:
            self.unharmed(self.requests.look)
        self.unharmed(self._stall_watch.look)

    def _ask(self) -> None:
        if self.requests is not None:
            self.unharmed(self.requests.ask)

    def unharmed(self, look: Callable[[], _Value]) -> _Value | None:
        """The job would end with us, or in another way, so nothing that fails here may end us."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001
            name = type(error).__name__
            self.troubles.setdefault(name, f"watching failed, which is a bug of Redline: {name}: {error}")
            return None

    def records(self) -> tuple[RankRecord, ...]:
        """Of the ranks on this machine."""
        found = (self.unharmed(partial(rank_record, slot)) for slot in self.supervisor.slots())
        known = [one for one in found if one is not None]
        return tuple(sorted(known, key=lambda one: (one.restart, one.rank)))

    def _stalled(self, stall: Stall) -> None:
        self.stalls.append(stall)
        path = None
        if self._folder is not None:
            path = self._folder / f"stall-{len(self.stalls)}.txt"
            text = "".join(f"rank {one.rank}, step {one.steps}, {one.state}\n{one.stacks}\n\n" for one in stall.ranks)
            with suppress(OutputError), write_atomic(path, force=True) as file:
                file.write(text.encode())
        self._watching.stalled(stall, path)


def _tell(
    settings: Settings, command: Command, where: Position | None, folder: Path | None, board: Board | None
) -> None:
    settings.folder = str(folder or "")
    settings.board = board.path if board else ""
    settings.slots = board.slots if board else 0
    settings.elastic = command.elastic
    settings.local_size = command.processes
    if where is not None:
        settings.rank = where.rank


def _world(own: Sequence[RankRecord], where: Position | None) -> int:
    told = [int(one.facts.get("layout", {}).get("world", 0)) for one in own]
    return max([*told, where.world if where else 0, len({one.rank for one in own}), 1])


def _signal_name(ended: Ended) -> str | None:
    import signal

    number = ended.signal_number
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:  # of those for real time only the first and the last have a name
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _without_stacks(stall: Stall) -> dict[str, Any]:
    content = asdict(stall)
    for one in content["ranks"]:
        del one["stacks"]
    return content
