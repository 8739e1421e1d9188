"""The result of `merge` as text for a terminal."""

from redline.report.words import plural, rank_list
from redline.trace.merge import Merged
from redline.units import format_bytes, format_count


def render(merged: Merged) -> str:
    clock = "on one clock" if merged.aligned or len(merged.ranks) == 1 else "on their own clocks (no shared collective)"
    lines = [
        f"{merged.path}: {plural(len(merged.ranks), 'rank')} {clock}, {format_count(merged.events)} events and "
        f"{format_count(merged.arrows)} arrows, {format_bytes(merged.size_bytes)} of JSON; all read back and counted",
    ]
    if merged.left_out_kinds:
        lines.append(f"left out to stay within the budget: {merged.left_out_kinds}")
    if merged.left_out_ranks:
        lines.append(f"left out to stay within the budget: rank {rank_list(merged.left_out_ranks)}")
    return "\n".join(lines) + "\n"
