"""Steps of a job without an optimizer: calls of its outermost module, seen without a frame of ours under them."""

from __future__ import annotations

import sys
from _thread import _local, get_ident
from contextlib import suppress
from functools import partial
from weakref import ref

import torch
from torch.optim.optimizer import Optimizer

from redline.capture.worker.after_import import AfterImport
from redline.capture.worker.counting.call_inputs import StepParts, takes_timestep, tensors_of
from redline.capture.worker.exception_origin import NO_ROOM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

    from redline.capture.worker.counting.steps import StepCounter

_CALLS_TO_CHOOSE = 4  # outermost calls after which the module is chosen whose calls are the steps
_CALLS_OF_OTHERS = 16  # of one class, without a call of the one that is chosen, or without any that is called twice
_MOST_KINDS = 8  # of outermost modules
_CALLS_BEFORE_DENOISER = 64  # of text encoders and autoencoders, where a library of denoisers is imported
_DENOISERS = "diffusers"
_CALLS_WITH_GRADIENTS = 64  # beside an optimizer that does not step: then it is no training that accumulates
_MODULE, _CLASS = "transformers.generation.utils", "GenerationMixin"
_READ_AFTER_EACH_TOKEN = "_update_model_kwargs_for_generation"
_COMPILED = "_compiled_call"  # of a model that `generate` has compiled


class ModuleCalls:
    """Finds the outermost modules of a job that has no optimizer; calls of the most used one are its steps.

    A module reads `_compiled_call_impl` of itself first thing when it is called. Whoever lists the attributes of a
    module, as torch.jit.script does, reads it too.
    """

    def __init__(self, home: TrainingThread) -> None:
        self._steps: StepCounter | None = None
        self._safely: Callable[[Callable[[], None]], None] = lambda watch: watch()
        self._home = home
        self._seen = _Seen()
        self._sizes: dict[str, int] = {}
        self._kind: type | None = None  # the class of the chosen module
        self._chosen: Callable[[], torch.nn.Module | None] = _nobody
        self._parts: StepParts | None = None  # of the chosen module, if it is a denoiser
        self._is_by_token = False  # its calls are compiled code; tokens tell of them
        self._is_any = False  # there is a new module for each step: all of the class count
        self._others = 0  # calls of others of its class since the chosen one was called
        self._last_other = 0
        self._doubts = _CALLS_WITH_GRADIENTS  # that many more calls with gradients may be parts of a step
        self._held = 0  # calls that may be parts of a step, as long as none has counted
        self._has_counted = False
        self._is_learning = False
        self._outermost_kinds: set[type] = set()
        self._heard: set[type] = set()  # of these, while somebody is told
        self._told: Callable[[torch.nn.Module, FrameType], None] | None = None
        self._then: list[Callable[[torch.nn.Module], None]] = []
        self._every: Callable[[torch.nn.Module], None] | None = None
        self._outer: Callable[[], torch.nn.Module | None] = _nobody
        self._call = torch.nn.Module._wrapped_call_impl.__code__
        self._first_read = -1  # where in that code; it reads once more where the module is compiled
        self._inner = torch.nn.Module._call_impl.__code__
        self._noted = _Called(self)

    def look_for_steps(self, steps: StepCounter, safely: Callable[[Callable[[], None]], None]) -> None:
        self._steps = steps
        self._safely = safely
        self._listen(to_all=True)

    def once(self, then: Callable[[torch.nn.Module], None]) -> None:
        """Do it when the next module is called outside of a backward pass, with that module."""
        if then not in self._then:
            self._then.append(then)
        self._listen(to_all=True)

    def at_outermost(self, then: Callable[[torch.nn.Module], None] | None) -> None:
        """Do it at every outermost call outside of a backward pass, with that module, before it; None for no more."""
        self._every = then
        self._listen(to_all=bool(self._then) or (self._steps is not None and self._kind is None))

    def outermost(self) -> torch.nn.Module | None:
        """The module that the script calls, as far as it was seen."""
        chosen = self._chosen()
        return self._outer() if chosen is None else chosen  # a module may have a length, or refuse to have one

    def largest(self) -> str | None:
        """The class of the outermost module with most parameters, of those that were seen."""
        return max(self._sizes, key=lambda name: self._sizes[name], default=None)

    def learn_outermost(self) -> None:
        """Note the classes of all outermost modules until somebody wants to `hear` of their calls."""
        self._is_learning = True
        self._listen(to_all=True)

    def hear(self, told: Callable[[torch.nn.Module, FrameType], None] | None) -> None:
        """Tell of outermost calls of the classes that are known; None for no more."""
        self._told, self._is_learning = told, False
        for kind in self._heard:
            if kind is not self._kind:
                del kind._compiled_call_impl  # type: ignore[attr-defined]
        self._heard = set() if told is None else set(self._outermost_kinds)
        for kind in self._heard:
            kind._compiled_call_impl = self._noted  # type: ignore[attr-defined]
        self._listen(to_all=bool(self._then) or (self._steps is not None and self._kind is None))

    def stop(self) -> None:
        """An optimizer stepped: this is training."""
        self._steps = None
        self.hear(None)
        self._listen(to_all=False)
        self._listen_to(None)

    def _listen(self, *, to_all: bool) -> None:
        is_heard = to_all or self._is_learning or self._every is not None
        torch.nn.Module._compiled_call_impl = self._noted if is_heard else None  # type: ignore[assignment]

    def _listen_to(self, kind: type | None) -> None:
        if self._kind is not None and self._kind not in self._heard:
            del self._kind._compiled_call_impl  # type: ignore[attr-defined]
        self._kind = kind
        if kind is not None:
            kind._compiled_call_impl = self._noted  # type: ignore[attr-defined]

    def called(self, module: torch.nn.Module) -> None:
        # The question about compiling comes first: it is all that torch.compile sees of this.
        if not torch.compiler.is_compiling() and get_ident() == self._home.thread:
            reader = sys._getframe(2)
            if reader.f_code is self._call:
                if self._first_read < 0:
                    self._first_read = reader.f_lasti
                if reader.f_lasti == self._first_read:
                    self._safely(partial(self._called, module, reader))

    def token_ended(self, model: torch.nn.Module) -> None:
        """A compiled model has generated a token: its calls are not seen, and a token is a step as a call would be."""
        if get_ident() == self._home.thread and not torch.compiler.is_compiling():
            self._safely(partial(self._token_ended, model))

    def _token_ended(self, model: torch.nn.Module) -> None:
        if self._steps is None:
            return
        if self._kind is None:
            self._listen(to_all=False)
            self._listen_to(type(model))
            self._chosen = ref(model)
        if self._chosen() is model:
            self._is_by_token = self._has_counted = True
            self._steps.called()

    def _called(self, module: torch.nn.Module, frame: FrameType) -> None:
        if (self._then or self._every is not None) and torch._C._current_graph_task_id() == -1:
            if self._every is not None and not _is_tracing() and self._is_outermost(frame):
                self._every(module)
            if self._then:
                self._waited_for(module, frame)
        if self._is_learning and self._is_outermost(frame):
            self._learn(module)
        if self._steps is not None:
            self._count(self._steps, module, frame)
        if self._told is not None and self._is_outermost(frame) and torch._C._current_graph_task_id() == -1:
            self._told(module, frame)

    def _learn(self, module: torch.nn.Module) -> None:
        """Without single layers: their classes are called all over a model."""
        if len(self._outermost_kinds) < _MOST_KINDS and module._modules:
            self._outermost_kinds.add(type(module))

    def _count(self, steps: StepCounter, module: torch.nn.Module, frame: FrameType) -> None:
        if self._kind is None:
            self._look(module, frame)
        elif self._chosen() is module or self._stands_in(module, frame):
            self._others = 0
            if not self._is_by_token and not self._goes_on(frame) and not self._is_doubtful():
                self._has_counted = True
                steps.called()

    def _goes_on(self, frame: FrameType) -> bool:
        """The call is another part of the step of the call before it, as guidance makes them."""
        return self._parts is not None and self._parts.goes_on(tensors_of(frame))

    def _waited_for(self, module: torch.nn.Module, frame: FrameType) -> None:
        then, self._then = self._then, []
        if self._steps is None or self._kind is not None:
            self._listen(to_all=False)
        if self._is_outermost(frame):
            self._outer = ref(module)
        for act in then:
            act(module)

    def _stands_in(self, module: torch.nn.Module, frame: FrameType) -> bool:
        """This module takes the place of the chosen one, which is gone or not called any more."""
        if type(module) is not self._kind or not self._is_outermost(frame):
            return False
        if self._chosen() is not None and not self._is_any:
            self._others += 1
            is_another, self._last_other = self._last_other != id(module), id(module)
            if self._others < _CALLS_OF_OTHERS:
                return False
            self._is_any = is_another
        self._chosen = ref(module)
        return True

    def _is_doubtful(self) -> bool:
        """The call may be a part of a step: in a training that has an optimizer and accumulates gradients."""
        if not self._doubts or not torch.is_grad_enabled():
            return False
        self._doubts -= 1
        if not is_optimizer_made():
            return False
        self._held += 1
        if not self._doubts and not self._has_counted and self._steps is not None:
            self._steps.called_before(self._held)
        return True

    def _is_outermost(self, frame: FrameType | None) -> bool:
        while frame is not None:  # is another module being called further up?
            if frame.f_code is self._inner:
                return False
            frame = frame.f_back
        return True

    def _look(self, module: torch.nn.Module, frame: FrameType) -> None:
        if _is_tracing() or not self._is_outermost(frame):
            return
        name = type(module).__name__
        if name not in self._sizes:
            self._sizes[name] = sum(1 for _ in torch.nn.Module.parameters(module))
        self._learn(module)
        self._seen.add(module, frame)
        if self._seen.calls >= _CALLS_TO_CHOOSE:
            self._choose()

    def _choose(self) -> None:
        module, times = self._seen.most_used()
        kind = type(module)
        is_denoiser_due = _DENOISERS in sys.modules and self._seen.calls < _CALLS_BEFORE_DENOISER
        if is_denoiser_due and (times == 1 or not takes_timestep(module)):
            return
        if times == 1:  # they may still be called again, one after the other
            kind, times = self._seen.most_used_class()
            if times == 1 or (self._seen.calls < _CALLS_OF_OTHERS and not self._seen.gone(kind)):
                return
            self._is_any = True
        else:
            times += self._seen.gone(kind)
        self._listen(to_all=False)
        self._listen_to(kind)
        self._chosen = ref(module)
        self._parts = self._seen.parts_of(module)
        if torch.is_grad_enabled() and is_optimizer_made():
            self._held = times
            self._doubts -= times
        elif self._steps is not None:
            self._has_counted = True
            self._steps.called_before(times)


class _Seen:
    """Outermost calls, until it is known which of them are the steps. Keeps no module alive."""

    def __init__(self) -> None:
        self.calls = 0
        self._kinds: dict[type, int] = {}
        self._modules: dict[int, tuple[ref[torch.nn.Module], int, StepParts | None]] = {}

    def add(self, module: torch.nn.Module, frame: FrameType) -> None:
        known, times, parts = self._modules.get(id(module), (None, 0, None))
        if known is None or known() is not module:  # it may be one that is gone
            times, parts = 0, StepParts() if takes_timestep(module) else None
        is_step = parts is None or not parts.goes_on(tensors_of(frame))
        self.calls += 1
        self._kinds[type(module)] = self._kinds.get(type(module), 0) + is_step
        self._modules[id(module)] = ref(module), times + is_step, parts

    def most_used(self) -> tuple[torch.nn.Module, int]:
        """The module called most, and how often, of those alive; of a denoiser and what it works with, the denoiser."""
        return max(self._alive(), key=lambda one: (takes_timestep(one[0]), one[1]))

    def parts_of(self, module: torch.nn.Module) -> StepParts | None:
        return self._modules[id(module)][2]

    def most_used_class(self) -> tuple[type, int]:
        return max(self._kinds.items(), key=lambda item: item[1])

    def gone(self, kind: type) -> int:
        """Calls of modules of this class that are not alive any more."""
        return self._kinds[kind] - sum(times for module, times in self._alive() if type(module) is kind)

    def _alive(self) -> list[tuple[torch.nn.Module, int]]:
        return [(module, times) for known, times, _ in self._modules.values() if (module := known()) is not None]


def _nobody() -> None:
    return None


def _is_tracing() -> bool:
    """Another module is being made of those that are called, and will be called instead of them."""
    by_fx = getattr(torch.fx._symbolic_trace, "_is_fx_tracing_flag", False)
    return by_fx or torch._C._get_tracing_state() is not None


def is_optimizer_made(kind: type[Optimizer] = Optimizer) -> bool:
    """There was an optimizer of such a class: the first of each class marks its `step`."""
    return any(
        getattr(subclass.step, "hooked", False) or is_optimizer_made(subclass) for subclass in kind.__subclasses__()
    )


class _Called:
    """Stands for `_compiled_call_impl` of modules, and tells of each call."""

    def __init__(self, calls: ModuleCalls) -> None:
        self._calls = calls

    def __get__(self, module: torch.nn.Module | None, kind: type | None = None) -> object:
        if module is None:
            return None
        try:  # noqa: SIM105 (`suppress` needs room as well)
            self._calls.called(module)
        except NO_ROOM:
            pass
        return module.__dict__.get("_compiled_call_impl")

    def __set__(self, module: torch.nn.Module, value: object) -> None:
        module.__dict__["_compiled_call_impl"] = value

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A class that is pickled by value goes without us: as None, which was here before."""
        return type(None), ()


class _AtEnd:
    """Lives as long as the thread in whose storage it is; the thread itself lets go of it, as the last it does."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def __del__(self) -> None:
        self._then()


class TrainingThread:
    """The thread that is watched.

    The one that imports torch, until an optimizer steps in another, and if that ends, in a third.

    In processes that the script forks, there is none.
    """

    def __init__(self) -> None:
        self.thread = self._first = get_ident()
        self._storage = _local()

    def move(self, ended: Callable[[], None]) -> None:
        """To the thread that trains: Ray Train and others do that beside the main thread. Tell when it ends."""

        def end() -> None:
            ended()
            self.leave()

        if self.thread != get_ident():
            self.thread = get_ident()
            if self.thread != self._first:
                self._storage.at_end = _AtEnd(end)

    def leave(self) -> None:
        self.thread = 0


# Tokens of transformers' `generate` whose model runs compiled, as it compiles the model by itself where its cache is
# static and the device is a GPU. After each token it reads one of its own methods, which becomes a descriptor that
# notes the time: no frame of ours is under the script's code.
def watch_generation(token_ended: Callable[[torch.nn.Module], None], safely: Callable[[Any], None]) -> None:
    """Tell of each token of a compiled model, with the model; of all others nothing is told."""

    def loaded(module: ModuleType) -> None:
        kind = getattr(module, _CLASS, None)
        method = vars(kind).get(_READ_AFTER_EACH_TOKEN) if kind is not None else None
        if callable(method):
            setattr(kind, _READ_AFTER_EACH_TOKEN, _ReadAfterToken(method, token_ended))

    AfterImport({_MODULE: lambda module: safely(lambda: loaded(module))})


class _ReadAfterToken:
    """A method that tells when it is looked up on a model, and is otherwise what it was."""

    def __init__(self, method: Any, token_ended: Callable[[torch.nn.Module], None]) -> None:
        self._method = method
        self._token_ended = token_ended

    def __get__(self, model: Any, kind: type | None = None) -> object:
        try:
            if model is not None and _COMPILED in model.__dict__:
                self._token_ended(model)
        except NO_ROOM:
            pass
        return self._method.__get__(model, kind)


def keep_from_compiler(function: Any) -> None:
    """torch.compile neither traces nor compiles it; `torch.compiler.disable` does that too, but is slow to import."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = None
    function._torchdynamo_disable_recursive = True
    with suppress(AttributeError):  # in versions of torch that call it otherwise
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
