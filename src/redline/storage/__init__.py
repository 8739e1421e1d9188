"""Files in object stores and on file systems of clusters, named by URLs, for whoever takes or writes a path."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_OF_THIS_MACHINE = "file"
_LONGEST_NAME, _LONGEST_PATH = 255, 4_095  # bytes, of each part of a path and of all
_LOOKS = 4  # at a folder in which others are removed meanwhile
_SIDE_BY_SIDE = 16  # requests for the beginnings of objects


def is_url(name: str | os.PathLike[str]) -> bool:
    return isinstance(name, str) and _URL.match(name) is not None


def path_of(name: str | os.PathLike[str]) -> Path:
    """The path of a name: one on this machine, or one whose text is a URL. Nothing is asked of a store yet."""
    if not is_url(name):
        _refuse_too_long(str(name))
        return name if isinstance(name, Path) else Path(name)
    from redline.storage.remote_path import remote_path
    from redline.storage.urls import local_of_file_url

    text = str(name)
    return local_of_file_url(text) if text.split(":", 1)[0].lower() == _OF_THIS_MACHINE else remote_path(text)


def _refuse_too_long(name: str) -> None:
    if len(name) > _LONGEST_PATH or any(len(os.fsencode(part)) > _LONGEST_NAME for part in Path(name).parts):
        from redline.errors import InputError

        raise InputError(f"{name[:40]}...: no file has a name of {len(name):,} characters; check it")


def path_of_this_machine(name: str | os.PathLike[str], what: str) -> Path:
    """For what is written while a job runs. UsageError for a URL of a store; `what` begins with the verb."""
    path = path_of(name)
    if is_remote(path):
        from redline.errors import UsageError

        raise UsageError(f"{what} is written while the job runs, so {path} cannot be it; name one of this machine")
    return path


def shown(name: str | os.PathLike[str]) -> str:
    """How a name is shown: of a URL, without what gives access."""
    if not is_url(name):
        return str(name)
    from redline.storage.urls import public_text

    return public_text(str(name))


def is_remote(path: Path) -> bool:
    from redline.artifacts import StoredPath

    return isinstance(path, StoredPath)


@contextmanager
def released_after(path: Path) -> Iterator[None]:
    """Remove the local copy of an object, if one is made, when the work on it is done."""
    try:
        yield
    finally:
        if is_remote(path):
            from redline.storage.spool import release

            release(path)


def ahead(paths: Sequence[Path]) -> Iterable[Path]:
    """The same paths; digests in a store are fetched a little before their turn."""
    if not all(map(is_remote, paths)):
        return paths
    from redline.storage.fetch import fetched_ahead

    return fetched_ahead(paths)


def look_anew(path: Path) -> None:
    """Forget what is known of a store at and below this path: whoever names it anew wants it as it is now."""
    if is_remote(path):
        from redline.storage.known_objects import forget

        forget(str(path))


@contextmanager
def beginning_of(path: Path, most_bytes: int) -> Iterator[Path]:
    """The file itself, or of an object a file of its first bytes: enough to tell what it is."""
    from redline.artifacts import StoredPath

    if not isinstance(path, StoredPath):
        yield path
        return
    data = path.beginning(most_bytes)
    with path.local_part() as part:
        part.write_bytes(data)
        yield part


def matches(pattern: str) -> list[Path]:
    """The paths that match a pattern, by the rules of `glob`."""
    import glob

    if not is_remote(path_of(pattern)):
        return [Path(match) for match in glob.glob(pattern, recursive=True)]  # noqa: PTH207 (absolute patterns)
    from redline.storage.listing import remote_matches

    return remote_matches(path_of(pattern))


def below(folder: Path, pattern: str) -> list[Path]:
    """The paths in the folder and below that match, looked for again where a folder in it is gone meanwhile."""
    reason = ""
    for _ in range(_LOOKS):
        try:
            return list(folder.rglob(pattern))
        except OSError as error:
            reason = f"{error.filename or folder}: {error.strerror or error}"
    from redline.errors import InputError

    raise InputError(f"{folder}: what is in it cannot be listed ({reason}); name what is to be read")


def kept(is_wanted: Callable[[Path], bool], paths: Iterable[Path]) -> list[Path]:
    """Those for which it holds; in a store several are looked at side by side, as each look is a request."""
    known = list(paths)
    if not any(map(is_remote, known)):
        return [path for path in known if is_wanted(path)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
        return [path for path, wanted in zip(known, threads.map(is_wanted, known), strict=True) if wanted]
