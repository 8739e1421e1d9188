"""Levers of the environment: the process began with them, or did not."""

from __future__ import annotations

import os

import torch

from redline.capture.lever_kinds import PRELOAD
from redline.capture.levers import environment_of
from redline.capture.worker.levers.lever import JobView, LeverEffect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.levers import Lever

_OF_CUDA = ("PYTORCH_CUDA_", "PYTORCH_HIP_", "PYTORCH_ALLOC_")
_PRELOADED = ("jemalloc", "tcmalloc", "mimalloc")
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"  # such as `always [madvise] never`
_LOADED = "/proc/self/maps"
_MEMORY = "/proc/self/smaps_rollup"


class EnvironmentVariables:
    """Proven by what the process began with: libraries read their variables once, whatever the script sets later."""

    def __init__(self, lever: Lever) -> None:
        self._lever = lever

    def install(self, job: JobView) -> None:
        """It was done before the process began."""

    def switch(self, on: bool) -> None:
        """It cannot be."""

    def took(self) -> LeverEffect:
        began = _began_with()
        variables = environment_of(self._lever, began)
        if self._lever.kind.name == PRELOAD and not variables:
            return LeverEffect(False, f"{self._lever.value} is not on this machine, nor in LD_LIBRARY_PATH")
        missing = [name for name, value in variables.items() if began.get(name) != value]
        if missing:
            return LeverEffect(False, f"the process began without {', '.join(missing)}")
        why_not = _why_not(variables, began)
        what = " ".join(f"{name}={value}" for name, value in variables.items())
        return LeverEffect(not why_not, why_not or what)


def _began_with() -> dict[str, str]:
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 (pathlib is slow to import)
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _why_not(variables: dict[str, str], began: dict[str, str]) -> str:
    if any(name.startswith(_OF_CUDA) for name in variables) and not torch.cuda.is_initialized():
        return "the process uses no CUDA device"
    if "LD_PRELOAD" in variables:
        library = variables["LD_PRELOAD"].partition(":")[0]
        is_loaded = os.path.realpath(library) in _text(_LOADED, missing="")
        return "" if is_loaded else f"{library} was not loaded"
    if "THP_MEM_ALLOC_ENABLE" in variables:
        return _why_no_huge_pages()
    preloaded = [name for name in _PRELOADED if name in began.get("LD_PRELOAD", "")]
    if preloaded and any(name.startswith("MALLOC_") for name in variables):
        return f"memory is allocated by {preloaded[0]}, which does not read it"
    return ""


def _why_no_huge_pages() -> str:
    if "[never]" in _text(_HUGE_PAGES, missing="[never]"):
        return f"the kernel gives no huge pages: see {_HUGE_PAGES}"
    used = [line.split()[1] for line in _text(_MEMORY, missing="").splitlines() if line.startswith("AnonHugePages:")]
    return "no memory of the process is in huge pages" if used == ["0"] else ""


def _text(path: str, *, missing: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 (as above)
            return file.read()
    except OSError:
        return missing
