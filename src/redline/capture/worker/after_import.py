"""Tells when a module has been imported, without a loader of ours that tracebacks would show."""

from __future__ import annotations

import os
import sys

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterImport:
    """Finds no module; when one of these is looked for, it sees to it that its function is called once it is there.

    It stays until then: scripts and libraries look for modules, to know whether they could import them.
    """

    def __init__(self, loaded: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._loaded = dict(loaded)
        self._pid = os.getpid()
        self._looking = False
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._loaded or self._looking or os.getpid() != self._pid:
            return None
        from importlib.util import find_spec

        self._looking = True
        try:
            spec = find_spec(name)
        finally:
            self._looking = False
        if spec is not None:
            with tolerated(Exception):  # a finder of the script may have made it of a class that allows nothing
                self._tell_when_loaded(spec)
        return spec

    def _tell_when_loaded(self, spec: ModuleSpec) -> None:
        """Python writes into the spec when a module is loaded. A loader of ours would show in tracebacks."""
        plain = type(spec)

        class Told(plain):  # type: ignore[valid-type, misc]
            def __setattr__(told, name: str, value: object) -> None:  # noqa: N805 (self is the one outside)
                object.__setattr__(told, name, value)
                if name == "_initializing" and not value:
                    told.__class__ = plain  # type: ignore[assignment]
                    self._is_there(told.name)

        spec.__class__ = Told

    def _is_there(self, name: str) -> None:
        module = sys.modules.get(name)
        if module is None or name not in self._loaded:  # it could not be imported; or it is known already
            return
        loaded = self._loaded.pop(name)
        if not self._loaded and self in sys.meta_path:
            sys.meta_path.remove(self)
        loaded(module)
