"""Runs a module's forward and backward pass on the meta device, and counts every operator and every kept tensor."""

from collections import defaultdict
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from redline.calibration.modules.blocks import Blocks
from redline.calibration.modules.load import Built
from redline.errors import InputError, first_line
from redline.model.counted_module import CountedModule, Operator

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
        raise _failed(built.source, error) from None
    return _result(built, counter, kept, blocks)


def _failed(source: str, error: BaseException) -> InputError:
    return InputError(
        f"{source}: the module cannot run on shapes alone: {type(error).__name__}: {first_line(error)}\n"
        "Check that the inputs fit it, and leave out what depends on values: .item(), nonzero, masks as indices."
    )


def _result(built: Built, counter: "Counter", kept: "SavedActivations", blocks: Blocks) -> CountedModule:
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
        """Whether its size does not depend on the batch: parameters and views of them, and in the backward pass what
        has the shape of one, in whatever order, because that is its gradient."""
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
        return torch.autograd.graph.saved_tensors_hooks(self._keep, _same)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._owned:
            self._storages[storage._cdata] = storage  # held, so that its address is not used again
        return tensor

    @property
    def size_bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


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
