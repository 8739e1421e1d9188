"""Counts what a user's own nn.Module costs, without running it: built and traced on the meta device, shapes only."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from redline.errors import InputError, UsageError, first_line
from redline.model.model import CountedModule, Operator

# Two halves of a model are no blocks.
LEAST = 4
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """Of the kinds that occur several times, the one with the most parameters. Those of a block inside a larger one
    count for the larger.
    """
    kinds: dict[type[nn.Module], list[nn.Module]] = defaultdict(list)
    for submodule in module.modules():
        if not isinstance(submodule, CONTAINERS):
            kinds[type(submodule)].append(submodule)
    several = [alike for alike in kinds.values() if len(alike) >= LEAST]
    several.sort(key=lambda blocks: _parameters(blocks, set()) / len(blocks), reverse=True)
    taken: set[int] = set()
    counted = [(_parameters(blocks, taken), blocks) for blocks in several]
    most, blocks = max(counted, key=lambda pair: pair[0], default=(0, []))
    return blocks if most else []


def _parameters(blocks: list[nn.Module], taken: set[int]) -> int:
    """Of all together, without those that are taken; now these are taken as well."""
    own = {
        id(parameter): parameter.numel()
        for block in blocks
        for parameter in block.parameters()
        if id(parameter) not in taken
    }
    taken.update(own)
    return sum(own.values())


class Blocks:
    """While it is entered, it notes what goes into each block, and how much more is kept after it than before."""

    def __init__(self, module: nn.Module, kept_so_far: Callable[[], int]) -> None:
        self.found = blocks_of(module)
        self.inputs_bytes = self.kept_bytes = self.largest_bytes = 0
        self._kept_so_far = kept_so_far
        self._before: list[int] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        for block in self.found:
            self._hooks += [block.register_forward_pre_hook(self._begin, with_kwargs=True)]
            self._hooks += [block.register_forward_hook(self._end)]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        tensors = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, torch.Tensor)]
        self.inputs_bytes += sum(tensor.nbytes for tensor in tensors)
        self._before.append(self._kept_so_far())

    def _end(self, *_: object) -> None:
        added = self._kept_so_far() - self._before.pop()
        self.kept_bytes += 0 if self._before else added  # a block inside another is part of that
        self.largest_bytes = max(self.largest_bytes, added)


EXPECTED = (
    "It has to return an nn.Module and its inputs: `return module, inputs` (a tensor, a tuple, or a dict of names)."
)


@dataclass(frozen=True)
class Built:
    """A module and what to call it with, all on the meta device."""

    source: str
    module: torch.nn.Module
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def build(source: str) -> Built:
    """From path.py:function."""
    path, _, name = source.rpartition(":")
    if not path or not name:
        raise UsageError(f"{source!r} names no function. Give path.py:function, where the function builds a module.")
    function = _function(Path(path), name)
    try:
        with torch.device("meta"):
            returned = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's code raises is told in one line)
        raise InputError(f"{source} raised {_told(error)}. Run it in Python to see where.") from None
    return _checked(source, returned)


def _function(path: Path, name: str) -> Callable[[], Any]:
    if not path.is_file():
        raise InputError(f"{path} is not a file. Give path.py:function, where the function builds a module.")
    loaded = _load(path)
    function = getattr(loaded, name, None)
    if callable(function):
        factory: Callable[[], Any] = function
        return factory
    own = [
        key for key, value in vars(loaded).items() if inspect.isfunction(value) and value.__module__ == loaded.__name__
    ]
    there = f"It has {', '.join(own)}." if own else "It has no functions."
    raise InputError(f"{path} has no function {name!r}. {there}")


def _load(path: Path) -> ModuleType:
    """Its folder is on the path while it loads, so that it may import its neighbours."""
    spec = importlib.util.spec_from_file_location(f"redline_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file. Give path.py:function.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's code raises is told in one line)
        raise InputError(f"{path} cannot be imported: {_told(error)}. Run it in Python to see where.") from None
    finally:
        sys.path.remove(folder)
    return module


def _checked(source: str, returned: object) -> Built:
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], torch.nn.Module):
        kind = (
            "an nn.Module without inputs" if isinstance(returned, torch.nn.Module) else f"a {type(returned).__name__}"
        )
        raise InputError(f"{source} returned {kind}.\n{EXPECTED}")
    module, inputs = returned
    inputs = torch.utils._pytree.tree_map(_on_meta, inputs)
    module = module.to("meta")
    if isinstance(inputs, dict):
        return Built(source, module, (), inputs)
    return Built(source, module, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})


def _on_meta(value: object) -> object:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


ATTENTION = torch.nn.functional.scaled_dot_product_attention
MOVES_NOTHING = {"_unsafe_view", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh"}
Key = tuple[str, bool, tuple[tuple[int, ...], ...], bool]


def trace(built: Built) -> CountedModule:
    """One pass of each kind."""
    counter, kept = Counter(built.module), SavedActivations(built.module)
    blocks = Blocks(built.module, lambda: kept.size_bytes)
    try:
        with blocks, kept.hooks(), counter, FusedAttention():
            outputs = built.module(*built.arguments, **built.named)
        roots = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        gradients = [torch.ones_like(root) for root in roots]
        counter.backward = True
        with counter:
            torch.autograd.backward(roots, gradients)
    except Exception as error:  # noqa: BLE001 (whatever a user's code raises is told in two lines)
        raise InputError(
            f"{built.source}: the module cannot run on shapes alone: {type(error).__name__}: {first_line(error)}\n"
            "Check that the inputs fit it, and leave out what depends on values: .item(), nonzero, masks as indices."
        ) from None
    return _result(built, counter, kept, blocks)


def _result(built: Built, counter: Counter, kept: SavedActivations, blocks: Blocks) -> CountedModule:
    parameters = list(built.module.parameters())
    operators = counter.operators()
    return CountedModule(
        name=type(built.module).__name__,
        parameters=sum(parameter.numel() for parameter in parameters),
        trained_parameters=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        parameter_bytes=sum(parameter.nbytes for parameter in parameters),
        forward_flops=sum(operator.flops for operator in operators if not operator.backward),
        backward_flops=sum(operator.flops for operator in operators if operator.backward),
        kept_bytes=kept.size_bytes,
        operators=operators,
        samples=_samples(built),
        blocks=max(len(blocks.found), 1),
        block_inputs_bytes=blocks.inputs_bytes,
        blocks_kept_bytes=blocks.kept_bytes if blocks.found else kept.size_bytes,
        largest_block_bytes=blocks.largest_bytes if blocks.found else kept.size_bytes,
    )


def _samples(built: Built) -> int:
    tensors = [leaf for leaf in tree_leaves((built.arguments, built.named)) if isinstance(leaf, torch.Tensor)]
    return max(1, tensors[0].shape[0]) if tensors and tensors[0].dim() else 1


class Counter(TorchDispatchMode):
    """Counts each operator that reaches the device, after torch has taken composite ones apart."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.backward = False
        self._totals: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        owned = [*module.parameters(), *module.buffers()]
        self._owned = {tensor.untyped_storage()._cdata for tensor in owned}
        self._gradients = {_sizes(parameter) for parameter in module.parameters()}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        if not func.is_view and func._overloadpacket.__name__ not in MOVES_NOTHING:
            self._add(func, args, named, out)
        return out

    def _add(self, func: Any, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> None:
        read = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        written = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        packet = func._overloadpacket
        count = flop_registry.get(packet)
        shapes = tuple(tuple(tensor.shape) for tensor in read)
        totals = self._totals[packet.__name__, self.backward, shapes, _is_causal(func, args, named)]
        totals[0] += 1
        totals[1] += int(count(*args, **named, out_val=out)) if count else 0
        totals[2] += sum(tensor.nbytes for tensor in [*read, *written])
        totals[3] += sum(tensor.nbytes for tensor in [*read, *written] if self._is_fixed(tensor))

    def _is_fixed(self, tensor: torch.Tensor) -> bool:
        """Tell whether its size does not depend on the batch: parameters and views of them, and in the backward pass
        what has the shape of one, in whatever order, because that is its gradient."""
        owned = tensor.untyped_storage()._cdata in self._owned
        return owned or (self.backward and _sizes(tensor) in self._gradients)

    def operators(self) -> tuple[Operator, ...]:
        return tuple(
            Operator(
                name=name, backward=backward, shapes=shapes, calls=calls, flops=flops, bytes=size,
                parameter_bytes=fixed, causal=causal,
            )
            for (name, backward, shapes, causal), (calls, flops, size, fixed) in self._totals.items()
        )  # fmt: skip


def _sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(sorted(size for size in tensor.shape if size > 1))


def _is_causal(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **named}
    return bool(given.get("is_causal", False))


class SavedActivations:
    """Storages that autograd keeps: each once, in full, and no parameters or buffers."""

    def __init__(self, module: torch.nn.Module) -> None:
        owned = [*module.parameters(), *module.buffers()]
        self._owned = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in owned}
        self._storages: dict[int, torch.UntypedStorage] = {}

    def hooks(self) -> Any:
        return torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._owned:
            self._storages[storage._cdata] = storage  # held, so that its address is not used again
        return tensor

    @property
    def size_bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())


class FusedAttention(TorchFunctionMode):
    """On the meta device torch would take attention apart and keep its scores; GPUs run one kernel that does not.

    The mode sees calls of users; the name is replaced for torch's own modules, inside which modes are off.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return (_fused if func is ATTENTION else func)(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        torch.nn.functional.scaled_dot_product_attention = _fused
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        super().__exit__(kind, error, where)
        torch.nn.functional.scaled_dot_product_attention = ATTENTION


def _fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> Any:
    """Attention as one kernel where the shapes are usual ones. A mask changes neither FLOPs nor what is kept; that it
    is causal is noted beside them.
    """
    if query.dim() != 4 or not query.shape[-1] == key.shape[-1] == value.shape[-1]:
        return ATTENTION(query, key, value, *rest, **named)
    if named.get("enable_gqa"):
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    causal = bool(named.get("is_causal", len(rest) > 2 and rest[2]))
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)[0]


__all__ = ["CountedModule", "Operator", "count_module"]


def count_module(source: str) -> CountedModule:
    """`source` is path.py:function. The function returns a module and its inputs: a tensor, a tuple or a dict of them.

    FLOPs are those of matmuls, convolutions and attention, as torch.utils.flop_counter has them: attention counts the
    full square of queries and keys, and is counted as the fused kernel that a GPU would run.
    """
    return trace(build(source))
