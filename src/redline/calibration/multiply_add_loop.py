"""Makes the loop of repeated multiply-adds, for processors by the system's C compiler, for CUDA by torch.compile."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from redline.calibration.device import ProbeDevice

_SOURCE = Path(__file__).with_name("chain.c")
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast", "-fopenmp", "-shared", "-fPIC")
COMPILE_S = 60.0


class NoCompilerError(Exception):
    """The loop cannot be made here."""


@dataclass(frozen=True)
class Chain:
    """The loop, ready to be called."""

    method: str
    block: int
    """Arrays have a multiple of so many elements."""
    call: Callable[[torch.Tensor, torch.Tensor, int], Callable[[], object]]
    """Takes where to read, where to write and how many multiply-adds; gives a call."""


def make_chain(device: ProbeDevice, limit_s: float = COMPILE_S) -> Chain:
    """Raises NoCompilerError where there is no compiler, or none that can do it within the limit."""
    return Chain("torch.compile", 1, _compiled_by_torch) if device.is_cuda else _compiled_by_system(limit_s)


def _compiled_by_system(limit_s: float) -> Chain:
    compiler = next((path for name in _compilers() if (path := shutil.which(name))), None)
    if compiler is None:
        raise NoCompilerError(f"no C compiler: none of {', '.join(_compilers())} is on the path")
    with tempfile.TemporaryDirectory(prefix="redline-") as folder:
        library = Path(folder) / "chain.so"
        _compile(compiler, library, limit_s)
        loaded = _loaded(library)  # stays in memory when the file is gone
    return Chain(f"{Path(compiler).name} {' '.join(_OPTIONS[:2])}", int(loaded.block()), partial(_bound, loaded))


def _compilers() -> tuple[str, ...]:
    return tuple(name for name in (os.environ.get("CC", ""), *_COMPILERS) if name)


def _compile(compiler: str, library: Path, limit_s: float) -> None:
    command = [compiler, *_OPTIONS, str(_SOURCE), "-o", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoCompilerError(f"{compiler} failed: it did not end within {limit_s:.2g} s") from error
    except OSError as error:
        raise NoCompilerError(f"{compiler} failed: {error.strerror}") from error
    if done.returncode:
        raise NoCompilerError(f"{compiler} failed: {_first_error(done.stderr)}")


def _loaded(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:  # such as a temporary folder from which nothing may be run
        raise NoCompilerError(f"what the C compiler made cannot be loaded: {error}") from error


def _first_error(text: str) -> str:
    lines = text.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "error" in line), lines[0])


def _bound(library: ctypes.CDLL, source: torch.Tensor, target: torch.Tensor, repeats: int) -> Callable[[], object]:
    import torch

    threads = torch.get_num_threads()

    def call() -> None:
        pointers = ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(target.data_ptr())
        library.chain(*pointers, ctypes.c_long(source.numel()), ctypes.c_long(repeats), ctypes.c_int(threads))

    return call


def _compiled_by_torch(source: torch.Tensor, target: torch.Tensor, repeats: int) -> Callable[[], object]:
    return partial(_loop(repeats), source, target)


@cache
def _loop(repeats: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    import torch

    def chain(values: torch.Tensor, into: torch.Tensor) -> None:
        for _ in range(repeats):
            values = values * 0.5 + 1.0
        into.copy_(values)

    # torch compiles the same code eight times at most; a copy of it is other code.
    chain.__code__ = chain.__code__.replace()
    return torch.compile(chain, fullgraph=True, dynamic=False)
