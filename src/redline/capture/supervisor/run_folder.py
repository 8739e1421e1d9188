"""The folder of a run: its record, and the length of every step of every rank."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from redline.artifacts import write_atomic
from redline.capture import shared_state as at
from redline.capture.run_record import NAME, RunRecord, joined_digests, read_record, to_json
from redline.capture.shared_state import ProcessSlot, SharedState
from redline.capture.supervisor.environment import CAPTURE, Position, unused_folder
from redline.capture.supervisor.rank_records import remove_digests, trace_path
from redline.errors import InputError, OutputError

_OTHERS_S = 10.0  # that the first rank waits for the records of the others
_AHEAD_STEPS = 2  # so that all ranks can begin at the same step
_AHEAD_NS = 750_000_000  # in which every watcher has looked


def make_folder(folder: Path, *, fresh: bool, force: bool = False) -> tuple[Path | None, list[str]]:
    """The folder, made; where that is impossible the job runs all the same, and nothing is captured.

    A run that is there already is never overwritten: with `force` its folder gets another name.
    """
    notes = []
    try:
        folder = folder.absolute()
        if fresh and force and (folder / NAME).exists():
            former = unused_folder(folder, Path.exists)
            folder.rename(former)
            notes.append(f"the run that was in {folder} is in {former} now")
        folder.mkdir(parents=True, exist_ok=True)
        if fresh and (folder / NAME).exists():
            raise OutputError(f"{folder} holds a run already; choose another folder, or rename it (`force=True`)")
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        return None, [f"nothing was captured: {folder} cannot be written ({error.strerror})"]
    return folder, notes


def remove_if_nothing_happened(folder: Path, record: RunRecord) -> bool:
    """A job that never took a step, because its name was misspelt or it failed at once, leaves no folder."""
    if record.stalls or any(rank.steps or rank.windows for rank in record.ranks):
        return False
    with suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
    return not folder.exists()


def leave_behind(
    folder: Path,
    record: RunRecord,
    slots: Sequence[ProcessSlot],
    helpers: Sequence[ProcessSlot],
    where: Position | None,
) -> RunRecord:
    """The files of the run; where several watchers share the folder, each adds its ranks to what is there."""
    try:
        _remove_disowned(folder, slots, helpers)
        with _locked(folder):
            _write_steps(folder, slots)
            record = _joined(folder, record)
            _write(folder / NAME, to_json(record))
        _remove_parts(folder, slots)
        if where is not None and where.rank == 0:
            record = _wait_for_others(folder, record)
    except (OutputError, OSError) as error:
        record = replace(record, notes=(*record.notes, f"the record of the run could not be written: {error}"))
    return record


def _joined(folder: Path, record: RunRecord) -> RunRecord:
    """With the ranks of other watchers, on this machine or another: when we began, no record was there."""
    if not (folder / NAME).exists():
        return record
    try:
        before = read_record(folder / NAME)
    except InputError:
        return record
    others = before.ranks
    own = {(rank.rank, rank.restart) for rank in record.ranks}
    ranks = (*(other for other in others if (other.rank, other.restart) not in own), *record.ranks)
    return replace(
        record,
        ranks=tuple(sorted(ranks, key=lambda rank: (rank.restart, rank.rank))),
        digests=joined_digests(before.digests, record.digests),
        notes=tuple(dict.fromkeys((*before.notes, *record.notes))),
    )


def _wait_for_others(folder: Path, record: RunRecord) -> RunRecord:
    until_s = time.monotonic() + _OTHERS_S
    while len(record.ranks) < record.world and time.monotonic() < until_s:
        time.sleep(0.1)
        with suppress(InputError):
            joined = read_record(folder / NAME)
            record = replace(record, ranks=joined.ranks, digests=joined.digests, notes=joined.notes)
    return record


def _write_steps(folder: Path, slots: Sequence[ProcessSlot]) -> None:
    """The length of every step of every rank."""
    for slot in slots:
        lengths_ns, waits_ns, stride = slot.steps()
        rank, restart = slot.words[at.RANK], slot.words[at.RESTART]
        name = f"rank-{rank}" + (f".restart-{restart}" if restart else "")
        content = {"rank": rank, "stride": stride, "step_ns": lengths_ns, "input_wait_ns": waits_ns}
        (folder / "steps").mkdir(exist_ok=True)
        _write(folder / "steps" / f"{name}.json", content)


def _write(path: Path, content: object) -> None:
    with write_atomic(path, force=True) as file:
        file.write(json.dumps(content, indent=1).encode())
        file.write(b"\n")


def _remove_disowned(folder: Path, slots: Sequence[ProcessSlot], helpers: Sequence[ProcessSlot]) -> None:
    """Traces of what turned out to be no steps of the job: all of helpers, and of ranks what was taken for steps."""
    windows = [(slot, window) for slot in slots for window in slot.windows()]
    kept = {trace_path(slot, window[at.NUMBER]) for slot, window in windows if window[at.STATE] != at.DISOWNED}
    recorded = {trace_path(slot, window[at.NUMBER]) for slot, window in windows}
    recorded |= {trace_path(slot, window[at.NUMBER]) for slot in helpers for window in slot.windows()}
    remove_digests(folder, recorded - kept)
    for name in recorded - kept:
        path = folder / name
        path.unlink(missing_ok=True)
        with suppress(OSError):  # other ranks have theirs there
            path.parent.rmdir()
            if path.parent.parent != folder:
                path.parent.parent.rmdir()


def _remove_parts(folder: Path, slots: Sequence[ProcessSlot]) -> None:
    """Remove what killed writers left; those of other watchers may be at work yet."""
    own = tuple(f"rank-{slot.words[at.RANK]}.trace." for slot in slots)
    for place in ("window-*", "restart-*/window-*"):  # not all of the folder: it may hold a million digests
        for part in folder.glob(f"{place}/rank-*.trace.*.part*"):
            if part.name.startswith(own):
                with suppress(OSError):
                    part.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer of the record at a time, as far as the file system can promise it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# Where each rank has a watcher of its own, or each machine, they share nothing but the folder of the run. So the one
# that takes a request writes the step after which the window begins into a numbered file, which the others look for.
class Requests:
    """The windows that were asked for, as far as this watcher knows."""

    def __init__(self, folder: Path, shared: SharedState, slots: Callable[[], Sequence[ProcessSlot]]) -> None:
        self._folder = folder
        self._shared = shared
        self._slots = slots
        self._known = 0

    def look(self) -> None:
        """Now and then."""
        with suppress(OSError):
            (self._folder / CAPTURE).unlink()  # of several watchers only one succeeds
            self.ask()
        self._follow()

    def ask(self) -> None:
        """For a window, to begin at the same step on all ranks."""
        begin = max(map(_begin, self._slots()), default=_AHEAD_STEPS)
        with suppress(OSError), self._numbered(self._known + 1).open("x") as file:
            file.write(f"{begin}\n")
        self._follow()

    def _follow(self) -> None:
        with suppress(OSError, ValueError):  # there is none, or it is being written
            begin = int(self._numbered(self._known + 1).read_text(encoding="utf-8"))
            self._known += 1
            self._shared.job_words[at.BEGIN] = begin
            self._shared.job_words[at.REQUESTED] += 1

    def forget(self) -> None:
        """The job is over."""
        for number in range(1, self._known + 1):
            with suppress(OSError):
                self._numbered(number).unlink()

    def _numbered(self, number: int) -> Path:
        return self._folder / f"{CAPTURE}-{number}"


def _begin(slot: ProcessSlot) -> int:
    """A step that no rank has reached before its watcher has heard of it."""
    filled = slot.words[at.FILLED]
    last_ns = slot.entries[2 * (filled - 1)] // slot.words[at.STRIDE] if filled else 0
    return slot.words[at.STEPS] + _AHEAD_STEPS + (_AHEAD_NS // last_ns if last_ns else 0)
