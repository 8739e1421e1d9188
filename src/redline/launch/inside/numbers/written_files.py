"""Which files a script writes outside of the folder that it was given to write to: its user's own, perhaps."""

from __future__ import annotations

import os
import sys

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 100
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_HARMLESS = ("/dev/", "/proc/", "/sys/", "/memfd:")
_CACHES = ("__pycache__", "/.cache/", "/.triton/", "/torchinductor_", "/torchelastic_")


class WrittenFiles:
    """The first of them."""

    def __init__(self, is_here: Callable[[], bool]) -> None:
        self._is_here = is_here
        self._own = os.path.realpath(os.getcwd()) + "/"  # noqa: PTH109
        self._known: set[str] = set()
        sys.addaudithook(self._audited)
        self._watch_save()

    def left(self) -> list[str]:
        """Those that are still there: libraries try out where they may write."""
        return [path for path in sorted(self._known) if os.path.exists(path)]  # noqa: PTH110

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_file = event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int)
        if is_file and arguments[2] & _WRITES:
            self._written(arguments[0])

    def _watch_save(self) -> None:
        """torch opens the file of a checkpoint itself."""
        plain = torch.save

        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(f, str | os.PathLike):
                self._written(os.fspath(f))
            plain(obj, f, *args, **kwargs)

        torch.save = save

    def _written(self, path: str) -> None:
        if len(self._known) >= _MOST or not self._is_here():
            return
        real = os.path.realpath(path)
        is_own = real.startswith((self._own, *_HARMLESS)) or any(cache in real for cache in _CACHES)
        if not is_own:
            self._known.add(real)
