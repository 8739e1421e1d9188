"""A run that is over, reduced to what its summary says: values, no words yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import Any

from redline.capture.run_record import CAPTURED, DigestsRecord, RankRecord, RunRecord, WindowRecord

MOST_SLOW = 3  # ranks that are named
MOST_WINDOWS = 3  # the newest
_STANDS_OUT = 1.1  # times the step of the others, or as much of it more waiting
_ENOUGH_STEPS = 20  # to tell a slow rank from chance


@dataclass(frozen=True, kw_only=True)
class SlowRank:
    """A rank whose own time stands out."""

    rank: int
    step_ratio: float
    """Its usual step over that of the others."""
    wait_ns: int
    """In a step, for data."""
    others_wait_ns: int
    is_waiting: bool
    """Waiting for data is what stands out, not the step."""


@dataclass(frozen=True, kw_only=True)
class WindowSeen:
    """One window over all ranks."""

    number: int
    restart: int
    steps: range
    written: int
    """Ranks with a trace, or whose trace was digested."""
    lost: tuple[tuple[str, tuple[int, ...]], ...]
    """Why there is no trace, and of which ranks."""
    slowdown: float | None
    stall_ns: int
    """Of the rank that stood still for longest."""
    size_bytes: int
    length_ns: int
    """Of the longest, from start to stop."""


@dataclass(frozen=True, kw_only=True)
class NoteSeen:
    """Something that a process noted, and which ranks did."""

    code: str
    text: str
    count: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RunLever:
    """A change that the job was to run with."""

    name: str
    took: bool
    what: str
    """It did, or why it did nothing."""


@dataclass(frozen=True, kw_only=True)
class RunScreen:
    """What the summary says, in the order in which it says it. Ranks are those of the last attempt."""

    command: tuple[str, ...]
    exit_code: int | None
    signal: str | None
    wall_ns: int
    ranks: int
    world: int
    restarts: int
    steps: tuple[int, int]
    """Of the rank with the fewest and of the one with the most."""
    steps_before: int
    """The most in attempts that a restart ended."""
    kinds: tuple[str, ...]
    step_ns: int | None
    spread_ns: tuple[int, int] | None
    """Four of five steps are in it."""
    waiting_share: float | None
    slow: tuple[SlowRank, ...]
    more_slow: int
    windows: tuple[WindowSeen, ...]
    earlier_windows: int
    peak: tuple[int, int] | None
    """The rank that needed most memory, and how much."""
    unfinished: tuple[int, ...]
    """Ranks that did not come to an orderly end."""
    missing: int
    """Ranks of the job of which nothing is known."""
    without_torch: tuple[int, ...]
    after: int | None
    """Steps before the first window, where the job ended before it."""
    least_after: int
    """So many steps before it would have left room for the window."""
    condition: str
    """A condition that was never met."""
    watch_only: bool
    notes: tuple[NoteSeen, ...]
    of_the_run: tuple[str, ...]
    stalls: tuple[dict[str, Any], ...]
    levers: tuple[RunLever, ...] = ()
    digests: DigestsRecord | None = None


def run_screen(record: RunRecord) -> RunScreen:
    last = _last_attempt(record.ranks)
    newest = {id(rank_record) for rank_record in last}
    lengths = [rank_record.step_ns for rank_record in last if rank_record.step_ns is not None]
    slow = sorted(_slow(last), key=_excess, reverse=True)
    windows = _windows(record.ranks)
    return RunScreen(
        command=record.command,
        exit_code=record.exit_code,
        signal=record.signal,
        wall_ns=record.wall_ns,
        ranks=len(last),
        world=record.world,
        restarts=max((rank.restart for rank in record.ranks), default=0),
        steps=(
            min((rank_record.steps for rank_record in last), default=0),
            max((rank_record.steps for rank_record in last), default=0),
        ),
        steps_before=max((rank.steps for rank in record.ranks if id(rank) not in newest), default=0),
        kinds=tuple(dict.fromkeys(rank_record.step_kind for rank_record in last if rank_record.steps)),
        step_ns=round(median(lengths)) if lengths else None,
        spread_ns=_spread(last),
        waiting_share=_waiting_share(last),
        slow=tuple(slow[:MOST_SLOW]),
        more_slow=max(0, len(slow) - MOST_SLOW),
        windows=tuple(windows[-MOST_WINDOWS:]),
        earlier_windows=max(0, len(windows) - MOST_WINDOWS),
        peak=max(
            ((rank_record.rank, rank_record.peak_bytes) for rank_record in last if rank_record.peak_bytes),
            key=lambda it: it[1],
            default=None,
        ),
        unfinished=tuple(rank_record.rank for rank_record in last if not rank_record.finished),
        missing=max(0, record.world - len({rank.rank for rank in record.ranks})),
        without_torch=tuple(rank_record.rank for rank_record in last if "versions" not in rank_record.facts),
        after=_ended_before(record, last),
        least_after=max(
            0, max((rank_record.steps for rank_record in last), default=0) - 1 - int(record.settings.get("steps", 0))
        ),
        condition=str(record.settings.get("when", "")) if not windows else "",
        watch_only=record.settings.get("capture") is False,
        notes=tuple(_notes(record.ranks)),
        of_the_run=record.notes,
        stalls=record.stalls,
        levers=tuple(_levers(record, last)),
        digests=record.digests,
    )


def _levers(record: RunRecord, ranks: Sequence[RankRecord]) -> Iterable[RunLever]:
    """As the first rank tells of them."""
    asked = record.settings.get("kept_levers") or ()
    told = ranks[0].facts.get("kept levers", ()) if ranks else ()
    for at, name in enumerate(asked):
        known = at < len(told)
        yield RunLever(
            name=str(name), took=known and bool(told[at][0]), what=str(told[at][1]) if known else "no step was taken"
        )


def _last_attempt(ranks: Iterable[RankRecord]) -> list[RankRecord]:
    """Of each rank, the record of the process that was started last."""
    newest: dict[int, RankRecord] = {}
    for rank_record in sorted(ranks, key=lambda rank_record: rank_record.restart):
        newest[rank_record.rank] = rank_record
    return [newest[rank] for rank in sorted(newest)]


def _spread(ranks: Sequence[RankRecord]) -> tuple[int, int] | None:
    low = [rank_record.step_p10_ns for rank_record in ranks if rank_record.step_p10_ns is not None]
    high = [rank_record.step_p90_ns for rank_record in ranks if rank_record.step_p90_ns is not None]
    return (min(low), max(high)) if low and high else None


def _waiting_share(ranks: Sequence[RankRecord]) -> float | None:
    """Of the time of usual steps, over all ranks; None where nobody used a loader."""
    known = [
        rank_record
        for rank_record in ranks
        if rank_record.batches and rank_record.step_mean_ns and rank_record.step_wait_ns is not None
    ]
    whole_ns = sum(rank.step_mean_ns or 0 for rank in known)
    return sum(rank.step_wait_ns or 0 for rank in known) / whole_ns if whole_ns else None


# --- ranks that stand out ---------------------------------------------------------------------------------------------


def _slow(ranks: Sequence[RankRecord]) -> Iterable[SlowRank]:
    timed = [rank_record for rank_record in ranks if rank_record.step_ns and rank_record.steps >= _ENOUGH_STEPS]
    if len(timed) < 2:
        return
    usual_ns = median_low(rank.step_ns or 0 for rank in timed)
    usual_wait_ns = median_low(rank.step_wait_ns or 0 for rank in timed)
    for rank in timed:
        ratio = (rank.step_ns or 0) / usual_ns
        wait_ns = rank.step_wait_ns or 0
        is_waiting = wait_ns - usual_wait_ns > (_STANDS_OUT - 1) * usual_ns
        is_slow = ratio > _STANDS_OUT and (rank.step_p10_ns or 0) > usual_ns  # nearly always, not now and then
        if is_waiting or is_slow:
            yield SlowRank(
                rank=rank.rank,
                step_ratio=ratio,
                wait_ns=wait_ns,
                others_wait_ns=usual_wait_ns,
                is_waiting=is_waiting,
            )


def _excess(slow_rank: SlowRank) -> tuple[float, int]:
    return slow_rank.step_ratio, slow_rank.wait_ns


# --- windows ----------------------------------------------------------------------------------------------------------


def _windows(ranks: Sequence[RankRecord]) -> list[WindowSeen]:
    by_window: dict[tuple[int, int], list[tuple[RankRecord, WindowRecord]]] = {}
    for rank_record in ranks:
        for window in rank_record.windows:
            by_window.setdefault((rank_record.restart, window.number), []).append((rank_record, window))
    return [_window(restart, number, by_window[restart, number]) for restart, number in sorted(by_window)]


def _window(restart: int, number: int, parts: Sequence[tuple[RankRecord, WindowRecord]]) -> WindowSeen:
    lost: dict[str, list[int]] = {}
    for record, window in parts:
        if window.state not in CAPTURED:
            lost.setdefault(window.state, []).append(record.rank)
    slowdowns = [window.slowdown for _, window in parts if window.slowdown]
    first = min(window.first_step for _, window in parts)
    return WindowSeen(
        number=number,
        restart=restart,
        # The last step of a window that was cut short may never have ended.
        steps=range(first, max(min(window.first_step + window.steps, record.steps + 1) for record, window in parts)),
        written=sum(window.state in CAPTURED for _, window in parts),
        lost=tuple((state, tuple(ranks)) for state, ranks in lost.items()),
        slowdown=median(slowdowns) if slowdowns else None,
        stall_ns=max(window.stall_ns for _, window in parts),
        size_bytes=sum(window.size_bytes for _, window in parts),
        length_ns=max(window.length_ns for _, window in parts),
    )


# --- notes ------------------------------------------------------------------------------------------------------------


def _ended_before(record: RunRecord, last: Sequence[RankRecord]) -> int | None:
    """How many steps the first window was to wait for, where the job did not make as many."""
    settings = record.settings
    if not settings.get("capture", True) or settings.get("when") or any(rank.windows for rank in record.ranks):
        return None
    after = int(settings.get("after", 0))
    return after if last and 0 < max(rank_record.steps for rank_record in last) <= after + 1 else None


def _notes(ranks: Sequence[RankRecord]) -> Iterable[NoteSeen]:
    """The same note of several ranks is one; its text is that of the first."""
    texts: dict[str, str] = {}
    counts: dict[str, int] = {}
    by_rank: dict[str, dict[int, None]] = {}
    for rank_record in ranks:
        for note in rank_record.notes:
            code = str(note.get("code", ""))
            texts.setdefault(code, str(note.get("text", "")))
            counts[code] = counts.get(code, 0) + int(note.get("count", 1))
            by_rank.setdefault(code, {})[rank_record.rank] = None
    for code, text in texts.items():
        yield NoteSeen(code=code, text=text, count=counts[code], ranks=tuple(by_rank[code]))
