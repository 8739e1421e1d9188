"""A run that is over, on one screen."""

from __future__ import annotations

from pathlib import Path

from redline.launch.outside.stall import Stall
from redline.launch.run_record import RunRecord


def render(record: RunRecord, folder: Path | None) -> str:
    """Steps, their lengths, ranks that stand out, what was captured and what went wrong."""
    lines = [f"redline: {len(record.ranks)} ranks, {folder}"]
    lines += [f"  rank {one.rank}: {one.steps} steps, {one.step_ns} ns" for one in record.ranks]
    return "\n".join(lines) + "\n"


def render_stall(stall: Stall, path: Path | None) -> str:
    """Where each rank stands."""
    lines = [f"redline: no step for {stall.after_s:.0f} s; ranks {stall.held_by} hold it up; {path}"]
    lines += [f"  rank {one.rank}: step {one.steps}, {one.state}, {one.user}" for one in stall.ranks]
    return "\n".join(lines) + "\n"
