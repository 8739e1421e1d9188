"""The result of `digest` as text for a terminal: what was written, and what did not fit."""

from redline.report.digest.digest_result import DigestResult
from redline.report.terminal import as_text
from redline.report.text_parts import clipped, plural
from redline.units import format_bytes


def render(result: DigestResult, folder: str) -> str:
    """`folder` is where they are, as it may be shown."""
    if not result.paths:
        return as_text([[f"nothing to write to {clipped(folder, 1000)}: there are fewer traces than parts"]])
    lines = [
        f"wrote {clipped(folder, 1000)}: {plural(len(result.paths), 'digest')}, {format_bytes(result.size_bytes)}, "
        f"the largest {format_bytes(result.largest_bytes)}"
    ]
    if result.left_out:
        cut = plural(result.left_out, "digest")
        lines.append(f"left out: the last exchanges of {cut}; waiting there is counted as transfer")
    lines += ["unread: " + clipped(failure.message.replace("\n", " "), limit=300) for failure in result.failures]
    return as_text([lines])
