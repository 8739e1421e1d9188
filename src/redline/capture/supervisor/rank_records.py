"""From the shared state, once the job is over, to the record of each rank."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from redline.artifacts.masking import masked_value
from redline.capture import shared_state as at
from redline.capture.run_record import DIGESTS, FAILED, KEPT, RankDigest, RankRecord, WindowRecord
from redline.capture.shared_state import ProcessSlot
from redline.capture.supervisor.supervise import facts_of

_STATES = {
    at.EXPORTING: "killed",
    at.WRITTEN: "written",
    at.LOST_SPACE: "no space",
    at.LOST_INCOMPLETE: "incomplete",
    at.LOST_ERROR: "failed",
    at.LOST_KILLED: "killed",
}
_KINDS = {at.BY_NOTHING: "none", at.BY_OPTIMIZER: "optimizer", at.BY_CALLS: "calls", at.BY_HAND: "by hand"}
TRACE_ENDING = ".trace.json.gz"
_FIRST_STEPS = 3  # left out of the usual ones, where there are enough others
TraceKey = tuple[str, int]
"""Path and begin: a number may come again, where steps turned out to be others than thought."""


def never_deleted(slot: ProcessSlot, window: memoryview[int]) -> bool:
    """Where traces are not deleted once they are digested."""
    return False


def rank_record(
    slot: ProcessSlot, is_deleted: Callable[[ProcessSlot, memoryview[int]], bool] = never_deleted
) -> RankRecord:
    words = slot.words
    facts = masked_value(facts_of(slot))
    notes = facts.pop("notes", [])
    steps = _usual(slot)
    usual = sorted(length_ns for length_ns, _ in steps)
    step_ns = _quantile(usual, 0.5)
    return RankRecord(
        rank=words[at.RANK],
        restart=words[at.RESTART],
        host=str(facts.pop("host", platform.node())),
        pid=words[at.PID],
        steps=words[at.STEPS],
        step_kind=_KINDS.get(words[at.KIND], "none"),
        step_ns=step_ns,
        step_p10_ns=_quantile(usual, 0.1),
        step_p90_ns=_quantile(usual, 0.9),
        slowest_ns=max(usual, default=None),
        step_mean_ns=sum(usual) // len(usual) if usual else None,
        step_wait_ns=sum(waited_ns for _, waited_ns in steps) // len(steps) if steps else None,
        input_wait_ns=words[at.LOADER_NS],
        batches=words[at.BATCHES],
        peak_bytes=words[at.PEAK_BYTES],
        capture_cost_ns=words[at.COST_NS],
        finished=bool(words[at.LEFT]),
        windows=tuple(_window(window, slot, step_ns, is_deleted(slot, window)) for window in _own_windows(slot)),
        notes=tuple(notes) if isinstance(notes, list) else (),
        facts=facts,
    )


def _usual(slot: ProcessSlot) -> list[tuple[int, int]]:
    """Length and wait for data of the steps that were not captured, without the first ones, in order."""
    lengths_ns, waits_ns, stride = slot.steps()
    captured = {step for window in _own_windows(slot) for step in _touched(window)}
    known = [
        (length_ns // stride, waited_ns // stride)
        for index, (length_ns, waited_ns) in enumerate(zip(lengths_ns, waits_ns, strict=True))
        if length_ns and captured.isdisjoint(range(index * stride + 1, (index + 1) * stride + 1))
    ]
    return known[_FIRST_STEPS:] if len(known) > 2 * _FIRST_STEPS else known


def _own_windows(slot: ProcessSlot) -> list[memoryview[int]]:
    return [window for window in slot.windows() if window[at.STATE] != at.DISOWNED]


def _touched(window: memoryview[int]) -> range:
    """The steps of a window, the one before in which the profiler warmed up, and the one after, with its closing."""
    first = window[at.FIRST_STEP]
    return range(first - 1, first + window[at.CAPTURED_STEPS] + 1)


def trace_path(slot: ProcessSlot, number: int) -> str:
    """The path of the trace of this window, in the folder of the run."""
    rank, restart = slot.words[at.RANK], slot.words[at.RESTART]
    folder = f"restart-{restart}/" if restart else ""
    return f"{folder}{at.window_name(number)}/rank-{rank}{TRACE_ENDING}"


def digest_path(trace: str) -> str:
    """The path of the digest of this trace; both in the folder of the run."""
    return f"{DIGESTS}/{trace.removesuffix(TRACE_ENDING)}{DIGEST_ENDING}"


def _quantile(ordered: Sequence[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))] if ordered else None


def _window(window: memoryview[int], slot: ProcessSlot, step_ns: int | None, deleted: bool) -> WindowRecord:
    steps = window[at.CAPTURED_STEPS]
    length_ns = max(0, window[at.TO_NS] - window[at.FROM_NS])
    words = [window[at.CHECKSUM + index].to_bytes(8, "little", signed=True) for index in range(4)]
    state = _STATES.get(window[at.STATE], "killed")
    return WindowRecord(
        number=at.public_number(window[at.NUMBER]),
        state="digested" if deleted else state,
        first_step=window[at.FIRST_STEP],
        steps=steps,
        length_ns=length_ns,
        stall_ns=window[at.STALL_NS],
        writing_ns=window[at.WRITING_NS],
        writing_cpu_ns=window[at.WRITING_CPU_NS],
        path=trace_path(slot, window[at.NUMBER]),
        raw_bytes=window[at.RAW_BYTES],
        size_bytes=window[at.BYTES],
        sha256=b"".join(words).hex() if state == "written" else "",
        slowdown=length_ns / steps / step_ns if steps and step_ns else None,
    )


@dataclass(kw_only=True)
class WindowTrace:
    """A trace that is to be digested, or was."""

    key: TraceKey
    window: tuple[int, int]  # the restart and the number, by which windows are in order
    digest: RankDigest


def trace_key(slot: ProcessSlot, window: memoryview[int]) -> TraceKey:
    return trace_path(slot, window[at.NUMBER]), window[at.FROM_NS]


def window_trace(slot: ProcessSlot, window: memoryview[int]) -> WindowTrace:
    """The trace of this window, not digested yet."""
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
    """Remove the digests of traces that turned out to be no steps of the job."""
    for trace in traces:
        path = folder / digest_path(trace)
        path.unlink(missing_ok=True)
        for parent in list(path.relative_to(folder).parents)[:-1]:
            with suppress(OSError):  # others have theirs in it
                (folder / parent).rmdir()
