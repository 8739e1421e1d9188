"""A window of a run that is diagnosed, by the record of the run: which one it is, and how like the others."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.capture.run_record import CAPTURED, DIGESTS, NAME, RankRecord, RunRecord, read_record
from redline.errors import InputError

TIMED = 0  # the number of the window of fixed duration
_RANK = re.compile(r"rank-([0-9]+)\.")


@dataclass(frozen=True, kw_only=True)
class Absent:
    """Ranks of the run that have no trace in this window, or no digest, all for the same reason."""

    why: str
    """no space, incomplete, failed, killed, not reached (it made fewer steps), not captured, or not watched; of traces
    digested (then deleted), of digests not digested."""
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Captured:
    """A window of a run that `redline run` watched."""

    window: int
    windows: int  # in the run, on the rank that has most
    restart: int
    first_step: int
    steps: int
    asked_steps: int  # more than `steps` where the window was cut short
    run_steps: int
    slowdown: float | None  # `captured_step_ns` over `usual_step_ns`, on the middle rank
    captured_step_ns: int | None
    usual_step_ns: int | None
    condition: str  # that asked for the window: then captured steps are no sample of all
    cut_short: str
    """Why, in the words of the process that noted it; "" where it was not, or nobody said why."""
    absent: tuple[Absent, ...]

    @property
    def is_timed(self) -> bool:
        """It is a stretch of time, not steps: none had been recognised."""
        return self.window == TIMED


def captured_of(files: Sequence[Path]) -> Captured | None:
    """None where the traces or digests are not of one window of a run, or its record cannot be read."""
    window = window_of(files)
    if window is None:
        return None
    digested = {_rank(path) for path in files if path.name.endswith(DIGEST_ENDING)}
    return captured(*window, read={_rank(path) for path in files} if digested else None)


def window_of(files: Sequence[Path]) -> tuple[RunRecord, int, int] | None:
    """The record of the run whose window these files are of, with the numbers of the window and of the restart."""
    window = _only_window(files)
    if window is None:
        return None
    run, number, restart = window
    try:
        return read_record(run / NAME), number, restart
    except InputError:
        return None


def run_folder_of(files: Sequence[Path]) -> Path | None:
    """The folder of the run whose window these files are of; None where they are of none."""
    window = _only_window(files)
    return None if window is None else window[0]


def _only_window(files: Sequence[Path]) -> tuple[Path, int, int] | None:
    """The folder of the run that these traces and digests are in, and the numbers of their window and restart."""
    windows = {_window(folder) for folder in {path.absolute().parent for path in files}}
    return windows.pop() if len(windows) == 1 else None


def _window(folder: Path) -> tuple[Path, int, int] | None:
    number, restart = window_number(folder.name), restart_number(folder.parent.name)
    if number is None:
        return None
    run = folder.parent if restart is None else folder.parent.parent
    run = run.parent if run.name == DIGESTS and not (run / NAME).is_file() else run
    return run, number, restart or 0


def _rank(path: Path) -> int:
    rank = _RANK.match(path.name)
    return int(rank[1]) if rank else -1


def captured(record: RunRecord, number: int, restart: int = 0, read: Collection[int] | None = None) -> Captured | None:
    """One window, over all ranks; None where the record knows nothing of it.

    Where digests were read, `read` has the ranks of which there is a digest or a trace.
    """
    ranks = [rank for rank in record.ranks if rank.restart == restart]
    parts = [(rank, window) for rank in ranks for window in rank.windows if window.number == number]
    if not parts:
        return None
    known = sorted((part for part in parts if part[1].slowdown and part[1].steps), key=lambda it: it[1].slowdown or 0)
    middle = known[(len(known) - 1) // 2] if known else None
    return Captured(
        window=number,
        windows=max(rank.windows[-1].number for rank in ranks if rank.windows),
        restart=restart,
        first_step=min(window.first_step for _, window in parts),
        steps=min(window.steps for _, window in parts),
        asked_steps=int(record.settings.get("steps", 0)),
        run_steps=max(rank.steps for rank in ranks),
        slowdown=middle[1].slowdown if middle else None,
        captured_step_ns=middle[1].length_ns // middle[1].steps if middle else None,
        usual_step_ns=middle[0].step_ns if middle else None,
        condition=str(record.settings.get("when", "")),
        cut_short=_cut_short(ranks, number),
        absent=_absent(record, ranks, number, read),
    )


def _cut_short(ranks: Sequence[RankRecord], number: int) -> str:
    texts = [
        str(note.get("text", ""))
        for rank_record in ranks
        for note in rank_record.notes
        if note.get("code") == "cut-short"
    ]
    return next((text for text in texts if text.startswith(f"window {number} ")), "")


def _absent(
    record: RunRecord, ranks: Sequence[RankRecord], number: int, read: Collection[int] | None
) -> tuple[Absent, ...]:
    reasons: dict[str, list[int]] = {}
    for rank_record in ranks:
        why = (
            "" if rank_record.rank in (read or ()) else _why_absent(rank_record, number, from_digests=read is not None)
        )
        if why:
            reasons.setdefault(why, []).append(rank_record.rank)
    unknown = set(range(record.world)) - {rank_record.rank for rank_record in ranks}
    if unknown and len(ranks) < record.world:  # processes that the job started may have other numbers
        reasons.setdefault("not watched", []).extend(sorted(unknown))
    return tuple(Absent(why=why, ranks=tuple(sorted(absent_ranks))) for why, absent_ranks in reasons.items())


def _why_absent(rank_record: RankRecord, number: int, *, from_digests: bool) -> str:
    window = next((window for window in rank_record.windows if window.number == number), None)
    if window is not None:
        if window.state in CAPTURED and from_digests:
            return "not digested"
        return "" if window.state == "written" else window.state
    if not rank_record.finished:
        return "killed"
    of_windows = [note for note in rank_record.notes if note.get("code") != "no-stacks"]
    return "not captured" if of_windows else "not reached"
