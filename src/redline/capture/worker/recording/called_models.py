"""Outermost calls of modules in a window of inference: when, of which module, and which inputs were the same before.

Of inputs only their shapes and numbers are kept: equal inputs have equal numbers. Data is looked at where it lies in
the memory of the CPU and is small; elsewhere an input is the same if its storage is, and nothing was written into it.
"""

from __future__ import annotations

from ctypes import string_at
from time import time_ns
from weakref import ref

import torch

from redline.capture.worker.counting.call_inputs import TensorState, arguments_of, is_plain, takes_timestep, values_in
from redline.capture.worker.recording.host_evidence import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from redline.capture.worker.counting.calls import ModuleCalls

_MOST_CALLS = 4096
_MOST_INPUTS = 16384  # different ones
_MOST_BYTES = 64 << 10  # that are looked at of one tensor: about 20 us
_PIECES, _PIECE_BYTES = 16, 1 << 10  # of a larger one that torch does not count writes of
_LEAST_POSITIONS = 32  # of a mask: shorter ones are not worth it
_MASK_TYPES = (torch.bool, torch.int64, torch.int32)
_NO_MASK = -1
_VALUES = (bool, int, float, str, type(None), torch.dtype, torch.device)


class CalledModelsCollector(Collector):
    """Listens while a window is open, to the classes of modules that were outermost before it."""

    key = "calls"

    def __init__(self, calls: ModuleCalls, is_inference: Callable[[], bool]) -> None:
        self._calls = calls
        self._is_inference = is_inference
        self._forget()

    def _forget(self) -> None:
        self._models: list[tuple[ref[torch.nn.Module], dict[str, object]]] = []
        self._numbers: dict[object, int] = {}
        self._shapes: list[str] = []
        self._used: list[int] = []
        self._times_ns: list[int] = []
        self._called: list[int] = []
        self._inputs: list[list[int]] = []

    def warm_up(self) -> None:
        """The step before the window."""
        if self._is_inference():
            self._calls.learn_outermost()

    def window_opened(self) -> None:
        self._forget()
        self._calls.hear(self._told if self._is_inference() else None)

    def abandon(self) -> None:
        self._calls.hear(None)
        self._numbers = {}

    def part(self) -> object:
        found = {
            "time_ns": self._times_ns,
            "model": self._called,
            "models": [facts for _, facts in self._models],
            "inputs": self._inputs,
            "shapes": self._shapes,
            "used": self._used,
        }
        self._forget()
        return found if found["time_ns"] else None

    def _told(self, module: torch.nn.Module, frame: FrameType) -> None:
        if len(self._called) < _MOST_CALLS and len(self._shapes) < _MOST_INPUTS:
            self._times_ns.append(time_ns())
            self._called.append(self._number_of(module))
            self._inputs.append([self._input(value) for value in values_in(arguments_of(frame))])

    def _number_of(self, module: torch.nn.Module) -> int:
        for number, (known, _) in enumerate(self._models):
            if known() is module:
                return number
        facts = {"kind": type(module).__name__, "denoises": takes_timestep(module), "training": bool(module.training)}
        self._models.append((ref(module), facts))
        return len(self._models) - 1

    def _input(self, value: object) -> int:
        if is_plain(value):
            with torch._C.DisableTorchFunction():
                return self._numbered(_content(value), _shape(value), value)  # type: ignore[arg-type]
        if type(value) in _VALUES:
            return self._numbered((type(value), value), "")
        return self._numbered(object(), "")  # what may change behind its back, as a cache does

    def _numbered(self, content: object, shape: str, tensor: torch.Tensor | None = None) -> int:
        number = self._numbers.setdefault(content, len(self._shapes))
        if number == len(self._shapes):
            self._shapes.append(shape)
            self._used.append(_NO_MASK if tensor is None else _used_positions(tensor))
        return number


def _shape(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"


def _content(tensor: torch.Tensor) -> object:
    """A value that is equal for equal tensors, and different for others."""
    state = TensorState(tensor)
    size_bytes = tensor.numel() * tensor.element_size()
    is_readable = tensor.device.type == "cpu" and tensor.is_contiguous()
    if is_readable and size_bytes <= _MOST_BYTES:
        return tensor.dtype, tensor.shape, string_at(tensor.data_ptr(), size_bytes) if size_bytes else b""
    if state.is_counted:
        return state
    if not is_readable:
        return object()
    return state, _pieces(tensor.data_ptr(), size_bytes)


def _used_positions(tensor: torch.Tensor) -> int:
    """If it is a mask of a batch of texts: how many positions the longest of them may see from its last one."""
    if tensor.device.type != "cpu" or not 1 < tensor.dim() < 5 or not tensor.shape[-1] >= _LEAST_POSITIONS:
        return _NO_MASK
    samples, length = tensor.shape[0], tensor.shape[-1]
    size_bytes, steps = tensor.element_size(), tensor.stride()
    is_mask = tensor.dtype is torch.bool if tensor.dim() == 4 else tensor.dtype in _MASK_TYPES and tensor.dim() == 2
    if not is_mask or steps[-1] != 1 or not 0 < samples * length * size_bytes <= _MOST_BYTES:
        return _NO_MASK
    last = (tensor.shape[2] - 1) * steps[2] if tensor.dim() == 4 else 0
    addresses = [tensor.data_ptr() + (sample * steps[0] + last) * size_bytes for sample in range(samples)]
    rows = [string_at(address, length * size_bytes) for address in addresses]
    if any(row.count(0) + row.count(1) < len(row) for row in rows):
        return _NO_MASK
    return max(row.count(1) for row in rows)


def _pieces(address: int, size_bytes: int) -> bytes:
    """From all over a tensor: what is written into it in place changes some of them."""
    step = (size_bytes - _PIECE_BYTES) // (_PIECES - 1)
    return b"".join(string_at(address + place * step, _PIECE_BYTES) for place in range(_PIECES))
