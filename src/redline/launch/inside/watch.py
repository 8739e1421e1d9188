"""Puts hooks on torch that tell when a step ends, and takes care that none of them is ever seen.

No hook puts a frame of ours under the user's code: tracebacks, warnings and compiled code stay what they are. Where
torch has no hook, an attribute that torch reads at the right moment becomes a descriptor that notes the time.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import get_ident
from contextlib import suppress
from functools import partial

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from redline.launch.board import AFTER, BY_OPTIMIZER, KIND, PHASE
from redline.launch.inside import api
from redline.launch.inside.capture import Capture
from redline.launch.inside.place import Place
from redline.launch.inside.steps import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_CALLS_TO_CHOOSE = 4  # outermost calls after which the module is chosen whose calls are the steps
_CALLS_WITH_GRADIENTS = 64  # such calls without any optimizer: then it is no training that accumulates


def watch(place: Place) -> None:
    """Count steps from now on, and capture those that were asked for."""
    home = Home()
    calls = Calls(home)
    capture = Capture(place, calls.once, calls.largest)
    steps = Steps(place, capture.step_ended, capture.steps_restarted)
    calls.look_for_steps(steps, capture.safely)
    _watch_optimizers(place, steps, capture, calls)
    _watch_loaders(steps, home, capture)
    api.take(steps.by_hand, capture.is_capturing)
    atexit.register(_leave, place, steps, capture)
    os.register_at_fork(after_in_child=capture.forget)
    os.register_at_fork(after_in_child=home.leave)


class Home:
    """The thread that is watched: the one that imports torch. In processes that the script forks, there is none."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def leave(self) -> None:
        self.thread = 0


def _leave(place: Place, steps: Steps, capture: Capture) -> None:
    if os.getpid() == place.pid:
        steps.finish()
        capture.finish()
        place.slot.words[PHASE] = AFTER


def _watch_optimizers(place: Place, steps: Steps, capture: Capture, calls: Calls) -> None:
    words = place.slot.words

    def count(optimizer: Optimizer) -> None:
        if words[KIND] != BY_OPTIMIZER:
            calls.stop()
        number = capture.optimizers.number(optimizer)
        steps.optimizer_stepped(number, in_backward=torch._C._current_graph_task_id() != -1)

    def stepped(optimizer: Optimizer, args: object, kwargs: object) -> None:
        if os.getpid() == place.pid:
            capture.safely(partial(count, optimizer))

    _keep_from_compiler(stepped)
    register_optimizer_step_post_hook(stepped)


def _keep_from_compiler(function: Any) -> None:
    """torch.compile neither traces nor compiles it; `torch.compiler.disable` does that too, but is slow to import."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = None
    function._torchdynamo_disable_recursive = True
    with suppress(AttributeError):  # in versions of torch that call it otherwise
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


class _Noted:
    """An attribute that tells when it is read or written, and is otherwise what it was."""

    def __init__(self, name: str, read: Callable[[], None] | None, written: Callable[[Any], None] | None) -> None:
        self._name = name
        self._read = read
        self._written = written

    def __get__(self, owner: object, kind: type | None = None) -> object:
        if owner is None:
            return self
        if self._read is not None:
            self._read()
        try:
            return owner.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, owner: object, value: object) -> None:
        owner.__dict__[self._name] = value
        if self._written is not None:
            self._written(value)


def _watch_loaders(steps: Steps, home: Home, capture: Capture) -> None:
    """A loader reads the name of its profiler range when it is asked for a batch, and counts the batch afterwards."""

    def asked() -> None:
        if get_ident() == home.thread:
            capture.safely(steps.loader_asked)

    def counted(batches: int) -> None:
        if batches and get_ident() == home.thread:
            capture.safely(steps.loader_gave)

    _BaseDataLoaderIter._profile_name = _Noted("_profile_name", asked, None)  # type: ignore[assignment]
    _BaseDataLoaderIter._num_yielded = _Noted("_num_yielded", None, counted)  # type: ignore[assignment]


class Calls:
    """Finds the outermost modules of a job that has no optimizer; calls of the most used one are its steps.

    A module reads `_compiled_call_impl` of itself first thing when it is called.
    """

    def __init__(self, home: Home) -> None:
        self._steps: Steps | None = None
        self._safely: Callable[[Callable[[], None]], None] = lambda watch: watch()
        self._home = home
        self._seen: dict[type, int] = {}
        self._sizes: dict[str, int] = {}
        self._with_gradients = 0
        self._chosen: type | None = None
        self._then: Callable[[], None] | None = None
        self._inner = torch.nn.Module._call_impl.__code__
        self._noted = _Called(self)

    def look_for_steps(self, steps: Steps, safely: Callable[[Callable[[], None]], None]) -> None:
        self._steps = steps
        self._safely = safely
        self._listen(to_all=True)

    def once(self, then: Callable[[], None]) -> None:
        """Do it when the next module is called outside of a backward pass."""
        self._then = then
        self._listen(to_all=True)

    def largest(self) -> str | None:
        """The class of the outermost module with most parameters, of those that were seen."""
        return max(self._sizes, key=lambda name: self._sizes[name], default=None)

    def stop(self) -> None:
        """An optimizer stepped: this is training."""
        self._steps = None
        self._listen(to_all=False)
        self._listen_to_chosen(None)

    def _listen(self, *, to_all: bool) -> None:
        torch.nn.Module._compiled_call_impl = self._noted if to_all else None  # type: ignore[assignment]

    def _listen_to_chosen(self, kind: type | None) -> None:
        if self._chosen is not None:
            del self._chosen._compiled_call_impl  # type: ignore[attr-defined]
        self._chosen = kind
        if kind is not None:
            kind._compiled_call_impl = self._noted  # type: ignore[attr-defined]

    def called(self, module: torch.nn.Module) -> None:
        # The question about compiling comes first: it is all that torch.compile sees of this.
        if not torch.compiler.is_compiling() and get_ident() == self._home.thread:
            self._safely(partial(self._called, module))

    def _called(self, module: torch.nn.Module) -> None:
        if self._then is not None and torch._C._current_graph_task_id() == -1:
            then, self._then = self._then, None
            if self._steps is None or self._chosen is not None:
                self._listen(to_all=False)
            then()
        if self._steps is None:
            return
        if self._chosen is None:
            self._look(module)
        elif type(module) is self._chosen and self._counts():
            self._steps.called()

    def _counts(self) -> bool:
        if torch.is_grad_enabled():
            self._with_gradients += 1
            return self._with_gradients > _CALLS_WITH_GRADIENTS
        return True

    def _look(self, module: torch.nn.Module) -> None:
        kind = type(module)
        frame: FrameType | None = sys._getframe()
        while frame is not None:  # is another module being called further up?
            if frame.f_code is self._inner:
                return
            frame = frame.f_back
        if kind not in self._seen:
            self._sizes[kind.__name__] = sum(1 for _ in torch.nn.Module.parameters(module))
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if sum(self._seen.values()) >= _CALLS_TO_CHOOSE and max(self._seen.values()) > 1:
            self._choose(max(self._seen, key=lambda one: self._seen[one]))

    def _choose(self, kind: type) -> None:
        self._listen(to_all=False)
        self._listen_to_chosen(kind)
        if self._steps is not None and not torch.is_grad_enabled():
            self._steps.called_before(self._seen[kind])


class _Called:
    """Stands for `_compiled_call_impl` of modules, and tells of each call."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __get__(self, module: torch.nn.Module | None, kind: type | None = None) -> object:
        if module is None:
            return None
        self._calls.called(module)
        return module.__dict__.get("_compiled_call_impl")

    def __set__(self, module: torch.nn.Module, value: object) -> None:
        module.__dict__["_compiled_call_impl"] = value

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A class that is pickled by value goes without us: as None, which was here before."""
        return type(None), ()
