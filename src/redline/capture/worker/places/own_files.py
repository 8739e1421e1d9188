"""Which files are the user's own, and which of the frames that run are in them."""

from __future__ import annotations

import os
import sys
import sysconfig

import torch

import redline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, ModuleType

_INSTALLED = ("/site-packages/", "/dist-packages/")


class OwnFiles:
    """Those of neither Python, torch, Redline nor an installed package; what has no file is nobody's."""

    def __init__(self) -> None:
        self._start = os.getcwd()  # noqa: PTH109
        libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
        self._torch, self._redline = _folder(torch), _folder(redline)
        self._others = (*(os.path.realpath(path) + os.sep for path in libraries if path), self._torch, self._redline)
        self._known: dict[str, str] = {}

    def path(self, code: CodeType) -> str:
        """The real path of the file in which this code stands: a folder of trials is full of links."""
        name = code.co_filename
        if name not in self._known:
            self._known[name] = os.path.realpath(os.path.join(self._start, name))  # noqa: PTH118
        return self._known[name]

    def is_own(self, code: CodeType) -> bool:
        path = self.path(code)
        is_installed = any(part in path for part in _INSTALLED) or path.startswith(self._others)
        return not is_installed and os.path.isfile(path)  # noqa: PTH113

    def is_of_torch(self, code: CodeType) -> bool:
        return self.path(code).startswith(self._torch)

    def outwards(self, frame: FrameType | None) -> Iterator[FrameType]:
        """From this frame to its callers, without those of Redline."""
        while frame is not None:
            if not self.path(frame.f_code).startswith(self._redline):
                yield frame
            frame = frame.f_back

    def script(self) -> str:
        """The main script, if it is a file."""
        name = getattr(sys.modules.get("__main__"), "__file__", None)
        return os.path.realpath(os.path.join(self._start, name)) if isinstance(name, str) else ""  # noqa: PTH118


def _folder(package: ModuleType) -> str:
    return os.path.realpath(os.path.dirname(str(package.__file__))) + os.sep  # noqa: PTH120
