"""Notices from outside that a job stopped stepping or that a rank fell behind, and says where each rank stands.

It reads the shared state, /proc, and the stacks that processes dump when the watcher signals them. It asks nothing of
the job's threads, and takes part in no collective.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

from redline.capture.process import is_alive
from redline.capture.shared_state import LAST_NS, LEFT, PID, RANK, STACKS_FD, STARTED_NS, STEPS, ProcessSlot
from redline.capture.worker.stacks import STACKS_NAME, STACKS_SIGNAL

_BEFORE_THE_FIRST_STEP = 5  # times longer: compiling and loading may take long
_ANSWER_S = 1.0  # that a process gets to write its stacks
_MOST_STACK_BYTES = 1 << 20
_NS = 1_000_000_000
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)')
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")  # the older name comes second
_PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_OLDER_DEFAULT = "/tmp/nccl_trace_rank_"
_RECORDERS_ANSWER_S = 2.0  # monitors look at their pipes once a second


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one rank stands."""

    rank: int
    steps: int
    quiet_s: float  # since its last step ended
    state: str  # running, sleeping, stopped, waiting for a disk, gone
    where: str  # the innermost frame of its main thread
    user: str  # the innermost frame outside of torch and Python's own library, or the same
    in_torch: bool
    stacks: str


@dataclass(frozen=True, kw_only=True)
class Stall:
    """The job, or a rank of it, did not step for a while."""

    after_s: float
    ranks: tuple[Standing, ...]
    held_by: tuple[int, ...]  # the ranks that the others seem to wait for; all where none stands out
    recordings: tuple[str, ...]  # files of the flight recorder that were written meanwhile


class StallWatch:
    """Looks at the shared state now and then; tells of a stall once, and again when another begins."""

    def __init__(
        self, slots: Callable[[], Sequence[ProcessSlot]], after_s: float, told: Callable[[Stall], None]
    ) -> None:
        self._slots = slots
        self._after_ns = int(after_s * _NS)
        self._told = told
        self._told_of: set[tuple[int, int]] = set()

    def look(self) -> None:
        slots = [slot for slot in self._slots() if not slot.words[LEFT] and is_alive(slot.words[PID])]
        if not slots or not self._after_ns:
            return
        now_ns = perf_counter_ns()
        began = any(slot.words[STEPS] for slot in slots)
        limit_ns = self._after_ns if began else self._after_ns * _BEFORE_THE_FIRST_STEP
        quiet_ns = [now_ns - max(slot.words[LAST_NS], slot.words[STARTED_NS]) for slot in slots]
        standing = [(slot.words[PID], slot.words[STEPS]) for slot in slots]
        stuck = {place for place, one_ns in zip(standing, quiet_ns, strict=True) if one_ns > limit_ns}
        # The ranks that wait cross the limit a little later than the one they wait for: it is the same stall.
        if stuck - self._told_of:
            self._told_of = set(standing)
            self._told(_stall(slots, max(quiet_ns) / _NS, now_ns))


def _stall(slots: Sequence[ProcessSlot], after_s: float, now_ns: int) -> Stall:
    since_s = time.time() - after_s
    asked = ask_recorders(slot.words[RANK] for slot in slots)
    texts = _ask_for_stacks(slots)
    ranks = tuple(_standing(slot, text, now_ns) for slot, text in zip(slots, texts, strict=True))
    return Stall(
        after_s=after_s,
        ranks=ranks,
        held_by=_held_by(ranks),
        recordings=recordings(since_s, asked=asked),
    )


def _standing(slot: ProcessSlot, text: str, now_ns: int) -> Standing:
    frames = main_thread(text)
    where = frames[0] if frames else None
    user = next((frame for frame in frames if not _is_library(frame)), where)
    since_ns = max(slot.words[LAST_NS], slot.words[STARTED_NS])
    return Standing(
        rank=slot.words[RANK],
        steps=slot.words[STEPS],
        quiet_s=(now_ns - since_ns) / _NS,
        state=_state(slot.words[PID]),
        where=_shown(where),
        user=_shown(user),
        in_torch=where is not None and "/torch/" in where[0],
        stacks=text,
    )


def _held_by(ranks: Sequence[Standing]) -> tuple[int, ...]:
    """Stopped ranks; else those with fewer steps than others; else those that are not inside torch."""
    most = max(standing.steps for standing in ranks)
    for stands_out in (
        [standing for standing in ranks if standing.state == "stopped"],
        [standing for standing in ranks if standing.steps < most],
        [standing for standing in ranks if not standing.in_torch and standing.where],
    ):
        if stands_out and len(stands_out) < len(ranks):
            return tuple(standing.rank for standing in stands_out)
    return tuple(standing.rank for standing in ranks)


def _ask_for_stacks(slots: Sequence[ProcessSlot]) -> list[str]:
    """Have each process dump its stacks; those of a stopped one stay unknown."""
    before = [_size(slot) for slot in slots]
    for slot in slots:
        if _can_answer(slot):
            os.kill(slot.words[PID], STACKS_SIGNAL)
    until_s = time.monotonic() + _ANSWER_S
    while time.monotonic() < until_s and any(_size(slot) == size for slot, size in zip(slots, before, strict=True)):
        time.sleep(0.05)
    time.sleep(0.05)  # a dump is written in pieces
    return [_read(slot, size) for slot, size in zip(slots, before, strict=True)]


def _can_answer(slot: ProcessSlot) -> bool:
    """The signal is still ours: to a process that became another program, it would be the end.

    A script that has closed our descriptor may have a file of its own under that number. And one that limits the size
    of files, and has undone that Python ignores the signal for it, would be ended by writing.
    """
    if _state(slot.words[PID]) in ("stopped", "gone"):
        return False
    try:
        is_ours = STACKS_NAME in os.readlink(_stacks_path(slot))  # noqa: PTH115
        status = Path(f"/proc/{slot.words[PID]}/status").read_text(encoding="utf-8", errors="replace")
        limits = Path(f"/proc/{slot.words[PID]}/limits").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    is_limited = re.search(r"^Max file size +unlimited", limits, re.MULTILINE) is None
    if is_limited and not (_signals(status, "SigIgn") | _signals(status, "SigCgt")) >> (signal.SIGXFSZ - 1) & 1:
        return False
    return is_ours and bool(_signals(status, "SigCgt") >> (STACKS_SIGNAL - 1) & 1)


def _signals(status: str, name: str) -> int:
    return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith(name)), 0)


def _size(slot: ProcessSlot) -> int:
    try:
        return os.stat(_stacks_path(slot)).st_size  # noqa: PTH116
    except OSError:
        return 0


def _read(slot: ProcessSlot, start: int) -> str:
    try:
        with Path(_stacks_path(slot)).open("rb") as file:
            file.seek(start)
            return file.read(_MOST_STACK_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _stacks_path(slot: ProcessSlot) -> str:
    return f"/proc/{slot.words[PID]}/fd/{slot.words[STACKS_FD]}"


Frame = tuple[str, int, str]


def main_thread(text: str) -> list[Frame]:
    """The frames of the main thread, innermost first: of the thread whose outermost frame is a module's."""
    for block in re.split(r"\n(?=(?:Current thread|Thread) 0x)", text):
        frames = [(match["file"], int(match["line"]), match["function"]) for match in _FRAME.finditer(block)]
        if frames and frames[-1][2] in ("<module>", "_run_code", "_run_module_as_main"):
            return frames
    return []


def _is_library(frame: Frame) -> bool:
    return (
        "site-packages/" in frame[0] or "/torch/" in frame[0] or "/lib/python3" in frame[0] or frame[0].startswith("<")
    )


def _shown(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame[0]}:{frame[1]} in {frame[2]}"


_STATES = {"R": "running", "S": "sleeping", "D": "waiting for a disk", "T": "stopped", "t": "stopped"}


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "gone"
    return _STATES.get(text.rpartition(")")[2].split()[0], "gone")


# A monitor writes when it gives up, or when somebody writes to a pipe that it listens to, if the user asked for one.
def ask_recorders(ranks: Iterable[int], environment: Mapping[str, str] = os.environ) -> bool:
    """Have the monitors of these ranks write; whether any of them listens. It does not touch the job's threads."""
    asked = False
    for rank in ranks if environment.get(_PIPES) else ():
        with suppress(OSError):  # there is no pipe, or nobody listens to it
            descriptor = os.open(f"{environment[_PIPES]}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
            try:
                asked |= os.write(descriptor, b"1\n") > 0
            finally:
                os.close(descriptor)
    return asked


def recordings(since_s: float, *, asked: bool, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Files of recorders that were written since then, by the clock; those that were `asked` for may take a moment."""
    until_s = time.monotonic() + (_RECORDERS_ANSWER_S if asked else 0.0)
    while not (paths := _written(since_s, environment)) and time.monotonic() < until_s:
        time.sleep(0.1)
    return paths


def _written(since_s: float, environment: Mapping[str, str]) -> tuple[str, ...]:
    paths = set()
    for prefix in _prefixes(environment):
        with suppress(OSError):
            near = prefix.parent.glob(f"{prefix.name}*")
            paths |= {str(path) for path in near if path.is_file() and path.stat().st_mtime >= since_s}
    return tuple(sorted(paths))


def _prefixes(environment: Mapping[str, str]) -> list[Path]:
    named = next((environment[name] for name in _PREFIXES if environment.get(name)), None)
    if named is not None:
        return [Path(named)]
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '/tmp')}/.cache"
    return [Path(cache) / "torch" / "comm_lib_trace_rank_", Path(_OLDER_DEFAULT)]
