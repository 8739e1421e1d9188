"""What `merge` and `digest` wrote, and what did not fit or could not be read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redline.job.merge import Merged
from redline.job.read_failures import Failure
from redline.report.document import Document, Items
from redline.report.text_parts import about_some_ranks, clipped, plural, rank_list
from redline.units import format_bytes, format_count


@dataclass(frozen=True, kw_only=True)
class DigestResult:
    """Digests that were written, and which files could not be read."""

    paths: tuple[Path, ...]
    size_bytes: int
    largest_bytes: int
    left_out: int  # digests that had to leave out exchanges: waiting in those cannot be told from transfer
    failures: tuple[Failure, ...]


def document_of_lines(lines: Iterable[str]) -> Document:
    """Each as long as it is."""
    return Document(blocks=(Items(items=tuple(lines), mark="", rest="  "),), has_long_lines=True)


def unread(failures: Iterable[Failure]) -> Iterator[str]:
    """A line for each file."""
    return ("unread: " + clipped(failure.message.replace("\n", " "), limit=300) for failure in failures)


def document_of_digests(result: DigestResult, folder: str) -> Document:
    """`folder` is where they are, as it may be shown."""
    if not result.paths:
        nothing = f"nothing to write to {clipped(folder, 1000)}: there are fewer traces than parts"
        return document_of_lines([nothing])
    about = about_some_ranks(len(result.paths), 0, result.failures)
    lines = [
        *([about] if about else []),
        f"wrote {clipped(folder, 1000)}: {plural(len(result.paths), 'digest')}, {format_bytes(result.size_bytes)}, "
        f"the largest {format_bytes(result.largest_bytes)}",
    ]
    if result.left_out:
        cut = plural(result.left_out, "digest")
        lines.append(f"left out: the last exchanges of {cut}; waiting there is counted as transfer")
    return document_of_lines([*lines, *unread(result.failures)])


def document_of_merge(merged: Merged) -> Document:
    return document_of_lines([*_merged(merged), *unread(merged.failures)])


def _merged(merged: Merged) -> Iterator[str]:
    about = about_some_ranks(len(merged.ranks), len(merged.ranks) + len(merged.missing_ranks), merged.failures)
    if about:
        yield about
    clock = "" if merged.on_own_clocks or len(merged.ranks) == 1 else " on one clock"
    yield (
        f"{merged.path}: {plural(len(merged.ranks), 'rank')}{clock}, {format_count(merged.events)} events and "
        f"{format_count(merged.arrows)} arrows, {format_bytes(merged.size_bytes)} of JSON; all read back and counted"
    )
    if merged.changes:
        yield f"altered by {clipped('; '.join(merged.changes), 200)}, not measured"
    if merged.drawn:
        yield f"critical path of the steps: {plural(merged.drawn, 'slice')}, in the process above the ranks"
    if merged.no_path:
        yield f"no critical path: {merged.no_path}"
    if merged.left_out_kinds:
        yield f"left out to stay within the budget: {merged.left_out_kinds}"
    if merged.left_out_ranks:
        yield f"left out to stay within the budget: rank {rank_list(merged.left_out_ranks)}"
    if merged.on_own_clocks and len(merged.ranks) > 1:
        yield f"on their own clocks, without a shared collective: rank {rank_list(merged.on_own_clocks)}"
    if merged.missing_ranks:
        yield f"missing: no trace of rank {rank_list(merged.missing_ranks)}"
