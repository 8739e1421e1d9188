"""Tensors that a module is called with, told apart by where their data is and not by its values.

No operator runs and no data is read. A weak reference to a storage keeps its data from nobody, and its address from
being used for another: two equal addresses are one storage.
"""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED

import torch
from torch.multiprocessing.reductions import StorageWeakRef

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MOST_VALUES = 64  # of a call, those in tuples, lists and dictionaries too
_DEPTH = 2  # of these
_MOST_PARTS = 8  # of a step
_STEPS_KEPT = 4  # whose inputs are known when the next one begins
_TIMESTEPS = (
    "timestep",
    "timesteps",
    "time_step",
    "t",
    "time",
    "sigma",
    "sigmas",
    "noise_level",
)  # as denoisers call it
_COMPILED = "OptimizedModule"  # what torch.compile makes of a module
_MOST_WRAPPERS = 8  # of a method
_OWN_REFERENCES = 3  # references: of the frame, of the name here, and of the call that counts them


class TensorState:
    """Some data at one moment: what writes into it makes another state of it, as far as torch counts writes."""

    __slots__ = ("_place", "_storage", "is_counted")

    def __init__(self, tensor: torch.Tensor) -> None:
        with torch._C.DisableTorchFunction():
            self._storage = StorageWeakRef(tensor.untyped_storage())
            self.is_counted = not tensor.is_inference()
            version = tensor._version if self.is_counted else -1
            self._place = tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype, version

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorState):
            return NotImplemented
        return self._storage.cdata == other._storage.cdata and self._place == other._place

    def __hash__(self) -> int:
        return hash((self._storage.cdata, self._place))


def arguments_of(frame: FrameType) -> Iterator[object]:
    """The arguments of a module; `frame` is that of `Module._wrapped_call_impl`."""
    known = locals_of(frame)
    yield from known["args"]  # type: ignore[misc]
    yield from known["kwargs"].values()  # type: ignore[attr-defined]


def values_in(arguments: Iterator[object]) -> list[object]:
    """Those of tuples, lists and dictionaries each by itself."""
    found: list[object] = []
    for argument in arguments:
        _add(found, argument, _DEPTH)
    return found


def _add(found: list[object], value: object, depth: int) -> None:
    if len(found) >= _MOST_VALUES:
        return
    if depth and type(value) in (tuple, list):
        for item in value:  # type: ignore[attr-defined]
            _add(found, item, depth - 1)
    elif depth and type(value) is dict:
        for item in value.values():
            _add(found, item, depth - 1)
    else:
        found.append(value)


def is_plain(value: object) -> bool:
    """True of a tensor with a storage of its own, and of no class of the script's."""
    return type(value) in _PLAIN and value.layout is torch.strided  # type: ignore[attr-defined]


def tensors_of(frame: FrameType) -> list[TensorState]:
    return [TensorState(value) for value in values_in(arguments_of(frame)) if is_plain(value)]  # type: ignore[arg-type]


class StepParts:
    """Tells which calls of a model belong to one step: those that could have been one batch.

    A denoiser with guidance may be called twice for the same latents, with two prompts that it gets in every step. So
    a call goes on with a step if it shares a tensor with it that was not there before, and if nothing else about it is
    new. What depends on the call before it, such as the next token, is new.
    """

    def __init__(self) -> None:
        self._step: set[TensorState] = set()
        self._fresh: set[TensorState] = set()  # in this step, of its first call
        self._steps_before: list[set[TensorState]] = []
        self._parts = 0

    def goes_on(self, tensors: Sequence[TensorState]) -> bool:
        """A call with these tensors is another part of the step of the call before it."""
        now = set(tensors)
        shared = now & self._fresh
        known = set[TensorState]().union(*self._steps_before)
        if shared and now - shared and now - shared <= known and self._parts < _MOST_PARTS:
            self._parts += 1
            self._step |= now
            return True
        self._fresh = now - known - self._step
        self._steps_before = [*self._steps_before[1 - _STEPS_KEPT :], self._step]
        self._step = now
        self._parts = 1
        return False


def takes_timestep(module: torch.nn.Module) -> bool:
    """True of a denoiser, by the names of what its forward takes."""
    if type(module).__name__ == _COMPILED:
        module = module._modules["_orig_mod"]  # type: ignore[assignment]
    forward = getattr(type(module), "forward", None)
    for _ in range(_MOST_WRAPPERS):
        forward = getattr(forward, "__wrapped__", forward)
    code = getattr(forward, "__code__", None)
    if code is None:
        return False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(name in _TIMESTEPS for name in names)


def locals_of(frame: FrameType) -> Mapping[str, object]:
    """Local names of a frame of the script, without keeping alive what they stand for.

    Before Python 3.13, whoever asks a frame for them leaves a copy there, which would hold tensors of a step.

    That copy is emptied again, unless the script holds it: `locals()` gives the same one.
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED:  # those of a module or class are its own
        return frame.f_locals
    copy = frame.f_locals
    values = dict(copy)
    if type(copy) is dict and sys.getrefcount(copy) <= _OWN_REFERENCES:
        copy.clear()
    return values
