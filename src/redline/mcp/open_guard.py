"""A second fence around the process that serves agents: whatever code asks for it, files outside are not opened,
nothing is written but the cache, and nothing is started.

The first fence resolves and checks the paths that an agent names. This one sees every file that is opened, such as the
record of a run beside its traces, at the moment when that happens.
"""

import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from redline.findings import pages
from redline.mcp.allowed_folders import AllowedFolders
from redline.trace.cache import cache_folder
from redline.trials import lever_pages

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyc", ".so")
_DEVICES = (os.devnull, "/dev/urandom")
_ENTRY = re.compile(r"[0-9a-f]{32}\.[a-z]+(\.[0-9a-f]{8}\.part)?")  # named relative to the folder of the cache
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_STARTS = (
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "socket.bind",
    "socket.connect", "subprocess.Popen",
)  # fmt: skip


def guard_process(folders: AllowedFolders) -> None:
    """From now on, for the rest of this process: an audit hook cannot be taken away again."""
    sys.dont_write_bytecode = True
    readable = tuple(map(os.path.realpath, _own_folders()))
    cache = cache_folder()
    kept = None if cache is None else os.path.realpath(cache)

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(path, str | bytes | os.PathLike):
                writes = isinstance(flags, int) and bool(flags & _WRITES)
                _check(os.fsdecode(path), writes=writes)
        elif event in _CHANGES:
            for path in arguments[: 2 if event == "os.rename" else 1]:
                if isinstance(path, str | bytes | os.PathLike):
                    _check(os.fsdecode(path), writes=True)
        elif event in _STARTS:
            raise PermissionError(f"{event}: nothing is started for an agent")

    def _check(path: str, *, writes: bool) -> None:
        if _ENTRY.fullmatch(path) or path in _DEVICES:
            return
        real = os.path.realpath(path)
        if kept is not None and _is_inside(real, (kept,)):
            return
        if writes or not (real.endswith(_CODE) or _is_inside(real, readable) or folders.has(Path(real))):
            raise PermissionError(1, "outside of the allowed folders")

    sys.addaudithook(refuse)


def _own_folders() -> Iterable[str | Path]:
    """Of Python, of packages and of Redline: what a program reads of itself."""
    yield from (sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages", ".zip")))
    yield from (Path(__file__).parents[1], pages.folder(), lever_pages.folder())


def _is_inside(real: str, folders: Iterable[str]) -> bool:
    return any(real == folder or real.startswith(folder + os.sep) for folder in folders)
