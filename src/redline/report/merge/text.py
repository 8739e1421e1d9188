"""The result of `merge` as text for a terminal."""

from redline.ranks.merge import Merged
from redline.report.terminal import as_text
from redline.report.text_parts import clipped, plural, rank_list
from redline.units import format_bytes, format_count


def render(merged: Merged) -> str:
    lines = [
        f"{merged.path}: {plural(len(merged.ranks), 'rank')}{_clock(merged)}, {format_count(merged.events)} events and "
        f"{format_count(merged.arrows)} arrows, {format_bytes(merged.size_bytes)} of JSON; all read back and counted",
    ]
    if merged.changes:
        lines.append(f"altered by {clipped('; '.join(merged.changes), 200)}, not measured")
    if merged.drawn:
        lines.append(f"critical path of the steps: {plural(merged.drawn, 'slice')}, in the process above the ranks")
    if merged.no_path:
        lines.append(f"no critical path: {merged.no_path}")
    if merged.left_out_kinds:
        lines.append(f"left out to stay within the budget: {merged.left_out_kinds}")
    if merged.left_out_ranks:
        lines.append(f"left out to stay within the budget: rank {rank_list(merged.left_out_ranks)}")
    if merged.on_own_clocks and len(merged.ranks) > 1:
        lines.append(f"on their own clocks, without a shared collective: rank {rank_list(merged.on_own_clocks)}")
    if merged.missing_ranks:
        lines.append(f"missing: no trace of rank {rank_list(merged.missing_ranks)}")
    lines += ["unread: " + clipped(failure.message.replace("\n", " "), limit=300) for failure in merged.failures]
    return as_text([lines])


def _clock(merged: Merged) -> str:
    return "" if merged.on_own_clocks or len(merged.ranks) == 1 else " on one clock"
