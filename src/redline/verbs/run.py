"""`redline run`: start a job unchanged, watch it, capture a few steps, and leave a folder that `diagnose` reads."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from resource import struct_rusage
from typing import Any, TypeVar

from redline.artifacts import write_atomic
from redline.artifacts.masking import masked, masked_text
from redline.capture.run_record import RankRecord, RunRecord
from redline.capture.settings import Settings
from redline.capture.shared_state import SharedState
from redline.capture.supervisor.command import Command
from redline.capture.supervisor.environment import Position, choose, machine, position
from redline.capture.supervisor.rank_records import never_deleted, rank_record
from redline.capture.supervisor.run_folder import Requests, leave_behind, make_folder, remove_if_nothing_happened
from redline.capture.supervisor.source_digests import DigestPlan, SourceDigests
from redline.capture.supervisor.stall import Stall, StallWatch
from redline.capture.supervisor.supervise import Ended, SignalMask, Supervisor, make_shared_state
from redline.errors import OutputError
from redline.verbs.digest_child import digest_program

_MOST_RESTARTS = 8  # that have memory of their own; later ones share it
_MOST_OFFSPRING = 64  # processes with torch that a job starts by itself, or as many as there are cores

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A job that is over."""

    record: RunRecord
    ended: Ended
    folder: Path | None  # None where nothing could be written
    speaks: bool  # whether this process is the one of the job that tells the user


@dataclass(frozen=True, kw_only=True)
class Watching:
    """How to watch, beyond what the processes of the job are told."""

    stall_after_s: float = 0.0
    capture_signal: int | None = None
    mask: SignalMask | None = None
    """Of the signals that the job begins with, where the caller holds some; None for those that are held now."""
    stalled: Callable[[Stall, Path | None], None] = lambda stall, path: None
    digests: DigestPlan | None = None  # how to digest windows where their ranks ran; None where they are not


def run(
    command: Command,
    settings: Settings,
    named: str | None = None,
    watching: Watching | None = None,
    *,
    force: bool = False,
) -> Ran:
    """Run the job to its end. It runs whatever happens to us. `force` renames a folder that holds a run already."""
    watching = watching or Watching()
    where = None if command.elastic else position()
    folder, notes = _prepared(command, named, where, force=force)
    settings.follow = where is None and not command.elastic
    shared = None if command.blind else make_shared_state(_slots(command, settings))
    if shared is None and not command.blind:
        notes.append("no shared memory available; the job ran unwatched")
    _tell(settings, command, where, folder, shared)
    job = _Job(command, settings, shared, folder, watching)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ended = job.supervisor.run()
    # From here on nothing may fail: how the job ended is all that counts.
    job.unharmed(job.supervisor.wait_for_writers)
    job.unharmed(job.finish_digests)
    own = job.unharmed(job.records) or ()
    record = RunRecord(
        command=tuple(masked_text(command.arguments)),
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
        notes=tuple(map(masked, (*notes, *job.digest_notes(), *job.troubles.values()))),
        stalls=job.unharmed(lambda: tuple(_without_stacks(stall) for stall in job.stalls)) or (),
        digests=job.digests.record() if job.digests else None,
    )
    if folder is not None:
        may_remove = named is None and where is None
        record, folder = job.unharmed(partial(job.leave, folder, record, where, may_remove)) or (record, folder)
    record = replace(record, notes=tuple(dict.fromkeys((*record.notes, *map(masked, job.troubles.values())))))
    return Ran(record=record, ended=ended, folder=folder, speaks=where is None or where.rank == 0)


def _prepared(
    command: Command, named: str | None, where: Position | None, *, force: bool
) -> tuple[Path | None, list[str]]:
    """The folder of the run, and what is to be said of it; none for a job that cannot be watched."""
    if command.blind:
        return None, []
    chosen = choose(command.script, where, named, command.job)
    return make_folder(chosen, fresh=where is None, force=force)


def _slots(command: Command, settings: Settings) -> int:
    """For how many processes there is to be room."""
    expected = command.processes * (1 + min(command.restarts, _MOST_RESTARTS))
    return expected + (max(_MOST_OFFSPRING, os.cpu_count() or 1) if settings.follow else 0)


class _Job:
    """The supervisor with what it does from time to time."""

    def __init__(
        self, command: Command, settings: Settings, shared: SharedState | None, folder: Path | None, watching: Watching
    ) -> None:
        self.supervisor = Supervisor(command, settings, shared, self._tick)
        self.supervisor.mask = watching.mask
        self.supervisor.capture_signal = watching.capture_signal
        self.supervisor.capture_asked = self._ask
        self.stalls: list[Stall] = []
        self.troubles: dict[str, str] = {}
        self.requests = Requests(folder, shared, self.supervisor.slots) if folder and shared else None
        self.digests: SourceDigests | None = None
        if folder and shared and watching.digests is not None:
            self.digests = SourceDigests(folder, watching.digests, digest_program(), self.supervisor.slots)
            self.supervisor.other_ended = self._other_ended
        self._folder = folder
        self._watching = watching
        self._stall_watch = StallWatch(self.supervisor.slots, watching.stall_after_s, self._stalled)

    def _tick(self) -> None:
        if self.requests is not None:
            self.unharmed(self.requests.look)
        self.unharmed(self._stall_watch.look)
        if self.digests is not None:
            self.unharmed(self.digests.look)

    def _other_ended(self, pid: int, status: int, usage: struct_rusage) -> None:
        if self.digests is not None:
            self.unharmed(partial(self.digests.ended, pid, status, usage))

    def finish_digests(self) -> None:
        """Of the last windows, while there is time."""
        if self.digests is None or self._watching.digests is None:
            return
        digests = self.digests
        digests.job_is_over()
        try:
            most_s = self._watching.digests.wait_s
            self.supervisor.wait_for_others(lambda: self.unharmed(digests.look), digests.is_done, most_s)
        finally:
            digests.give_up()

    def digest_notes(self) -> Sequence[str]:
        return () if self.digests is None else self.unharmed(self.digests.notes) or ()

    def _ask(self) -> None:
        if self.requests is not None:
            self.unharmed(self.requests.ask)

    def unharmed(self, look: Callable[[], _Value]) -> _Value | None:
        """The job would end with us, or in another way, so nothing that fails here may end us."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001
            name = type(error).__name__
            self.troubles.setdefault(name, f"watching failed, which is a bug in Redline: {name}: {error}")
            return None

    def records(self) -> tuple[RankRecord, ...]:
        """Of the ranks on this machine."""
        is_deleted = self.digests.is_deleted if self.digests is not None else never_deleted
        records = (self.unharmed(partial(rank_record, slot, is_deleted)) for slot in self.supervisor.slots())
        known = [record for record in records if record is not None]
        return tuple(sorted(known, key=lambda record: (record.restart, record.rank)))

    def leave(
        self, folder: Path, record: RunRecord, where: Position | None, may_remove: bool
    ) -> tuple[RunRecord, Path | None]:
        """What stays in the folder; None where nothing does."""
        if self.requests is not None:
            self.unharmed(self.requests.forget)
        if may_remove and remove_if_nothing_happened(folder, record):
            return record, None
        slots, helpers = self.supervisor.slots(), self.supervisor.helpers()
        return leave_behind(folder, record, slots, helpers, where), folder

    def _stalled(self, stall: Stall) -> None:
        self.stalls.append(stall)
        path = None
        if self._folder is not None:
            path = self._folder / f"stall-{len(self.stalls)}.txt"
            text = "".join(
                f"rank {rank.rank}, step {rank.steps}, {rank.state}\n{rank.stacks}\n\n" for rank in stall.ranks
            )
            with suppress(OutputError), write_atomic(path, force=True) as file:
                file.write(masked(text).encode())
        self._watching.stalled(stall, path)


def _tell(
    settings: Settings, command: Command, where: Position | None, folder: Path | None, shared: SharedState | None
) -> None:
    settings.folder = str(folder or "")
    settings.board = shared.path if shared else ""
    settings.slots = shared.slots if shared else 0
    settings.sitecustomize_failed = (
        "sitecustomize" not in sys.modules and PathFinder.find_spec("sitecustomize", sys.path[1:]) is not None
    )
    settings.elastic = command.elastic
    settings.local_size = command.processes
    if where is not None:
        settings.rank = where.rank


def _world(own: Sequence[RankRecord], where: Position | None) -> int:
    told = [int(record.facts.get("layout", {}).get("world", 0)) for record in own]
    return max([*told, where.world if where else 0, len({record.rank for record in own}), 1])


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
    for rank in content["ranks"]:
        del rank["stacks"]
    return content
