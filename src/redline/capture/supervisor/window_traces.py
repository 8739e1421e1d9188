"""Traces of the own ranks of a watcher, as they are digested: what each is called, and of which window it is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redline.capture import shared_state as at
from redline.capture.digests_record import FAILED, KEPT, RankDigest
from redline.capture.shared_state import ProcessSlot
from redline.capture.supervisor.rank_records import digest_path, trace_path

TraceKey = tuple[str, int]
"""Path and begin: a number may come again, where steps turned out to be others than thought."""


@dataclass(kw_only=True)
class WindowTrace:
    """A trace that is to be digested, or was."""

    key: TraceKey
    window: tuple[int, int]
    """The restart and the number, by which windows are in order."""
    digest: RankDigest


def trace_key(slot: ProcessSlot, window: memoryview[int]) -> TraceKey:
    return trace_path(slot, window[at.NUMBER]), window[at.FROM_NS]


def window_trace(slot: ProcessSlot, window: memoryview[int]) -> WindowTrace:
    """Of this window, not digested yet."""
    key = trace_key(slot, window)
    restart, number = slot.words[at.RESTART], at.public_number(window[at.NUMBER])
    digest = RankDigest(
        rank=slot.words[at.RANK],
        restart=restart,
        window=number,
        first_step=window[at.FIRST_STEP],
        steps=window[at.CAPTURED_STEPS],
        state=FAILED,
        why="",
        path=digest_path(key[0]),
        size_bytes=0,
        trace_bytes=window[at.BYTES],
        wall_ns=0,
        cpu_ns=0,
        trace=KEPT,
    )
    return WindowTrace(key=key, window=(restart, number), digest=digest)


def remove_digests(folder: Path, traces: Iterable[str]) -> None:
    """Of traces that turned out to be no steps of the job."""
    for trace in traces:
        path = folder / digest_path(trace)
        path.unlink(missing_ok=True)
        for parent in list(path.relative_to(folder).parents)[:-1]:
            with suppress(OSError):  # others have theirs in it
                (folder / parent).rmdir()
