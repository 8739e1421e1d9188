"""The result of `digest` as text for a terminal: what was written, and what did not fit."""

from collections.abc import Sequence

from redline.ranks.read_failures import Failure
from redline.report.terminal import as_text
from redline.report.text_parts import clipped, plural
from redline.units import format_bytes


def render(
    folder: str,
    *,
    ranks: int,
    size_bytes: int,
    largest_bytes: int,
    left_out: int,
    failures: Sequence[Failure] = (),
) -> str:
    lines = [
        f"wrote {clipped(folder, 1000)}: {plural(ranks, 'digest')}, {format_bytes(size_bytes)}, "
        f"the largest {format_bytes(largest_bytes)}"
    ]
    if left_out:
        lines.append(
            f"left out: the last exchanges of {plural(left_out, 'digest')}; waiting there cannot be told from transfer"
        )
    lines += ["unread: " + clipped(failure.message.replace("\n", " "), limit=300) for failure in failures]
    return as_text([lines])
