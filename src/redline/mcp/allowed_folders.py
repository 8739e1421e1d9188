"""The only folders that tools may read: each path that is asked for is resolved, checked, and used as resolved."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.errors import InputError, UsageError
from redline.job.find_files import find_traces
from redline.mcp.bounded_answer import escaped, shortened
from redline.report.terminal import is_hidden

MOST_ENTRIES = 200_000  # of a folder that is searched: a home or a disk is asked for by mistake
MOST_PATH_LETTERS = 1_500  # of all paths of a question together: they are repeated in the command that verifies it
_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:{1,2}/|(?:file|data|https?|s3|gs|hdfs|ftp):", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[\]{}]")


@dataclass(frozen=True, kw_only=True)
class AllowedFolders:
    """Folders without links in their names. Names that are not absolute are looked up in each of them in turn."""

    roots: tuple[Path, ...]

    def path(self, name: str) -> Path:
        """The file or folder of this name, without links. UsageError where it is outside, or no path at all."""
        _refuse_odd(name)
        inside = [path for path in self._resolved(name) if self.has(path)]
        if not inside:
            raise UsageError(f"outside of the allowed folders ({self.told}): {_shown(name)}")
        found = next((path for path in inside if os.path.lexists(path)), None)
        if found is None:
            raise InputError(f"no such file or folder in the allowed folders ({self.told}): {_shown(name)}")
        if not (found.is_file() or found.is_dir()):
            raise InputError(
                f"{_shown(name)}: neither an ordinary file nor a folder; give a trace or a folder of traces"
            )
        if any(map(is_hidden, str(found))):
            raise UsageError(f"{_shown(str(found))}: has control characters in its name; rename it first")
        return found

    def paths(self, names: Sequence[str]) -> list[Path]:
        """Each of these names; together they are short enough for a command line."""
        resolved = [self.path(name) for name in names]
        if sum(len(str(path)) + 1 for path in resolved) > MOST_PATH_LETTERS:
            raise UsageError(
                f"the paths have more than {MOST_PATH_LETTERS:,} letters; give the folder that they are in"
            )
        return resolved

    def traces(self, paths: Sequence[Path], *, digests: bool) -> list[Path]:
        """The trace files that these paths mean, each inside of the allowed folders, wherever links lead."""
        for folder in paths:
            if folder.is_dir():
                self._refuse_links_out(folder)
        files = [Path(os.path.realpath(file)) for file in find_traces(paths, digests=digests)]
        outside = next((file for file in files if not self.has(file)), None)
        if outside is not None:  # it was made a link since the folder was searched
            raise UsageError("a trace is a link out of the allowed folders; ask for its folder again")
        return files

    def has(self, path: Path) -> bool:
        """Whether a path without links is inside; of what the system makes up, only if that itself was allowed."""
        return any(
            path.is_relative_to(root)
            and all(_is_below(root, made_up) or not _is_below(path, made_up) for made_up in _SYSTEM)
            for root in self.roots
        )

    @property
    def told(self) -> str:
        """The folders in one line."""
        more = len(self.roots) - 3
        return ", ".join(_shown(str(root)) for root in self.roots[:3]) + (f" and {more} more" if more > 0 else "")

    def _resolved(self, name: str) -> Iterator[Path]:
        for root in self.roots:
            try:
                yield Path(os.path.realpath(root / name))
            except (OSError, ValueError) as error:
                raise UsageError(f"{_shown(name)}: no path that a file can have") from error

    def _refuse_links_out(self, folder: Path) -> None:
        entries = 0
        for parent, folders, files in os.walk(folder):
            entries += len(folders) + len(files)
            if entries > MOST_ENTRIES:
                raise UsageError(
                    f"{_shown(str(folder))}: more than {MOST_ENTRIES:,} files; give the folder of one recording"
                )
            for name in (*folders, *files):
                path = os.path.join(parent, name)  # noqa: PTH118 (there may be many)
                if os.path.islink(path) and not self.has(Path(os.path.realpath(path))):  # noqa: PTH114
                    raise UsageError(f"{_shown(path)}: a link out of the allowed folders; give the traces themselves")


def allowed_folders(names: Sequence[str]) -> AllowedFolders:
    """The folders that were allowed at start. UsageError for what is none."""
    roots = []
    for name in names:
        root = Path(os.path.realpath(Path(name).expanduser()))
        if not root.is_dir():
            raise UsageError(f"{_shown(name)}: no such folder; `allow=...` takes one that exists")
        if root == Path(root.anchor):
            raise UsageError(f"{_shown(name)}: the whole disk; `allow=...` takes folders that hold recordings")
        roots.append(root)
    return AllowedFolders(roots=tuple(dict.fromkeys(roots)))


def _refuse_odd(name: str) -> None:
    if not name.strip():
        raise UsageError("an empty path was given; give a trace or a folder of traces")
    if any(map(is_hidden, name)):
        raise UsageError(f"{_shown(name)}: has control characters; give a plain path")
    if name.startswith("~"):
        raise UsageError(f"{_shown(name)}: ~ is not expanded; give a path inside the allowed folders")
    if _URL.match(name):
        raise UsageError(f"{_shown(name)}: a URL; only files in the allowed folders are read")
    if _PATTERN.search(name):
        raise UsageError(f"{_shown(name)}: patterns are not expanded; give the files or their folder")


def _is_below(path: Path, parent: Path) -> bool:
    return path.is_relative_to(parent)


def _shown(name: str) -> str:
    return shortened(escaped(name), 200)
