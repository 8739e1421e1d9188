"""Ends a trial before it writes to the user's files: a script that is run many times must leave them as they are.

What it writes elsewhere is known afterwards.
Python tells of files that it opens, renames or removes. Libraries in C++ and Rust do not, so torch.save and safetensors
are asked about their files before they write. Not seen: what other programs do that the script starts, and libraries
that write by themselves, such as HDF5 or SQLite.
"""

from __future__ import annotations

import os
import pathlib
import sys

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from redline.capture.settings import Settings

    Tell = Callable[[str], None]

EXIT_CODE = 3
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_THE_SYSTEM = ("/dev", "/proc", "/sys")
_OF_TORCH = ("/torchinductor_", "/torchelastic_")  # in folders for temporary files
_MOST_KNOWN = 100

# Events of Python, with the places of their paths and of the folder that each path is relative to.
_ENTRIES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "shutil.rmtree": ((0, 1),),
}
_REMOVES = ("os.remove", "os.rmdir", "shutil.rmtree")
_CONTENTS = {
    "os.truncate": 0,
    "os.chmod": 0,
    "os.utime": 0,
    "shutil.copyfile": 1,
    "shutil.move": 1,
    "shutil.unpack_archive": 1,
}


class FileGuard:
    """The guard of one process and of those that it forks."""

    here: FileGuard | None = None

    def __init__(self, guarded: Sequence[str], allowed: Sequence[str], tell: Tell | None) -> None:
        self._guarded = [os.path.realpath(folder) for folder in guarded]
        temporary = os.path.realpath(os.environ.get("TMPDIR", "/tmp"))
        is_inside = any(_is_in(temporary, folder) and temporary != folder for folder in self._guarded)
        own = [os.path.realpath(folder) for folder in allowed if folder]
        self._allowed = [*own, *_OF_THE_SYSTEM, *([temporary] if is_inside else [])]
        self._elsewhere: dict[str, None] = {}
        self._pid = os.getpid()
        self.tell = tell  # None where nobody would hear it

    def check(self, path: object) -> None:
        """Before something is written to the file that this path leads to."""
        if isinstance(path, int):
            return
        found = self._refuse_if_guarded(path, os.path.realpath)
        if found and len(self._elsewhere) < _MOST_KNOWN and os.getpid() == self._pid and not self._is_known(found):
            self._elsewhere[found] = None

    def written_elsewhere(self) -> list[str]:
        """Files outside of all folders that it was given. Those that are gone were a library's trials where it may."""
        return [path for path in sorted(self._elsewhere) if pathlib.Path(path).exists()]

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """Hear of an event before Python does it."""
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITES:
                self.check(args[0])
        elif event in _ENTRIES:
            for path, folder in _ENTRIES[event]:
                self._check_entry(event, args[path], args[folder] if folder < len(args) else -1)
        elif event in _CONTENTS:
            self.check(args[_CONTENTS[event]])

    def _check_entry(self, event: str, path: object, folder: int) -> None:
        """Before a name is entered into a folder or removed from it. What must fail changes nothing."""

        def located(name: str) -> str:
            above, last = os.path.split(name.rstrip("/"))
            beside = f"/proc/self/fd/{folder}" if folder >= 0 else ""
            found = os.path.realpath(os.path.join(beside, above) or ".")  # noqa: PTH118
            return os.path.realpath(f"{found}/{last}") if last in ("", ".", "..") else f"{found.rstrip('/')}/{last}"

        self._refuse_if_guarded(path, located, fails_if_there=event == "os.mkdir", fails_if_not=event in _REMOVES)

    def _refuse_if_guarded(
        self,
        path: Any,
        located: Callable[[str], str],
        *,
        fails_if_there: bool = False,
        fails_if_not: bool = False,
    ) -> str:
        """Where it leads to."""
        try:
            found = located(os.fsdecode(path))
        except (TypeError, ValueError, OSError):  # the script has it wrong, and will hear it from Python
            return ""
        is_there = os.path.lexists(found)
        if self._is_guarded(found) and not (fails_if_there if is_there else fails_if_not):
            self._refuse(found)
        return found

    def _is_allowed(self, found: str) -> bool:
        return any(_is_in(found, folder) for folder in self._allowed)

    def _is_known(self, found: str) -> bool:
        return self._is_allowed(found) or _is_cache(found) or any(name in found for name in _OF_TORCH)

    def _is_guarded(self, found: str) -> bool:
        if self._is_allowed(found):
            return False
        return any(_is_in(found, folder) and not _is_cache(found[len(folder) :]) for folder in self._guarded)

    def _refuse(self, found: str) -> None:
        if os.getpid() != self._pid or self.tell is None:
            raise PermissionError(f"a trial does not write to {found}")
        self.tell(found)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001 (of whichever class the script has put there)
                continue
        os._exit(EXIT_CODE)


def guard_files(settings: Settings, tell: Tell | None) -> None:
    """From now on, until the process ends."""
    guard = FileGuard.here = FileGuard(settings.guarded, (settings.scratch, settings.folder), tell)

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" or event.startswith(("os.", "shutil.")):
            guard.heard(event, args)

    sys.addaudithook(heard)
    sys.meta_path.insert(0, _AfterSafetensors(guard))


def guard_torch(torch: Any, tell: Tell) -> None:
    """torch.save and torch.jit.save open their files in C++."""
    guard = FileGuard.here
    if guard is None:
        return
    guard.tell, check = tell, guard.check
    plain, save = torch._C.PyTorchFileWriter, torch.jit.RecursiveScriptModule.save

    class PyTorchFileWriter(plain):  # type: ignore[valid-type, misc]
        def __init__(self, file: object, *args: Any, **kwargs: Any) -> None:
            if isinstance(file, str | bytes | os.PathLike):
                check(file)
            super().__init__(file, *args, **kwargs)

    def checked_save(module: Any, f: object, **kwargs: Any) -> Any:
        check(f)
        return save(module, f, **kwargs)

    torch._C.PyTorchFileWriter = PyTorchFileWriter
    torch.jit.RecursiveScriptModule.save = checked_save


class _AfterSafetensors:
    """Finds no module; when safetensors is looked for, it sees to it that its writer in Rust is asked."""

    def __init__(self, guard: FileGuard) -> None:
        self._guard = guard
        self._is_looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "safetensors" or self._is_looking:
            return None
        from importlib.util import find_spec

        self._is_looking = True
        try:
            spec = find_spec(name)
        finally:
            self._is_looking = False
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            load = loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                self._wrap(module)

            loader.exec_module = exec_module
        return spec

    def _wrap(self, safetensors: Any) -> None:
        """Its parts for torch and numpy take the writer from here when they are imported."""
        plain = safetensors.serialize_file
        guard = self._guard

        def serialize_file(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
            guard.check(filename)
            return plain(tensors, filename, *args, **kwargs)

        safetensors.serialize_file = serialize_file


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_cache(relative: str) -> bool:
    """Compiled code of Python, and hidden folders for caches."""
    parts = relative.split("/")
    if "__pycache__" in parts:
        return True
    hidden = next((at for at, part in enumerate(parts) if part.startswith(".")), len(parts))
    return any("cache" in part for part in parts[hidden:])
