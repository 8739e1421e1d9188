"""Allocators of memory that are on this machine, to be loaded into a process before any other library."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"),
    "tcmalloc": ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libtcmalloc.so", "libtcmalloc_minimal.so"),
}
_MACHINE = os.uname().machine
_FOLDERS = (f"/usr/lib/{_MACHINE}-linux-gnu", f"/lib/{_MACHINE}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")


def with_allocator(name: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """LD_PRELOAD with the library in front of what is there already; nothing where the machine does not have it."""
    library = _library(name, inherited)
    if library is None:
        return {}
    others = [path for path in inherited.get("LD_PRELOAD", "").replace(":", " ").split() if path != library]
    return {"LD_PRELOAD": ":".join([library, *others])}


def _library(name: str, inherited: Mapping[str, str]) -> str | None:
    conda = inherited.get("CONDA_PREFIX", "")
    of_user = [*inherited.get("LD_LIBRARY_PATH", "").split(":"), f"{conda}/lib" if conda else ""]
    paths = (f"{folder}/{file}" for folder in (*of_user, *_FOLDERS) if folder for file in _NAMES[name])
    return next((path for path in paths if os.path.isfile(path)), None)  # noqa: PTH113 (pathlib is slow to import)
