"""Notes where the script makes and calls what levers change, for its first steps."""

from __future__ import annotations

import gc
import sys
from functools import partial, wraps
from inspect import signature

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from redline.capture.places import CLIPPING, COLLECTION, DDP, LOADER, OPTIMIZER, ROOT_CALL, ZERO_GRAD
from redline.capture.worker.exception_origin import NO_ROOM
from redline.capture.worker.levers.constructor import change_arguments
from redline.capture.worker.places.call_sites import is_call_of
from redline.capture.worker.places.frame_locals import locals_of
from redline.capture.worker.places.model_places import ModelPlaces
from redline.capture.worker.places.seen_places import SeenPlaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from redline.capture.worker.levers.call_chain import Call, CallChain
    from redline.capture.worker.levers.lever import JobView
    from redline.capture.worker.process_context import ProcessContext

_STEPS_TO_LOOK = 3
_OUTERMOST = 100  # among what is done around a call: no lever is further out
_ALL_GENERATIONS = 2  # of a collection of everything
_FIRST = -1  # among changes of arguments: what the script itself gave
_FLAGS = ("fused", "foreach")
_MODULE_CALLS = (torch.nn.Module._wrapped_call_impl.__code__, torch.nn.Module._call_impl.__code__)


class JobPlaces:
    """Made when torch has been imported. It changes nothing, and takes away after some steps what it can.

    Its functions ask first whether they are being compiled: that is all that torch.compile sees of them.
    """

    def __init__(
        self, context: ProcessContext, tell: Callable[[str, object], None], safely: Callable[[Callable[[], None]], None]
    ) -> None:
        self._context = context
        self._safely = safely
        self._seen = SeenPlaces(tell)
        self._models = ModelPlaces(self._seen)
        self._datasets: list[object] = []  # of loaders that are made in files of the user
        self._chains: list[CallChain] = []
        self._undo: list[Callable[[], None]] = []
        self._is_over = False

    def install(self, job: JobView) -> None:
        self._watch_constructors()
        self._watch_modules()
        for owner, name, kind in (
            (Optimizer, "zero_grad", ZERO_GRAD),
            (torch.nn.Module, "zero_grad", ZERO_GRAD),
            (torch.nn.utils, "clip_grad_norm_", CLIPPING),
        ):
            self._watch_function(owner, name, kind)
        gc.callbacks.append(self._collected)
        self._undo.append(partial(gc.callbacks.remove, self._collected))
        job.each_root(lambda root: self._note(partial(self._found, root, job)))

    def step_ended(self, steps: int) -> None:
        self._note(self._seen.add_script)
        if steps >= _STEPS_TO_LOOK and not self._is_over:
            self._is_over = True
            for undo in self._undo:
                self._safely(undo)
            for chain in self._chains:
                self._safely(partial(chain.take, _OUTERMOST))
            self._datasets.clear()
            self._models.forget()

    def _note(self, act: Callable[[], None]) -> None:
        if self._is_over or not self._context.is_here():
            return
        try:  # noqa: SIM105 (`suppress` needs room as well)
            self._safely(act)
        except NO_ROOM:
            pass

    # Constructors

    def _watch_constructors(self) -> None:
        kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type) and issubclass(kind, Optimizer)]
        for kind in kinds:
            if kind is not Optimizer and "__init__" in vars(kind):
                self._watch_constructor(kind, OPTIMIZER)
        self._watch_constructor(DataLoader, LOADER)
        self._watch_constructor(DistributedDataParallel, DDP)

    def _watch_constructor(self, kind: type, of: str) -> None:
        order = [name for name in signature(kind.__init__).parameters if name != "self"]  # type: ignore[misc]

        def made(thing: object, arguments: dict[str, Any]) -> None:
            frame = sys._getframe(1)
            self._note(lambda: self._constructed(of, thing, arguments, order, frame))

        change_arguments(kind, _FIRST, made)

    def _constructed(
        self, of: str, made: object, arguments: dict[str, Any], order: list[str], frame: FrameType
    ) -> None:
        caller = self._caller_of_class(made, frame)
        if caller is None:
            return
        given = [name for name in arguments if name != "self"]
        details: dict[str, Any] = {"given": given, "order": order}
        if of == OPTIMIZER:
            details["is_on"] = [flag for flag in _FLAGS if arguments.get(flag)]
            details["flags"] = [flag for flag in _FLAGS if flag in order]
        elif of == LOADER:
            dataset = arguments.get("dataset")
            is_own = self._seen.files.is_own(caller.f_code)
            if not is_own and any(dataset is known for known in self._datasets):
                return  # a framework makes one more of the same kind, with the arguments of the user's
            if is_own:
                self._datasets.append(dataset)
            details["is_iterable"] = isinstance(dataset, IterableDataset)
            details["workers"] = _number(arguments.get("num_workers", 0))
            details["has_batch_sampler"] = arguments.get("batch_sampler") is not None
        self._seen.add_call(of, caller, type(made), type(made).__name__, **details)

    def _caller_of_class(self, made: object, frame: FrameType) -> FrameType | None:
        """None where a class of torch calls the constructor of its base: the call of that class was seen already."""
        caller = next(self._seen.files.outwards(frame), None)
        if caller is None or caller.f_code.co_name != "__init__" or locals_of(caller).get("self") is not made:
            return caller
        return None if self._seen.files.is_of_torch(caller.f_code) else caller

    def _watch_modules(self) -> None:
        plain = torch.nn.Module.__init__

        @wraps(plain)
        def __init__(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            plain(module, *args, **kwargs)
            if not torch.compiler.is_compiling():
                frame = sys._getframe(1)
                self._note(lambda: self._models.made(module, frame))

        self._replace(torch.nn.Module, "__init__", plain, __init__)

    # Calls

    def _watch_function(self, owner: Any, name: str, kind: str) -> None:
        plain = getattr(owner, name)

        @wraps(plain)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                frame = sys._getframe(1)
                details = {"is_to_none": _is_to_none(args, kwargs)} if kind == ZERO_GRAD else {}
                self._note(lambda: self._called(kind, called, frame, details))
            return plain(*args, **kwargs)

        self._replace(owner, name, plain, called)

    def _called(self, kind: str, function: Any, frame: FrameType, details: dict[str, Any]) -> None:
        caller = next(self._seen.files.outwards(frame), None)
        is_own = caller is not None and self._seen.files.is_own(caller.f_code)
        if is_own or kind == ZERO_GRAD:
            self._seen.add_call(kind, caller, function, function.__name__, **details)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """The collector began or ended: by itself, or because the script asks for it."""
        if phase == "stop" and info["generation"] == _ALL_GENERATIONS and not sys.is_finalizing():
            self._note(partial(self._asked_to_collect, sys._getframe().f_back))

    def _asked_to_collect(self, frame: FrameType | None) -> None:
        if frame is None:  # Python itself collects
            return
        call = self._seen.site(frame).call if self._seen.files.is_own(frame.f_code) else None
        if call is not None and is_call_of(call, gc.collect, "collect", locals_of(frame), frame.f_globals):
            self._seen.add_call(COLLECTION, frame, gc.collect, "collect")

    def _found(self, root: torch.nn.Module, job: JobView) -> None:
        self._models.tell(root, sys._getframe())
        self._chains.append(job.chains.of(root))
        self._chains[-1].put(_OUTERMOST, partial(self._around, root))

    def _around(self, root: torch.nn.Module, call: Call) -> Call:
        def observed(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            if not torch.compiler.is_compiling():
                frame = sys._getframe(1)
                self._note(lambda: self._root_called(root, frame, output))
            return output

        return observed

    def _root_called(self, root: torch.nn.Module, frame: FrameType, output: object) -> None:
        outer = [known for known in self._seen.files.outwards(frame) if known.f_code not in _MODULE_CALLS]
        if not outer:
            return
        parameters = [known for known in torch.nn.Module.parameters(root) if known.is_floating_point()]
        self._seen.add_call(
            ROOT_CALL,
            outer[0],
            root,
            type(root).__name__,
            callers=self._seen.callers(outer[0]),
            device=parameters[0].device.type if parameters else "cpu",
            output=str(output.dtype) if isinstance(output, torch.Tensor) else type(output).__name__,
            is_cast=torch.is_autocast_enabled(parameters[0].device.type if parameters else "cpu"),
        )

    def _replace(self, owner: Any, name: str, plain: Any, ours: Any) -> None:
        """Until it is over, if nobody else has put something there meanwhile."""

        def undo() -> None:
            if vars(owner).get(name) is ours:
                setattr(owner, name, plain)

        setattr(owner, name, ours)
        self._undo.append(undo)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _is_to_none(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `zero_grad` drops gradients; the first argument is the optimizer or module itself."""
    value = args[1] if len(args) > 1 else kwargs.get("set_to_none", True)
    return value is not False and value != 0
