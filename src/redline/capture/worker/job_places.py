"""Notes where the script makes and calls what levers change, for its first steps."""

from __future__ import annotations

import ast
import gc
import sys
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from weakref import ref

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from redline.capture.places import CLIPPING, COLLECTION, DDP, LOADER, MODEL, OPTIMIZER, ROOT_CALL, ZERO_GRAD
from redline.capture.worker.counting.call_inputs import locals_of
from redline.capture.worker.exception_origin import NO_ROOM
from redline.capture.worker.levers.lever import BlockList, block_lists, change_arguments, unwrapped
from redline.capture.worker.seen_places import SeenPlaces, SourceCall, is_call_of, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    from redline.capture.worker.levers.lever import Call, CallChain, JobView
    from redline.capture.worker.process_context import ProcessContext

_STEPS_TO_LOOK = 3
_OUTERMOST = 100  # among what is done around a call: no lever is further out
_ALL_GENERATIONS = 2  # of a collection of everything
_FIRST = -1  # among changes of arguments: what the script itself gave
_FLAGS = ("fused", "foreach")
_MODULE_CALLS = (torch.nn.Module._wrapped_call_impl.__code__, torch.nn.Module._call_impl.__code__)
_RETURN_SELF = frozenset(
    {"apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train", "xpu"}
)
_MOST_FRAMES = 6
_MOST_LISTS = 16
_MOST_BLOCKS = 200


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
    """`zero_grad` drops gradients; the first argument is the optimizer or module itself."""
    value = args[1] if len(args) > 1 else kwargs.get("set_to_none", True)
    return value is not False and value != 0


@dataclass(frozen=True)
class _Caller:
    """A frame of the user that was making a module."""

    code: CodeType
    instruction: int
    scope: dict[str, object]  # global names


@dataclass(frozen=True)
class _Made:
    """A module and the frames that made it, from the inside out."""

    alive: ref[torch.nn.Module]
    kind: type
    callers: tuple[_Caller, ...]
    is_direct: bool  # the innermost of them calls the class itself
    is_part: bool  # made while another module was


class ModelPlaces:
    """The statement that makes the trained model, and how the blocks that it repeats are reached from it.

    Notes every module as it is made; of those that turn out to be trained, the place is told.
    """

    def __init__(self, seen: SeenPlaces) -> None:
        self._seen = seen
        self._made: dict[int, _Made] = {}
        self._counts: dict[tuple[type, CodeType, int], int] = {}

    def made(self, module: torch.nn.Module, frame: FrameType | None) -> None:
        """`frame` is the one that calls `Module.__init__`."""
        files = self._seen.files
        outer = [known for known in files.outwards(frame) if _constructed(known) is not module]
        callers = [known for known in outer if files.is_own(known.f_code)][:_MOST_FRAMES]
        known = _Made(
            alive=ref(module),
            kind=type(module),
            callers=tuple(_Caller(caller.f_code, caller.f_lasti, caller.f_globals) for caller in callers),
            is_direct=bool(callers) and outer[0] is callers[0],
            is_part=any(_constructed(frame) is not None for frame in outer),
        )
        self._made[id(module)] = known
        if not known.is_part:
            for caller in known.callers:
                key = known.kind, caller.code, caller.instruction
                self._counts[key] = self._counts.get(key, 0) + 1

    def forget(self) -> None:
        self._made.clear()
        self._counts.clear()

    def tell(self, root: torch.nn.Module, frame: FrameType | None) -> None:
        """The root is called for the first time, from this frame."""
        model = unwrapped(root)
        known = self._made.get(id(model))
        if known is None or known.alive() is not model or not known.callers:
            return
        site, target, why_not = self._chosen(known, model, frame)
        lists = block_lists(model)
        details = {
            "target": target,  # "" where the statement returns it
            "blocks": [_told(model, found) for found in lists[:_MOST_LISTS]],
            "is_of_torch": _is_of_torch(model),
            "blocks_are_of_torch": any(_is_of_torch(block) for found in lists for block in found.blocks),
            "is_sharded": any(hasattr(parameter, "device_mesh") for parameter in torch.nn.Module.parameters(model)),
        }
        name = type(model).__name__
        self._seen.add(self._seen.place(MODEL, site, callee=name, why_not=why_not, details=details))

    def _chosen(self, known: _Made, model: torch.nn.Module, frame: FrameType | None) -> tuple[SourceCall, str, str]:
        """The innermost statement that gives the model a name; else the one that returns it from a function."""
        path = self._seen.files.path
        sites = [self._seen.sites.at(one.code, one.instruction, path(one.code)) for one in known.callers]
        returned = None
        for index, (caller, site) in enumerate(zip(known.callers, sites, strict=True)):
            is_itself = index == 0 and known.is_direct and _makes(site, known.kind, caller.scope)
            target = _target(site.statement)
            holder = _holder(target, model, caller, frame) if target is not None else None
            if target is not None and (is_itself or holder is not None):
                inside = ".module" if not is_itself and self._is_wrapped_in(site, holder) else ""
                return site, ast.unparse(target) + inside, self._why_not(known, caller)
            if is_itself and isinstance(site.statement, ast.Return):
                returned = site, "", self._why_not(known, caller)
        return returned or (sites[0], "", "no statement there gives the model a name")

    def _is_wrapped_in(self, site: SourceCall, holder: torch.nn.Module | None) -> bool:
        """The statement itself wraps the model, as `model = DistributedDataParallel(Net())` does."""
        made = self._made.get(id(holder))
        if holder is None or made is None or holder is unwrapped(holder):
            return False
        path = self._seen.files.path
        sites = [self._seen.sites.at(one.code, one.instruction, path(one.code)) for one in made.callers]
        return any(known.code is site.code and known.statement is site.statement for known in sites)

    def _why_not(self, known: _Made, caller: _Caller) -> str:
        times = self._counts.get((known.kind, caller.code, caller.instruction), 1)
        return f"{times} of {known.kind.__name__} are made there" if times > 1 else ""


def _is_of_torch(module: torch.nn.Module) -> bool:
    """Such as Sequential: its `compile()` has no effect, as the compiler passes over what is torch's own."""
    return type(module).forward.__module__.startswith("torch.nn.")


def _constructed(frame: FrameType) -> torch.nn.Module | None:
    """The module in whose constructor this frame is."""
    code = frame.f_code
    if code.co_name != "__init__" or not code.co_argcount:
        return None
    value = locals_of(frame).get(code.co_varnames[0])
    return value if isinstance(value, torch.nn.Module) else None


def _target(statement: ast.stmt | None) -> ast.Name | ast.Attribute | None:
    """`model` of `model = ...`, or `self.model`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    is_attribute = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
    return target if isinstance(target, ast.Name) or is_attribute else None  # type: ignore[return-value]


def _makes(site: SourceCall, kind: type, scope: dict[str, object]) -> bool:
    """The value of the statement is what the call makes: the call, or methods of it that return itself."""
    value = getattr(site.statement, "value", None)
    while isinstance(value, ast.Call) and value is not site.call:
        function = value.func
        if not isinstance(function, ast.Attribute) or function.attr not in _RETURN_SELF:
            return False
        value = function.value
    return value is not None and value is site.call and is_call_of(site.call, kind, kind.__name__, scope)


def _holder(
    target: ast.expr, model: torch.nn.Module, caller: _Caller, frame: FrameType | None
) -> torch.nn.Module | None:
    """The object that has the name now, in the frame that made it if that still runs, or in its file: model or DDP."""
    modules = (value for value in _values(target, caller, frame) if isinstance(value, torch.nn.Module))
    return next((value for value in modules if unwrapped(value) is model), None)


def _values(target: ast.expr, caller: _Caller, frame: FrameType | None) -> Iterator[object]:
    while frame is not None:
        if frame.f_code is caller.code:
            yield value_of(target, locals_of(frame))
        frame = frame.f_back
    if caller.code.co_name == "<module>":
        yield value_of(target, caller.scope)


def _expression(model: torch.nn.Module, path: str) -> str:
    """How a part of the model is written in Python, behind the name of the model: `.stages[0].blocks`."""
    written = ""
    for name in filter(None, path.split(".")):
        is_indexed = isinstance(model, torch.nn.ModuleList | torch.nn.Sequential) and name.isdecimal()
        written += f"[{name}]" if is_indexed else f".{name}" if name.isidentifier() else f"[{name!r}]"
        model = model._modules[name]  # type: ignore[assignment]
    return written


def _told(model: torch.nn.Module, found: BlockList) -> dict[str, object]:
    """How the list is written, and each of its blocks where other modules are in it as well."""
    names = [name for name, child in found.container.named_children() if any(child is one for one in found.blocks)]
    is_whole = len(names) == sum(1 for _ in found.container.children())
    paths = [f"{found.path}.{name}" for name in names]
    return {
        "list": _expression(model, found.path),
        "items": [] if is_whole else [_expression(model, path) for path in paths[:_MOST_BLOCKS]],
    }
