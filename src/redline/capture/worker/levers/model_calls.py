"""Levers around calls of the model: `autocast`, `checkpoint`, `offload` and `channels-last`."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.checkpoint import checkpoint

from redline.capture.worker.levers.lever import (
    AUTOCAST,
    CHECKPOINT,
    LAYOUT,
    NOT_CALLED,
    OFFLOAD,
    JobLever,
    JobView,
    LeverEffect,
    LinkedLever,
    repeated_blocks,
    unwrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from torch.optim.optimizer import Optimizer

    from redline.capture.levers import Lever
    from redline.capture.worker.levers.lever import Call

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_MOST_NODES = 20_000  # of the graph of a backward pass, in which operators are looked for that ran so
_CACHES = ("past_key_value", "past_key_values", "layer_past", "cache_params")  # a second pass would fill them twice
_WHY_GATHERING = "left alone: a second pass would update running statistics twice"
_LEAST_BYTES = 1 << 20  # of a tensor that is worth a copy
_DIMENSIONS = 4


class Autocast(LinkedLever):
    """Lever `autocast`: operators of the outermost module run in a type of 16 bits where torch deems it safe.

    Around the call of each root. The parameters stay as they are, and the outputs are what they were.
    """

    place = AUTOCAST

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._calls: list[_CastCall] = []

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            self._calls.append(_CastCall(root, _TYPES[self.lever.value]))
            self.join(job.chains.of(root), self._calls[-1].around)

        job.each_root(found)

    def forget(self) -> None:
        for call in self._calls:
            call.proof = call.why_not = ""

    def took(self) -> LeverEffect:
        proofs = [call.proof for call in self._calls if call.proof]
        whys = [call.why_not for call in self._calls if call.why_not]
        nothing = "no operator ran in it" if self._calls else NOT_CALLED
        return LeverEffect(bool(proofs), "; ".join(dict.fromkeys([*proofs, *whys])) or nothing)


class _CastCall:
    """The call of one root."""

    def __init__(self, root: torch.nn.Module, low: torch.dtype) -> None:
        parameters = [one for one in torch.nn.Module.parameters(root) if one.is_floating_point()]
        self._device = parameters[0].device.type if parameters else "cpu"
        self._types = {parameter.dtype for parameter in parameters}
        self._low = low
        self.around = self._around  # one object, by which the chain knows it
        self.proof = ""
        self.why_not = ""

    def _around(self, call: Call) -> Call:
        def cast(*args: Any, **kwargs: Any) -> Any:
            if not self._may_cast():
                return call(*args, **kwargs)
            with torch.autocast(self._device, self._low):
                output = call(*args, **kwargs)
            if not self.proof:
                self._prove(output)
            return _in_float32(output, self._low)

        return cast

    def _may_cast(self) -> bool:
        if torch.is_autocast_enabled(self._device):
            self.why_not = "the script uses autocast itself"
        elif torch.float32 not in self._types:
            self.why_not = f"the parameters are in {', '.join(sorted(map(_name, self._types)))}"
        return not self.why_not

    def _prove(self, output: object) -> None:
        """By an operator whose result was in this type, or an output that is."""
        tensors = list(_tensors(output))
        for node in _graph(tensors):
            if any(known.dtype == self._low for known in node._input_metadata):
                self.proof = f"{node.name().removesuffix('Backward0')} in {_name(self._low)}"
                return
        if any(tensor.dtype == self._low for tensor in tensors):
            self.proof = f"outputs were in {_name(self._low)}"


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def _graph(tensors: list[torch.Tensor]) -> Iterator[Any]:
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)


def _tensors(output: object) -> Iterator[torch.Tensor]:
    for leaf in tree_flatten(output)[0]:
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            for field in fields(leaf):
                yield from _tensors(getattr(leaf, field.name))


def _in_float32(output: Any, low: torch.dtype) -> Any:
    """The same with tensors of the lower type in float32; what holds them is copied, never changed."""

    def raised(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.float() if leaf.dtype == low else leaf
        if is_dataclass(leaf) and not isinstance(leaf, type):
            made = copy.copy(leaf)
            for field in fields(leaf):
                object.__setattr__(made, field.name, _in_float32(getattr(leaf, field.name), low))
            return made
        return leaf

    return tree_map(raised, output)


class CheckpointedBlocks(LinkedLever):
    """Lever `checkpoint`: repeated blocks keep their inputs only, and compute the rest again in the backward pass.

    Those that are called with a cache, or gather running statistics, are left alone.
    """

    place = CHECKPOINT

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._recomputed = 0
        self._gathering = 0  # blocks that are left alone for it
        self._is_traced = False  # torch.compile has made it a part of its graphs
        self._why_not = NOT_CALLED
        self._link = self._around

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            blocks = repeated_blocks(unwrapped(root))
            self._why_not = "no block was computed again" if blocks else f"{type(root).__name__} repeats no blocks"
            for block in blocks:
                if _gathers_statistics(block):
                    self._gathering += 1
                    continue
                self.join(job.chains.of(block), self._link)

        job.each_root(found)

    def forget(self) -> None:
        self._recomputed = 0

    def took(self) -> LeverEffect:
        left = [f"{self._gathering} blocks {_WHY_GATHERING}"] if self._gathering else []
        if self._recomputed or self._is_traced:
            how = "computed again in the backward pass" if self._recomputed else "in compiled graphs"
            return LeverEffect(True, "; ".join([f"{len(self._links)} blocks, {how}", *left]))
        return LeverEffect(False, "; ".join(left if left and not self._links else [self._why_not, *left]))

    def _around(self, call: Call) -> Call:
        def computed(*args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() != -1:
                self._recomputed += 1
            return call(*args, **kwargs)

        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return call(*args, **kwargs)
            if any(kwargs.get(name) is not None for name in _CACHES):
                self._why_not = "blocks are called with a cache, which a second pass would fill twice"
                return call(*args, **kwargs)
            if torch.compiler.is_compiling():  # where nothing may be noted inside of what is checkpointed
                self._is_traced = True
                return checkpoint(call, *args, use_reentrant=False, **kwargs)
            return checkpoint(computed, *args, use_reentrant=False, **kwargs)

        return checkpointed


def _gathers_statistics(block: torch.nn.Module) -> bool:
    """True where it gathers them, as batch norm does in training mode; frozen, it only reads them."""
    return any(
        isinstance(module, _NormBase) and module.training and module.running_mean is not None
        for module in block.modules()
    )


class OffloadedActivations(LinkedLever):
    """Lever `offload`: what the backward pass needs waits for it in the memory of the host.

    As torch.autograd.graph.save_on_cpu, but for parameters, which stay, and small tensors.
    """

    place = OFFLOAD

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._why_not = NOT_CALLED
        self._link = self._around
        self.bytes = 0  # moved in the last forward pass

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            if not any(parameter.is_cuda for parameter in torch.nn.Module.parameters(root)):
                self._why_not = "the model is not on a CUDA device: nothing is to be moved"
                return
            self._why_not = "no tensor of 1 MiB or more was kept for the backward pass"
            if self._is_on:
                self.forget()
            self.join(job.chains.of(root), self._link)

        job.each_root(found)

    def forget(self) -> None:
        self.bytes = 0

    def took(self) -> LeverEffect:
        if self.bytes:
            return LeverEffect(True, f"{self.bytes / (1 << 20):,.0f} MiB per forward pass wait in host memory")
        return LeverEffect(False, self._why_not)

    def _around(self, call: Call) -> Call:
        def offloaded(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return call(*args, **kwargs)
            self.bytes = 0
            with saved_on_host(self):
                return call(*args, **kwargs)

        return offloaded


def saved_on_host(told: OffloadedActivations, device: str = "cuda") -> saved_tensors_hooks:
    """Tensors of this kind of device that are kept for the backward pass are on the host until then."""

    def pack(tensor: torch.Tensor) -> Any:
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != device or isinstance(tensor, torch.nn.Parameter) or size < _LEAST_BYTES:
            return tensor
        told.bytes += size
        host = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=device != "cpu")
        return tensor.device, host.copy_(tensor)

    def unpack(packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        place, host = packed
        tensor: torch.Tensor = host.to(place, non_blocking=True)
        return tensor

    return saved_tensors_hooks(pack, unpack)


class ChannelsLast(JobLever):
    """Lever `channels-last`: the layout in which convolutions are fastest on most devices.

    Converts when a root is called next, when no backward pass and no optimizer is at work.
    """

    def __init__(self, lever: Lever) -> None:
        super().__init__(lever)
        self._roots: list[_Layout] = []
        self._left: dict[str, None] = {}

    def install(self, job: JobView) -> None:
        def found(root: torch.nn.Module) -> None:
            why_not = _why_not(root)
            if why_not:
                self._left[why_not] = None
                return
            layout = _Layout(root, job.optimizers)
            layout.is_on = self._is_on
            self._roots.append(layout)
            job.chains.of(root).put(LAYOUT, layout.around)

        job.each_root(found)

    def switch(self, on: bool) -> None:
        super().switch(on)
        for layout in self._roots:
            layout.is_on = on

    def took(self) -> LeverEffect:
        parameters = sum(layout.parameters for layout in self._roots)
        inputs = sum(layout.inputs for layout in self._roots)
        if parameters:
            return LeverEffect(True, f"{parameters} parameters, {inputs} inputs per call in channels-last")
        nothing = "no 4-d parameters in another layout" if self._roots else "no module was called"
        return LeverEffect(False, "; ".join(self._left) or nothing)


class _Layout:
    """The layout of one root, its gradients and optimizer states, and of what it is called with."""

    def __init__(self, root: torch.nn.Module, optimizers: Callable[[], Iterable[Optimizer]]) -> None:
        self._root = root
        self._optimizers = optimizers
        self._converted: list[torch.nn.Parameter] = []
        self.around = self._around  # one object, by which the chain knows it
        self.is_on = False
        self.is_converted = False
        self.parameters = 0
        self.inputs = 0

    def _around(self, call: Call) -> Call:
        def laid_out(*args: Any, **kwargs: Any) -> Any:
            if self.is_on != self.is_converted:
                self._convert()
            if not self.is_on:
                return call(*args, **kwargs)
            self.inputs = 0
            args, kwargs = tree_map(self._input, (args, kwargs))
            return call(*args, **kwargs)

        return laid_out

    def _input(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not _can_be_converted(value):
            return value
        self.inputs += 1
        return value.contiguous(memory_format=torch.channels_last)

    def _convert(self) -> None:
        to = torch.channels_last if self.is_on else torch.contiguous_format
        if self.is_on:
            parameters = torch.nn.Module.parameters(self._root)
            self._converted = [parameter for parameter in parameters if _can_be_converted(parameter)]
        states = {id(state): state for optimizer in self._optimizers() for state in [optimizer.state]}
        for parameter in self._converted:
            parameter.data = parameter.data.contiguous(memory_format=to)
            if parameter.grad is not None:
                parameter.grad.data = parameter.grad.data.contiguous(memory_format=to)
            for state in states.values():
                _convert_state(state.get(parameter, {}), parameter, to)
        if self.is_on:
            self.parameters = sum(not parameter.is_contiguous() for parameter in self._converted)
        self.is_converted = self.is_on


def _convert_state(state: dict[str, Any], parameter: torch.Tensor, to: torch.memory_format) -> None:
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
            state[name] = value.contiguous(memory_format=to)


def _can_be_converted(tensor: torch.Tensor) -> bool:
    """4-d, in the usual layout, and in another one afterwards: a kernel of 1 x 1 has both at once."""
    return (
        tensor.dim() == _DIMENSIONS
        and tensor.is_contiguous()
        and not tensor.is_contiguous(memory_format=torch.channels_last)
    )


def _why_not(root: torch.nn.Module) -> str:
    if isinstance(root, DistributedDataParallel):
        return "refused: DDP has laid out the gradients of the model already; convert it before it is wrapped"
    if any(hasattr(parameter, "device_mesh") for parameter in torch.nn.Module.parameters(root)):
        return "refused: the parameters are sharded; convert the model before it is sharded"
    return ""
