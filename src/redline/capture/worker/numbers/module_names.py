"""The names of a job's modules and parameters, whatever wraps them: the same in a run that is compiled or sharded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor
    from torch.nn import Module, Parameter

_WRAPPERS = {  # classes, and where they keep what they wrap
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
}


def unwrapped(module: Module) -> Module:
    """What the script made, without what it was wrapped in."""
    while True:
        inner = module._modules.get(_WRAPPERS.get(type(module).__name__, ""))
        if inner is None:
            return module
        module = inner


def class_name(module: Module) -> str:
    """As the script named it: sharding makes a class FSDPBlock of a Block."""
    kinds = type(module).__mro__
    is_sharded = any(kind.__name__ == "FSDPModule" for kind in kinds)
    return kinds[0].__name__.removeprefix("FSDP") if is_sharded else kinds[0].__name__


def named_modules(root: Module, name: str = "") -> Iterator[tuple[str, Module]]:
    """All modules below with their names, in which wrappers do not show; a wrapper is named as what it wraps."""
    yield name, root
    wrapped = _WRAPPERS.get(type(root).__name__, "")
    for part, module in root._modules.items():
        if module is not None:
            yield from named_modules(module, name if part == wrapped else f"{name}.{part}".removeprefix("."))


class ModuleNames:
    """Of the modules that the script calls, and of those inside of them.

    The first one with parameters is the model: names inside of it have no prefix. Others begin with their class.
    """

    def __init__(self) -> None:
        self._roots: dict[int, tuple[Module, str]] = {}  # kept alive, so that no other gets their id
        self._names: dict[int, str] = {}
        self._parameters: dict[int, tuple[Parameter, str, int]] = {}

    def add_root(self, module: Module) -> str:
        """The name of a module that the script calls itself."""
        inner = unwrapped(module)
        if id(inner) in self._names:
            return self._names[id(inner)]
        kind = class_name(inner)
        if next(inner.parameters(), None) is None:
            return kind
        label = ""
        if self._roots:
            same = sum(1 for root, _ in self._roots.values() if class_name(root) == kind)
            label = f"{kind}#{same + 1}" if same else kind
        self._roots[id(inner)] = inner, label
        self._learn(inner, label)
        return label

    def _learn(self, root: Module, label: str) -> None:
        for name, module in named_modules(root, label):
            self._names.setdefault(id(module), name)
            for own, parameter in module._parameters.items():
                if parameter is not None:
                    full = f"{name}.{own}".removeprefix(".")
                    self._parameters.setdefault(id(parameter), (parameter, full, id(module)))

    def of_module(self, module: Module, above: str) -> str:
        """The name of a module that one of this name calls."""
        name = self._names.get(id(module))
        if name is None:
            self.refresh()
            name = self._names.get(id(module))
        return f"{above}:{class_name(module)}" if name is None else name

    def refresh(self) -> None:
        """Modules and parameters may have been put in the place of others: they were sharded, or moved."""
        self._names.clear()
        self._parameters.clear()
        for root, label in self._roots.values():
            self._learn(root, label)

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Those of floating point, with their names."""
        for root, label in self._roots.values():
            for name, module in named_modules(root, label):
                for own, buffer in module._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        yield f"{name}.{own}".removeprefix("."), buffer

    def of_parameter(self, parameter: object) -> tuple[str, int] | None:
        """The name of a parameter, and the id of the module that has it."""
        known = self._parameters.get(id(parameter))
        return None if known is None or known[0] is not parameter else known[1:]
