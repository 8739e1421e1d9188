"""What the record of a run says of the traces that are diagnosed: which window they are, and how like the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.errors import InputError
from redline.launch.run_record import NAME, RankRecord, RunRecord, WindowRecord, read_record

TIMED = 0  # the number of the window of fixed duration
MOST_SLOWDOWN = 1.5  # by recording, even of tiny operators; what makes steps longer still is the machine, or in them
_WINDOW = re.compile(r"window-([0-9]+)")
_RESTART = re.compile(r"restart-([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Absent:
    """Ranks of the run that have no trace in this window, all for the same reason."""

    why: str
    """no space, incomplete, failed, killed, not reached (it made fewer steps), not captured, or not watched."""
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Captured:
    """A window of a run that `redline run` watched."""

    window: int
    windows: int
    """Of the run, on the rank that has most."""
    restart: int
    first_step: int
    steps: int
    asked_steps: int
    """More than `steps` where the window was cut short."""
    run_steps: int
    slowdown: float | None
    """Of the middle rank: `captured_step_ns` over `usual_step_ns`."""
    captured_step_ns: int | None
    usual_step_ns: int | None
    condition: str
    """That asked for the window: then captured steps are no sample of all."""
    cut_short: str
    """Why, in the words of the process that noted it; "" where it was not, or nobody said why."""
    absent: tuple[Absent, ...]

    @property
    def recording_slowdown(self) -> float:
        """At least 1; 1 too where it is not known, or where slow steps were asked for."""
        return 1.0 if self.slowdown is None or self.condition else min(max(self.slowdown, 1.0), MOST_SLOWDOWN)

    @property
    def is_timed(self) -> bool:
        """It is a stretch of time, not steps: none had been recognised."""
        return self.window == TIMED


def captured_of(traces: Sequence[Path]) -> Captured | None:
    """None where the traces are not of one window of a run, or its record cannot be read."""
    window = window_of(traces)
    return None if window is None else captured(*window)


def window_of(traces: Sequence[Path]) -> tuple[RunRecord, int, int] | None:
    """The record of the run whose window these traces are, with the numbers of the window and of the restart."""
    folder = _only_folder(traces)
    number = None if folder is None else _WINDOW.fullmatch(folder.name)
    if folder is None or number is None:
        return None
    restart = _RESTART.fullmatch(folder.parent.name)
    try:
        record = read_record(_run_folder(folder) / NAME)
    except InputError:
        return None
    return record, int(number[1]), int(restart[1]) if restart else 0


def run_folder_of(traces: Sequence[Path]) -> Path | None:
    """The folder of the run whose window these traces are; None where they are of none."""
    folder = _only_folder(traces)
    return None if folder is None or not _WINDOW.fullmatch(folder.name) else _run_folder(folder)


def _only_folder(traces: Sequence[Path]) -> Path | None:
    folders = {path.absolute().parent for path in traces}
    return folders.pop() if len(folders) == 1 else None


def _run_folder(window: Path) -> Path:
    return window.parent.parent if _RESTART.fullmatch(window.parent.name) else window.parent


def captured(record: RunRecord, number: int, restart: int = 0) -> Captured | None:
    """One window, over all ranks; None where the record knows nothing of it."""
    ranks = [rank for rank in record.ranks if rank.restart == restart]
    parts = [(rank, window) for rank in ranks for window in rank.windows if window.number == number]
    if not parts:
        return None
    middle = _middle(parts)
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
        absent=_absent(record, ranks, number),
    )


def _middle(parts: Sequence[tuple[RankRecord, WindowRecord]]) -> tuple[RankRecord, WindowRecord] | None:
    """The rank whose slow-down is the middle one, with its window."""
    known = sorted((part for part in parts if part[1].slowdown and part[1].steps), key=lambda it: it[1].slowdown or 0)
    return known[(len(known) - 1) // 2] if known else None


def _cut_short(ranks: Sequence[RankRecord], number: int) -> str:
    texts = [
        str(note.get("text", ""))
        for rank_record in ranks
        for note in rank_record.notes
        if note.get("code") == "cut-short"
    ]
    return next((text for text in texts if text.startswith(f"window {number} ")), "")


def _absent(record: RunRecord, ranks: Sequence[RankRecord], number: int) -> tuple[Absent, ...]:
    reasons: dict[str, list[int]] = {}
    for rank_record in ranks:
        why = _why_absent(rank_record, number)
        if why:
            reasons.setdefault(why, []).append(rank_record.rank)
    unknown = set(range(record.world)) - {rank_record.rank for rank_record in ranks}
    if unknown and len(ranks) < record.world:  # processes that the job started may have other numbers
        reasons.setdefault("not watched", []).extend(sorted(unknown))
    return tuple(Absent(why=why, ranks=tuple(sorted(absent_ranks))) for why, absent_ranks in reasons.items())


def _why_absent(rank_record: RankRecord, number: int) -> str:
    window = next((window for window in rank_record.windows if window.number == number), None)
    if window is not None:
        return "" if window.state == "written" else window.state
    if not rank_record.finished:
        return "killed"
    return "not reached" if not rank_record.notes else "not captured"
