"""What a pattern in a URL means: as in a shell, each part for itself, `**` for any number of folders."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

_HIDDEN = "."


def remote_matches(pattern: Path) -> list[Path]:
    """Objects and folders that match; only what is below the folder before the first pattern is listed."""
    parts = pattern.parts
    first = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts))
    if first == len(parts):
        return [pattern] if pattern.exists() else []
    if first < 3:  # root, scheme and bucket
        return []
    start = pattern
    while len(start.parts) > first:
        start = start.parent
    return list(dict.fromkeys(_matching(start, parts[first:])))


def _matching(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    wanted, further = parts[0], parts[1:]
    for child in folder.iterdir():
        if child.name.startswith(_HIDDEN) and not wanted.startswith(_HIDDEN):
            continue
        if wanted == "**":
            if not further:
                yield child
            if child.is_dir():
                yield from _matching(child, parts)
        elif fnmatchcase(child.name, wanted):
            if not further:
                yield child
            elif child.is_dir():
                yield from _matching(child, further)
    if wanted == "**" and further:
        yield from _matching(folder, further)
