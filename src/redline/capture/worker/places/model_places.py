"""The statement that makes the trained model, and how the blocks that it repeats are reached from it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from weakref import ref

import torch

from redline.capture.places import MODEL
from redline.capture.worker.levers.repeated_blocks import BlockList, block_lists
from redline.capture.worker.levers.roots import unwrapped
from redline.capture.worker.places.call_sites import SourceCall, is_call_of, value_of
from redline.capture.worker.places.frame_locals import locals_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from redline.capture.worker.places.seen_places import SeenPlaces

_RETURN_SELF = frozenset(
    {"apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train", "xpu"}
)
_MOST_FRAMES = 6
_MOST_LISTS = 16
_MOST_BLOCKS = 200


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
    """Notes every module as it is made; of those that turn out to be trained, the place is told."""

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
        """Whether the statement itself wraps the model, as `model = DistributedDataParallel(Net())` does."""
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
    """Whether the value of the statement is what the call makes: the call, or methods of it that return itself."""
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
    """What the name stands for now, in the frame that made it if that still runs, or in its file: the model, or DDP."""
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
